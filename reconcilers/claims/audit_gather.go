package claims

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/audit"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// atOnce is how many objects are read at once.
const atOnce = 500

// gather reads both sides. The claims come first: a port is claimed before it is opened, so that what opens meanwhile
// looks as if it had no claim, for one look.
func (a *auditor) gather(ctx context.Context) (*audit.Facts, error) {
	facts := audit.NewFacts()
	held, err := a.gatherClaims(ctx, facts)
	if err != nil {
		return nil, err
	}
	var pools v1beta1.AddressPoolList
	if err := a.Live.List(ctx, &pools); err != nil {
		return nil, fmt.Errorf("listing %T: %w", &pools, err)
	}
	for i := range pools.Items {
		facts.AddPool(&pools.Items[i])
		held.byServices.addresses = true // that may be given away
	}
	for page, err := range kube.Pages[v1beta1.StreamIngressList](ctx, a.Live, atOnce) {
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			facts.AddStream(&page.Items[i])
		}
	}
	for page, err := range kube.Pages[networkingv1.IngressList](ctx, a.Live, atOnce) {
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			facts.AddIngress(&page.Items[i], a.View.Ingresses.MaxHTTPPoints)
		}
	}
	if err := a.gatherServices(ctx, facts, held.byServices); err != nil {
		return nil, err
	}
	if held.guarded {
		if err := ignoreNoMatch(a.gatherGuarded(ctx, facts)); err != nil {
			return nil, err
		}
	}
	if err := a.gatherNames(ctx, facts, held.names); err != nil {
		return nil, err
	}
	return facts, a.gatherClasses(ctx, facts)
}

// gatherNames reads which host names some namespaces use, and which paths their routes serve.
func (a *auditor) gatherNames(ctx context.Context, facts *audit.Facts, namespaces map[string]heldNames) error {
	look := a.View.Hosts.Look(a.Live)
	for namespace, held := range namespaces {
		stored, err := look.In(ctx, namespace, held.names, held.paths)
		if err != nil {
			return err
		}
		facts.AddNames(namespace, stored.Hosts, stored.Paths)
	}
	return a.gatherPaths(ctx, facts)
}

// gatherPaths reads which paths routes serve on Gateways: of the cache, as with routes that are on listeners.
func (a *auditor) gatherPaths(ctx context.Context, facts *audit.Facts) error {
	policies := a.View.Hosts.Policies()
	err := a.View.Hosts.EachPath(ctx, func(route hostname.User, at claim.Coordinate) {
		if policies.Owner(at.Host()) == nil {
			facts.AddRoutePath(audit.Object{Holder: route.Holder, UID: route.UID}, at)
		}
	})
	if kube.IsUnread(err) {
		return nil
	}
	return err
}

// heldAll says what has to be read for what is claimed.
type heldAll struct {
	byServices heldByServices
	// guarded says that something on Gateways is, and names are the namespaces that have host names, or paths of routes.
	guarded bool
	names   map[string]heldNames
}

// heldNames says which a namespace has.
type heldNames struct {
	names, paths bool
}

// gatherClaims reads the ledger.
func (a *auditor) gatherClaims(ctx context.Context, facts *audit.Facts) (heldAll, error) {
	held := heldAll{names: map[string]heldNames{}}
	for page, err := range kube.Pages[v1beta1.EdgeClaimList](ctx, a.Live, atOnce) {
		if err != nil {
			return held, err
		}
		for i := range page.Items {
			c := &page.Items[i]
			facts.AddClaim(c, a.Ledger.GraceLeft(c) > 0)
			held.byServices.note(c)
			switch claim.ScopeFamily(c.Spec.Scope) {
			case claim.HostnameScope:
				of := held.names[claim.HolderOf(c).Name]
				of.names = true
				held.names[claim.HolderOf(c).Name] = of
			case claim.HTTPScope:
				if holder := claim.HolderOf(c); holder.IsNamespace() {
					of := held.names[holder.Name]
					of.paths = true
					held.names[holder.Name] = of
				}
			case claim.GatewayScope, claim.RouteScope:
				held.guarded = true
			}
		}
	}
	return held, nil
}

// ignoreNoMatch is an error unless it says that a kind is not installed.
func ignoreNoMatch(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}

// gatherGuarded reads all that can listen on Gateways. The error is one that meta.IsNoMatchError knows where these are not installed.
func (a *auditor) gatherGuarded(ctx context.Context, facts *audit.Facts) error {
	for page, err := range kube.Pages[gatewayv1.GatewayList](ctx, a.Live, atOnce) {
		if err != nil {
			return err
		}
		for i := range page.Items {
			facts.AddGateway(&page.Items[i])
		}
	}
	for page, err := range kube.Pages[gatewayv1.ListenerSetList](ctx, a.Live, atOnce) {
		if err != nil {
			return err
		}
		for i := range page.Items {
			facts.AddListenerSet(&page.Items[i])
		}
	}
	routes, err := a.View.Gateways.GuardedIn(ctx, "") // there are many more of them than matter, and what is asked of them is in the cache
	for _, r := range routes {
		facts.AddRoute(r)
	}
	if kube.IsUnread(err) {
		return nil
	}
	return err
}

// heldByServices says what of Services has to be read: reading them whole costs most of all.
type heldByServices struct {
	paths, addresses bool
}

func (h *heldByServices) note(c *v1beta1.EdgeClaim) {
	at, err := claim.Of(c)
	if err != nil || !claim.HolderOf(c).IsService() {
		return
	}
	h.paths = h.paths || at.IsHTTP()
	h.addresses = h.addresses || at.IsAddress() || at.IsNode()
}

// gatherServices reads what Services ask for. Where no address is given away, their metadata says it.
func (a *auditor) gatherServices(ctx context.Context, facts *audit.Facts, held heldByServices) error {
	switch {
	case held.addresses:
		for page, err := range kube.Pages[corev1.ServiceList](ctx, a.Live, atOnce) {
			if err != nil {
				return err
			}
			for i := range page.Items {
				facts.AddService(&page.Items[i], a.defaults)
				facts.AddLoadBalancer(&page.Items[i])
			}
		}
	case held.paths:
		for page, err := range kube.PagesOf(ctx, a.Live, serviceMetadata, atOnce) {
			if err != nil {
				return err
			}
			for i := range page.Items {
				facts.AddService(&page.Items[i], a.defaults)
			}
		}
	}
	return nil
}

// serviceMetadata is an empty list of the metadata of Services.
func serviceMetadata() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	return list
}

// gatherClasses reads the classes and what they write to.
func (a *auditor) gatherClasses(ctx context.Context, facts *audit.Facts) error {
	var classes v1beta1.StreamIngressClassList
	if err := a.Live.List(ctx, &classes); err != nil {
		return fmt.Errorf("listing %T: %w", &classes, err)
	}
	for i := range classes.Items {
		class := &classes.Items[i]
		targets := audit.Targets{ConfigMaps: map[v1beta1.Protocol]*corev1.ConfigMap{}}
		for _, protocol := range []v1beta1.Protocol{v1beta1.TCP, v1beta1.UDP} {
			cm := &corev1.ConfigMap{}
			if found, err := a.target(ctx, class.ConfigMap(protocol), cm); err != nil {
				return err
			} else if found {
				targets.ConfigMaps[protocol] = cm
			}
		}
		svc := &corev1.Service{}
		if found, err := a.target(ctx, class.Spec.Service, svc); err != nil {
			return err
		} else if found {
			targets.Service = svc
		}
		if err := a.gatherGateway(ctx, class, &targets); err != nil {
			return err
		}
		facts.AddClass(class, targets)
	}
	return nil
}

// gatherGateway reads the Gateway of a class, and what is attached to it.
func (a *auditor) gatherGateway(ctx context.Context, class *v1beta1.StreamIngressClass, targets *audit.Targets) error {
	gateway := &gatewayv1.Gateway{}
	found, err := a.target(ctx, class.Spec.Gateway, gateway)
	if meta.IsNoMatchError(err) || err == nil && !found {
		return nil
	}
	if err != nil {
		return err
	}
	targets.Gateway = gateway
	for page, err := range kube.Pages[gatewayv1.GatewayList](ctx, a.Live, atOnce) {
		if err != nil {
			return err
		}
		for i := range page.Items {
			if other := &page.Items[i]; other.UID != gateway.UID && stream.HaveInCommon(gateway, other) {
				targets.Sharing = append(targets.Sharing, other)
			}
		}
	}
	return a.gatherListeners(ctx, append([]*gatewayv1.Gateway{gateway}, targets.Sharing...), targets)
}

// gatherListeners reads what is attached to some Gateways.
func (a *auditor) gatherListeners(ctx context.Context, gateways []*gatewayv1.Gateway, targets *audit.Targets) error {
	for page, err := range kube.Pages[gatewayv1.ListenerSetList](ctx, a.Live, atOnce) {
		if meta.IsNoMatchError(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range page.Items {
			set := &page.Items[i]
			at := slices.IndexFunc(gateways, func(g *gatewayv1.Gateway) bool { return kube.GatewayOf(set) == client.ObjectKeyFromObject(g) })
			if at < 0 {
				continue
			}
			attaches, err := a.View.Gateways.Attaches(ctx, gateways[at], set)
			if err != nil {
				return err
			}
			if attaches {
				targets.ListenerSets = append(targets.ListenerSets, *set)
			}
		}
	}
	return nil
}

// target reads an object that a class names; found is false when there is none.
func (a *auditor) target(ctx context.Context, ref *v1beta1.ObjectReference, into client.Object) (found bool, err error) {
	if ref == nil {
		return false, nil
	}
	err = a.Live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, into)
	return err == nil, client.IgnoreNotFound(err)
}
