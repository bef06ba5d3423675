package kube

import (
	"context"
	"fmt"
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

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// IndexPoint finds Services by the points of the edge that their annotation asks for, and by their hosts, and Ingresses by
// the points under which the ledger has what they serve, each whatever its class; those with too many hosts under manyHosts.
const IndexPoint = "point"

// manyHosts is not the name of any claim.
const manyHosts = "many-hosts"

// IndexExposed finds the Services that carry the annotation ingress/http, under the value "true".
const IndexExposed = "exposed"

// Exposing is what there is to know of HTTP.
type Exposing struct {
	// Defaults stand in for what annotations leave out.
	Defaults exposure.Defaults
	// MaxHTTPPoints is how many pairs of host and path one Service gets, 0 for any number.
	MaxHTTPPoints int
	// Mapper tells which kinds are installed.
	Mapper meta.RESTMapper
	// Namespace is where the replicas of Portcullis run as Pods, empty where they do not.
	Namespace string
}

// Ingresses reads what is exposed by HTTP, and by what.
type Ingresses struct {
	Exposing
	objects     *objects
	certManager *presence
	// replicas are those that claim paths for all classes at once, and withoutHeirs those that know of no heirs of claims.
	replicas, withoutHeirs *replicas
}

// AddExposureIndexes adds the indexes of Services and Ingresses to a cache.
func AddExposureIndexes(ctx context.Context, indexer client.FieldIndexer, e Exposing) error {
	requested := func(svc *corev1.Service) []string {
		if _, requests := exposure.Annotation(svc); !requests {
			return nil
		}
		request, _ := exposure.RequestOf(svc, e.Defaults)
		points := request.Points()
		for _, host := range request.Hosts {
			points = append(points, claim.Host(host))
		}
		return placeNames(points)
	}
	exposed := func(svc *corev1.Service) []string {
		if _, requests := exposure.Annotation(svc); requests {
			return []string{"true"}
		}
		return nil
	}
	served := func(ing *networkingv1.Ingress) []string {
		if exposure.HasManyHosts(ing) {
			return []string{manyHosts}
		}
		return placeNames(exposure.EntriesOf(ing, e.MaxHTTPPoints))
	}
	indexes := []index{
		indexOf(&corev1.Service{}, IndexPoint, requested),
		indexOf(&corev1.Service{}, IndexExposed, exposed),
		indexOf(&networkingv1.Ingress{}, IndexPoint, served),
	}
	for _, k := range hostKinds {
		indexes = append(indexes, index{k.object, indexHost, hostKeys(e.Defaults)})
	}
	return addIndexes(ctx, indexer, indexes...)
}

// placeName is a host or path of any class: the name of the claim on it that names none.
func placeName(at claim.Coordinate) string { return at.ServedBy("").Name() }

func placeNames(points []claim.Coordinate) []string {
	names := make([]string, 0, len(points))
	for _, at := range points {
		names = append(names, placeName(at))
	}
	return names
}

// Expose tells what there is to know of HTTP.
func (r *Ingresses) Expose(e Exposing) {
	r.Exposing, r.certManager = e, &presence{
		mapper: e.Mapper, kind: schema.GroupKind{Group: certmanager.GroupName, Kind: cmv1.CertificateKind}, clock: clock.RealClock{},
	}
	r.replicas = &replicas{are: classless, live: r.objects.live, namespace: e.Namespace, clock: clock.RealClock{}}
	r.withoutHeirs = &replicas{are: withoutHeirs, live: r.objects.live, namespace: e.Namespace, clock: clock.RealClock{}}
}

// Get reads an Ingress, nil when there is none.
func (r *Ingresses) Get(ctx context.Context, key types.NamespacedName) (*networkingv1.Ingress, error) {
	return read[networkingv1.Ingress](ctx, r.objects, key)
}

// Foreign finds an Ingress of another name than somebody's own that serves a point, nil when there is none; of several the one that was
// created first. Without an own name, one of the own namespace keeps all that came later from being found. It believes the cache only that
// there is none in others: one that it finds there is looked at live, by now, as a no has to be true.
func (r *Ingresses) Foreign(
	ctx context.Context, at claim.Coordinate, own types.NamespacedName,
	now func(context.Context, types.NamespacedName) (*networkingv1.Ingress, error),
) (*networkingv1.Ingress, error) {
	serving, err := r.At(ctx, at)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(serving, func(a, b networkingv1.Ingress) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	var keys []types.NamespacedName
	for i := range serving {
		keys = append(keys, client.ObjectKeyFromObject(&serving[i]))
	}
	unseen, err := r.unseenAt(ctx, claim.HostOf(at))
	if err != nil {
		return nil, err
	}
	for _, key := range append(keys, unseen...) {
		if own.Name == "" && key.Namespace == own.Namespace {
			return nil, nil
		}
		if key == own {
			continue
		}
		ing, err := now(ctx, key)
		if err != nil {
			return nil, err
		}
		if ing != nil && exposure.Serves(ing, at) {
			return ing, nil
		}
	}
	return nil, nil
}

// Now reads an Ingress past the cache, nil when there is none.
func (r *Ingresses) Now(ctx context.Context, key types.NamespacedName) (*networkingv1.Ingress, error) {
	return readBy[networkingv1.Ingress](ctx, r.objects.tenants, key)
}

// unseenAt is the Ingress that has the claim on a host, if the cache does not show yet that it serves anything there.
func (r *Ingresses) unseenAt(ctx context.Context, host claim.Coordinate) ([]types.NamespacedName, error) {
	held, err := r.objects.Claim(ctx, host.Name())
	if err == nil && held == nil { // by which an earlier version has entered it
		held, err = r.objects.Claim(ctx, placeName(host))
	}
	if err != nil || held == nil {
		return nil, err
	}
	key := claim.HolderOf(held).Key()
	shown, err := r.At(ctx, host)
	if err != nil || slices.ContainsFunc(shown, func(ing networkingv1.Ingress) bool { return client.ObjectKeyFromObject(&ing) == key }) {
		return nil, err
	}
	return []types.NamespacedName{key}, nil
}

// EnteredAt lists the Ingresses of which the ledger has what they serve under a point: a path, if they have few, or a host. On a
// host it lists those as well of which the ledger has nothing, as they have too many hosts. They are the cache's own: nobody may
// change them.
func (r *Ingresses) EnteredAt(ctx context.Context, at claim.Coordinate) ([]networkingv1.Ingress, error) {
	entered, err := r.ingressesUnder(ctx, placeName(at))
	entered = slices.DeleteFunc(entered, func(ing networkingv1.Ingress) bool { return exposure.ClassOf(&ing) != at.IngressClass() })
	if err != nil || !at.IsHost() {
		return entered, err
	}
	many, err := r.ingressesUnder(ctx, manyHosts)
	return appendServing(entered, many, at), err
}

// ingressesUnder lists the Ingresses that IndexPoint has under a value.
func (r *Ingresses) ingressesUnder(ctx context.Context, value string) ([]networkingv1.Ingress, error) {
	kept, known := keptUnder[*networkingv1.Ingress](r.objects.stores, IndexPoint, value)
	if !known {
		var list networkingv1.IngressList
		err := r.objects.Reader.List(ctx, &list, client.MatchingFields{IndexPoint: value}, client.UnsafeDisableDeepCopy)
		return list.Items, err
	}
	var ingresses []networkingv1.Ingress
	for _, ing := range kept {
		ingresses = append(ingresses, *ing)
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

// At lists the Ingresses that serve a path; of a host, those of which the ledger has at most the hosts.
func (r *Ingresses) At(ctx context.Context, at claim.Coordinate) ([]networkingv1.Ingress, error) {
	serving, err := r.EnteredAt(ctx, at)
	if err != nil || at.IsHost() {
		return serving, err
	}
	large, err := r.EnteredAt(ctx, claim.HostOf(at))
	return appendServing(serving, large, at), err
}

// Around lists the Ingresses that serve a path, or anything on a host, for any class, as far as the ledger has them by that.
func (r *Ingresses) Around(ctx context.Context, at claim.Coordinate) ([]networkingv1.Ingress, error) {
	return r.ingressesUnder(ctx, placeName(at))
}

// AskingFor lists the Services that ask for a path, or for any on a host, for any class.
func (r *Ingresses) AskingFor(ctx context.Context, at claim.Coordinate) ([]corev1.Service, error) {
	var list corev1.ServiceList
	err := r.objects.Reader.List(ctx, &list, client.MatchingFields{IndexPoint: placeName(at)})
	return list.Items, err
}

// Exposed lists the Services of a namespace, or of all for "", that carry the annotation.
func (r *Ingresses) Exposed(ctx context.Context, namespace string) ([]corev1.Service, error) {
	var list corev1.ServiceList
	err := r.objects.Reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{IndexExposed: "true"})
	return list.Items, err
}

// CertManager says whether cert-manager is installed.
func (r *Ingresses) CertManager(context.Context) (bool, error) { return r.certManager.installed() }

// CertManagerCame makes the next look for cert-manager a real one. Whoever waits for it does not want to hear what was
// true a moment ago.
func (r *Ingresses) CertManagerCame() { r.certManager.lookAgain() }

// Certificate reads a Certificate, nil when there is none, as without cert-manager.
func (r *Ingresses) Certificate(ctx context.Context, key types.NamespacedName) (*cmv1.Certificate, error) {
	if installed, err := r.certManager.installed(); !installed {
		return nil, err
	}
	return read[cmv1.Certificate](ctx, r.objects, key)
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
