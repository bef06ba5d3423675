package kube

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cert-manager/cert-manager/pkg/apis/certmanager"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// IndexPoint finds Services by the points of the edge that their annotation asks for, and by their hosts, and Ingresses by
// the points under which the ledger has what they serve, each as the name of the claim on it; those with too many hosts under
// manyHosts.
const IndexPoint = "point"

// manyHosts is not the name of any claim.
const manyHosts = "many-hosts"

// IndexExposed finds the Services that carry the annotation ingress/http, under the value "true".
const IndexExposed = "exposed"

// Exposing is what a View needs to know of HTTP.
type Exposing struct {
	// Defaults stand in for what annotations leave out.
	Defaults exposure.Defaults
	// MaxHTTPPoints is how many pairs of host and path one Service gets, 0 for any number.
	MaxHTTPPoints int
	// Mapper tells which kinds are installed.
	Mapper meta.RESTMapper
}

// exposing is the part of a View that knows of HTTP.
type exposing struct {
	defaults      exposure.Defaults
	maxHTTPPoints int
	certManager   *presence
}

// AddExposureIndexes adds the indexes of Services and Ingresses to a cache.
func AddExposureIndexes(ctx context.Context, indexer client.FieldIndexer, e Exposing) error {
	requested := func(o client.Object) []string {
		svc := o.(*corev1.Service)
		if _, requests := exposure.Annotation(svc); !requests {
			return nil
		}
		request, _ := exposure.RequestOf(svc, e.Defaults)
		points := request.Points()
		for _, host := range request.Hosts {
			points = append(points, claim.Host(host))
		}
		return claimNames(points)
	}
	exposed := func(o client.Object) []string {
		if _, requests := exposure.Annotation(o.(*corev1.Service)); requests {
			return []string{"true"}
		}
		return nil
	}
	served := func(o client.Object) []string {
		ing := o.(*networkingv1.Ingress)
		if exposure.HasManyHosts(ing) {
			return []string{manyHosts}
		}
		return claimNames(exposure.EntriesOf(ing, e.MaxHTTPPoints))
	}
	if err := indexer.IndexField(ctx, &corev1.Service{}, IndexPoint, requested); err != nil {
		return fmt.Errorf("indexing Services by %s: %w", IndexPoint, err)
	}
	if err := indexer.IndexField(ctx, &corev1.Service{}, IndexExposed, exposed); err != nil {
		return fmt.Errorf("indexing Services by %s: %w", IndexExposed, err)
	}
	if err := indexer.IndexField(ctx, &networkingv1.Ingress{}, IndexPoint, served); err != nil {
		return fmt.Errorf("indexing Ingresses by %s: %w", IndexPoint, err)
	}
	return nil
}

func claimNames(points []claim.Coordinate) []string {
	claims := make([]string, 0, len(points))
	for _, at := range points {
		claims = append(claims, at.Name())
	}
	return claims
}

// Expose tells the view of HTTP.
func (v *View) Expose(e Exposing) {
	v.exposing = exposing{defaults: e.Defaults, maxHTTPPoints: e.MaxHTTPPoints, certManager: &presence{
		mapper: e.Mapper, kind: schema.GroupKind{Group: certmanager.GroupName, Kind: cmv1.CertificateKind}, clock: clock.RealClock{},
	}}
}

// Defaults stand in for what annotations leave out.
func (v *View) Defaults() exposure.Defaults { return v.defaults }

// MaxHTTPPoints is how many pairs of host and path one Service gets, 0 for any number.
func (v *View) MaxHTTPPoints() int { return v.maxHTTPPoints }

// Ingress reads an Ingress, nil when there is none.
func (v *View) Ingress(ctx context.Context, key types.NamespacedName) (*networkingv1.Ingress, error) {
	return read[networkingv1.Ingress](ctx, v, key)
}

// ForeignIngress finds an Ingress of another name than a Service's own that serves a point, nil when there is none; of several
// the one that was created first. It believes the cache only that there is none: one that it finds is looked at live, as a no has
// to be true.
func (v *View) ForeignIngress(ctx context.Context, at claim.Coordinate, own types.NamespacedName) (*networkingv1.Ingress, error) {
	serving, err := v.IngressesAt(ctx, at)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(serving, func(a, b networkingv1.Ingress) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	var keys []types.NamespacedName
	for i := range serving {
		keys = append(keys, client.ObjectKeyFromObject(&serving[i]))
	}
	unseen, err := v.unseenAt(ctx, claim.HostOf(at))
	if err != nil {
		return nil, err
	}
	for _, key := range append(keys, unseen...) {
		if key == own {
			continue
		}
		ing := &networkingv1.Ingress{}
		err := v.tenants.Get(ctx, key, ing)
		if err == nil && exposure.Serves(ing, at) {
			return ing, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	return nil, nil
}

// unseenAt is the Ingress that has the claim on a host, if the cache does not show yet that it serves anything there.
func (v *View) unseenAt(ctx context.Context, host claim.Coordinate) ([]types.NamespacedName, error) {
	held, err := v.Claim(ctx, host.Name())
	if err != nil || held == nil {
		return nil, err
	}
	key := claim.HolderOf(held).Key()
	shown, err := v.IngressesAt(ctx, host)
	if err != nil || slices.ContainsFunc(shown, func(ing networkingv1.Ingress) bool { return client.ObjectKeyFromObject(&ing) == key }) {
		return nil, err
	}
	return []types.NamespacedName{key}, nil
}

// EnteredAt lists the Ingresses of which the ledger has what they serve under a point: a path, if they have few, or a host. On a
// host it lists those as well of which the ledger has nothing, as they have too many hosts. They are the cache's own: nobody may
// change them.
func (v *View) EnteredAt(ctx context.Context, at claim.Coordinate) ([]networkingv1.Ingress, error) {
	entered, err := v.ingressesUnder(ctx, at.Name())
	if err != nil || !at.IsHost() {
		return entered, err
	}
	many, err := v.ingressesUnder(ctx, manyHosts)
	return appendServing(entered, many, at), err
}

// ingressesUnder lists the Ingresses that IndexPoint has under a value.
func (v *View) ingressesUnder(ctx context.Context, value string) ([]networkingv1.Ingress, error) {
	kept, known := v.stores.under(reflect.TypeFor[*networkingv1.Ingress](), IndexPoint, value)
	if !known {
		var list networkingv1.IngressList
		err := v.Reader.List(ctx, &list, client.MatchingFields{IndexPoint: value}, client.UnsafeDisableDeepCopy)
		return list.Items, err
	}
	var ingresses []networkingv1.Ingress
	for _, obj := range kept {
		ingresses = append(ingresses, *obj.(*networkingv1.Ingress))
	}
	return ingresses, nil
}

// appendServing appends those of some Ingresses that serve a point.
func appendServing(to, some []networkingv1.Ingress, at claim.Coordinate) []networkingv1.Ingress {
	for i := range some {
		if exposure.Serves(&some[i], at) {
			to = append(to, some[i])
		}
	}
	return to
}

// IngressesAt lists the Ingresses that serve a path; of a host, those of which the ledger has at most the hosts.
func (v *View) IngressesAt(ctx context.Context, at claim.Coordinate) ([]networkingv1.Ingress, error) {
	serving, err := v.EnteredAt(ctx, at)
	if err != nil || at.IsHost() {
		return serving, err
	}
	large, err := v.EnteredAt(ctx, claim.HostOf(at))
	return appendServing(serving, large, at), err
}

// AskingFor lists the Services that ask for a path, or for any on a host.
func (v *View) AskingFor(ctx context.Context, at claim.Coordinate) ([]corev1.Service, error) {
	var list corev1.ServiceList
	err := v.Reader.List(ctx, &list, client.MatchingFields{IndexPoint: at.Name()})
	return list.Items, err
}

// Exposed lists the Services that carry the annotation.
func (v *View) Exposed(ctx context.Context) ([]corev1.Service, error) {
	var list corev1.ServiceList
	err := v.Reader.List(ctx, &list, client.MatchingFields{IndexExposed: "true"})
	return list.Items, err
}

// StreamsTo lists the streams whose upstream is a Service.
func (v *View) StreamsTo(ctx context.Context, service types.NamespacedName) ([]v1beta1.StreamIngress, error) {
	var list v1beta1.StreamIngressList
	err := v.Reader.List(ctx, &list, client.MatchingFields{IndexUpstream: service.String()})
	return list.Items, err
}

// IngressClass says whether there is an IngressClass of a name; for "" whether one is marked as default.
func (v *View) IngressClass(ctx context.Context, name string) (bool, error) {
	if name != "" {
		class, err := read[networkingv1.IngressClass](ctx, v, types.NamespacedName{Name: name})
		return class != nil, err
	}
	var list networkingv1.IngressClassList
	if err := v.Reader.List(ctx, &list); err != nil {
		return false, err
	}
	for i := range list.Items {
		if list.Items[i].Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return true, nil
		}
	}
	return false, nil
}

// CertManager says whether cert-manager is installed.
func (v *View) CertManager(context.Context) (bool, error) { return v.certManager.installed() }

// CertManagerCame makes the next look for cert-manager a real one. Whoever waits for it does not want to hear what was
// true a moment ago.
func (v *View) CertManagerCame() { v.certManager.lookAgain() }

// Certificate reads a Certificate, nil when there is none, as without cert-manager.
func (v *View) Certificate(ctx context.Context, key types.NamespacedName) (*cmv1.Certificate, error) {
	if installed, err := v.certManager.installed(); !installed {
		return nil, err
	}
	return read[cmv1.Certificate](ctx, v, key)
}

// presence knows whether a kind is installed. A kind that was found is not looked for again. One that was not is looked
// for at most once a second: asking costs requests to the API server.
type presence struct {
	mapper meta.RESTMapper
	kind   schema.GroupKind
	clock  clock.PassiveClock

	mu     sync.Mutex
	found  bool
	looked time.Time
}

func (p *presence) lookAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked = time.Time{}
}

func (p *presence) installed() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found || p.clock.Since(p.looked) < time.Second {
		return p.found, nil
	}
	_, err := p.mapper.RESTMapping(p.kind)
	if err != nil && !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("asking whether %s is installed: %w", p.kind, err)
	}
	p.found, p.looked = err == nil, p.clock.Now()
	return p.found, nil
}
