package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Consent is the leave of a namespace that streams of another lead to a Service there.
type Consent struct {
	// From is the namespace of the streams.
	From string
	// To is the Service, without a name for all of its namespace.
	To types.NamespacedName
}

// covers says whether a consent is one that a stream of a namespace leads to a Service.
func (c Consent) covers(from string, service types.NamespacedName) bool {
	return c.From == from && c.To.Namespace == service.Namespace && (c.To.Name == "" || c.To.Name == service.Name)
}

// Consents knows who consents to what, by the ReferenceGrants of a cache. To ask it takes as long with one grant as with
// thousands: any tenant may write as many as it likes, and have as many streams judged by them.
type Consents struct {
	informers cache.Informers

	mu           sync.RWMutex
	registration toolscache.ResourceEventHandlerRegistration
	grants       map[types.NamespacedName]*gatewayv1beta1.ReferenceGrant
	// given has what the grants give, by the namespace that gives it and the namespace of the streams.
	given map[string]map[string]*given
	// watchers are called with the consents that were given or withdrawn.
	watchers []func([]Consent)
}

// given is what one namespace gives the streams of another.
type given struct {
	// grants are the ReferenceGrants that name the other.
	grants []*gatewayv1beta1.ReferenceGrant
	// services counts these for each Service, "" for all of them. It is nil until somebody asks: a grant names up to 16 namespaces
	// and as many Services, and whoever writes it has streams in few.
	services map[string]int
}

func (g *given) count(grant *gatewayv1beta1.ReferenceGrant, by int) {
	if g.services == nil {
		return
	}
	for _, service := range servicesOf(grant.Spec.To) {
		if g.services[service] += by; g.services[service] == 0 {
			delete(g.services, service)
		}
	}
}

// has says, once somebody has asked, whether streams may lead to a Service; for "" whether to all of them.
func (g *given) has(service string) bool {
	return g != nil && (g.services[service] > 0 || g.services[""] > 0)
}

func newConsents(informers cache.Informers) *Consents {
	return &Consents{
		informers: informers, grants: map[types.NamespacedName]*gatewayv1beta1.ReferenceGrant{}, given: map[string]map[string]*given{},
	}
}

// Follow makes sure that the cache keeps ReferenceGrants, and that all of them have been read. The kind may be installed later, so
// that whoever needs it asks; until then the error is one that meta.IsNoMatchError knows.
func (b *Consents) Follow(ctx context.Context) error {
	registration, err := b.register(ctx)
	if err != nil {
		return err
	}
	select {
	case <-registration.HasSyncedChecker().Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Consents) register(ctx context.Context) (toolscache.ResourceEventHandlerRegistration, error) {
	b.mu.RLock()
	registration := b.registration
	b.mu.RUnlock()
	if registration != nil {
		return registration, nil
	}
	informer, err := b.informers.GetInformer(ctx, &gatewayv1beta1.ReferenceGrant{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.registration == nil {
		b.registration, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
			// Nobody has been told anything by less than the whole list, so that there is nothing to tell anew.
			AddFunc:    func(obj any, isFirst bool) { b.set(obj, true, !isFirst) },
			UpdateFunc: func(_, obj any) { b.set(obj, true, true) },
			DeleteFunc: func(obj any) { b.set(obj, false, true) },
		})
	}
	return b.registration, err
}

// set notes a ReferenceGrant, or that it is gone.
func (b *Consents) set(obj any, there, tell bool) {
	grant, ok := objectOf(obj).(*gatewayv1beta1.ReferenceGrant)
	if !ok {
		return
	}
	changed, watchers := b.enter(grant, there, tell)
	if len(changed) == 0 {
		return
	}
	for _, watcher := range watchers {
		watcher(changed)
	}
}

// enter notes a ReferenceGrant, or that it is gone. It returns the consents that this gives or withdraws, as far as anybody has
// asked for them, and whom to tell.
func (b *Consents) enter(grant *gatewayv1beta1.ReferenceGrant, there, tell bool) (changed []Consent, watchers []func([]Consent)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := types.NamespacedName{Namespace: grant.Namespace, Name: grant.Name}
	before, after := b.grants[key], grant
	if b.grants[key] = grant; !there {
		after = nil
		delete(b.grants, key)
	}
	var concerned []Consent
	if tell && !(before != nil && after != nil && equality.Semantic.DeepEqual(before.Spec, after.Spec)) {
		concerned = append(consentsOf(before), consentsOf(after)...)
	}
	had := make(map[Consent]bool, len(concerned))
	for _, c := range concerned {
		if g := b.of(c); g == nil || g.services == nil {
			changed = append(changed, c) // nobody has asked, so that it is not known
		} else {
			had[c] = g.has(c.To.Name)
		}
	}
	b.remove(before)
	b.add(after)
	for c, had := range had {
		if b.of(c).has(c.To.Name) != had {
			changed = append(changed, c)
		}
	}
	b.tidy(before)
	return changed, slices.Clone(b.watchers)
}

// of is what the namespace of a consent gives the streams of the other, nil for nothing. The lock must be held, as for the others.
func (b *Consents) of(c Consent) *given { return b.given[c.To.Namespace][c.From] }

func (b *Consents) remove(grant *gatewayv1beta1.ReferenceGrant) {
	for _, from := range namespacesOf(grant) {
		if g := b.given[grant.Namespace][from]; g != nil {
			g.grants = slices.DeleteFunc(g.grants, func(one *gatewayv1beta1.ReferenceGrant) bool { return one == grant })
			g.count(grant, -1)
		}
	}
}

func (b *Consents) add(grant *gatewayv1beta1.ReferenceGrant) {
	for _, from := range namespacesOf(grant) {
		if b.given[grant.Namespace] == nil {
			b.given[grant.Namespace] = map[string]*given{}
		}
		g := b.given[grant.Namespace][from]
		if g == nil {
			g = &given{}
			b.given[grant.Namespace][from] = g
		}
		g.grants = append(g.grants, grant)
		g.count(grant, 1)
	}
}

// tidy forgets what no ReferenceGrant gives any longer of what one gave.
func (b *Consents) tidy(gone *gatewayv1beta1.ReferenceGrant) {
	for _, from := range namespacesOf(gone) {
		if g := b.given[gone.Namespace][from]; g != nil && len(g.grants) == 0 {
			delete(b.given[gone.Namespace], from)
		}
		if len(b.given[gone.Namespace]) == 0 {
			delete(b.given, gone.Namespace)
		}
	}
}

// has says whether a consent is given.
func (b *Consents) has(c Consent) bool {
	b.mu.RLock()
	g := b.of(c)
	if g == nil || g.services != nil {
		defer b.mu.RUnlock()
		return g.has(c.To.Name)
	}
	b.mu.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if g = b.of(c); g != nil && g.services == nil {
		g.services = map[string]int{}
		for _, grant := range g.grants {
			g.count(grant, 1)
		}
	}
	return g.has(c.To.Name)
}

// consentsOf are the consents that a ReferenceGrant gives, none for nil.
func consentsOf(grant *gatewayv1beta1.ReferenceGrant) (consents []Consent) {
	for _, from := range namespacesOf(grant) {
		for _, service := range servicesOf(grant.Spec.To) {
			consents = append(consents, Consent{From: from, To: types.NamespacedName{Namespace: grant.Namespace, Name: service}})
		}
	}
	return consents
}

// namespacesOf are the namespaces to whose streams a ReferenceGrant gives its consent, none for nil.
func namespacesOf(grant *gatewayv1beta1.ReferenceGrant) (names []string) {
	if grant == nil {
		return nil
	}
	for _, f := range grant.Spec.From {
		if name := string(f.Namespace); fromStreams(f) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// servicesOf are the names of the Services that a ReferenceGrant is for, only "" if it is for all.
func servicesOf(to []gatewayv1beta1.ReferenceGrantTo) (names []string) {
	for _, t := range to {
		switch {
		case !toServices(t):
		case t.Name == nil:
			return []string{""}
		case *t.Name != "":
			names = append(names, string(*t.Name))
		}
	}
	return names
}

// OnChange has a function called with consents that were given or withdrawn, after Granted says so. What is read of a kind
// for the first time is not told.
func (b *Consents) OnChange(changed func([]Consent)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers = append(b.watchers, changed)
}

// Granted answers Facts.Granted. Where the Gateway API is not installed, nothing is granted.
func (v *View) Granted(ctx context.Context, from string, service types.NamespacedName) (bool, error) {
	if err := v.Consents.Follow(ctx); err != nil {
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading ReferenceGrants of namespace %s: %w", service.Namespace, err)
	}
	return v.Consents.has(Consent{From: from, To: service}), nil
}

func fromStreams(f gatewayv1beta1.ReferenceGrantFrom) bool {
	return f.Group == v1beta1.GroupName && f.Kind == "StreamIngress"
}

func toServices(t gatewayv1beta1.ReferenceGrantTo) bool {
	return t.Group == corev1.GroupName && t.Kind == "Service"
}
