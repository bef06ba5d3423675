package rules

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

var _ LoadBalancerView = &world{}

// AddressPool implements LoadBalancerView.
func (w *world) AddressPool(_ context.Context, name string) (*v1beta1.AddressPool, error) {
	for _, p := range append(slices.Clone(w.pools), w.unread...) {
		if p.Name == name {
			return p, w.ask("AddressPool")
		}
	}
	return nil, w.ask("AddressPool")
}

// Pools implements LoadBalancerView.
func (w *world) Pools() *addresspool.Book {
	if w.book == nil {
		w.book = addresspool.NewBook(w.pools)
	}
	return w.book
}

// FreeAddress implements LoadBalancerView.
func (w *world) FreeAddress(
	pool *addresspool.Pool, family corev1.IPFamily, points func(netip.Addr) []claim.Coordinate,
) (ip netip.Addr, ok bool) {
	var taken addresspool.Taken
	for {
		ip, ok := pool.Set.FirstFree(family, &taken)
		if !ok || !slices.ContainsFunc(points(ip), w.isTaken) {
			return ip, ok
		}
		taken.Add(ip)
	}
}

func (w *world) isTaken(at claim.Coordinate) bool {
	for other := range w.claims {
		if other == at || other.Address() == at.Address() && (other.Port() == 0 || at.Port() == 0) {
			return true
		}
	}
	return false
}

// GivesNodes implements FrontView.
func (w *world) GivesNodes() bool {
	return slices.ContainsFunc(w.Pools().Pools(), func(p *addresspool.Pool) bool { return p.SourceOrDefault() == v1beta1.SourceNodeIP })
}

// ClassesOnNodes implements NodesView.
func (w *world) ClassesOnNodes(context.Context) ([]v1beta1.StreamIngressClass, error) {
	var on []v1beta1.StreamIngressClass
	for _, c := range w.classes {
		if c.Spec.Service == nil {
			on = append(on, *c)
		}
	}
	return on, w.ask("ClassesOnNodes")
}

// ReservedNodePorts implements LoadBalancerView.
func (w *world) ReservedNodePorts() loadbalancer.PortRanges {
	return loadbalancer.PortRanges{{From: 22}}
}

// MaxPorts implements LoadBalancerView.
func (w *world) MaxPorts() int { return w.maxPorts }

// ClaimedPorts implements LoadBalancerView.
func (w *world) ClaimedPorts(_ context.Context, ip netip.Addr) ([]*v1beta1.EdgeClaim, error) {
	isPort := func(at claim.Coordinate) bool { return at.Address() == ip && at.Port() != 0 }
	return w.claimsWhere(isPort), w.ask("ClaimedPorts")
}

// graceLeft is the same for every claim.
func (w *world) graceLeft(*v1beta1.EdgeClaim) time.Duration { return w.grace }

// edgeWith is a cluster with pools, in which namespace shop has the label team=a.
func edgeWith(pools ...*v1beta1.AddressPool) *world {
	return &world{pools: pools, namespaces: map[string]labels.Set{"shop": {"team": "a"}}}
}

// taken adds the Service shop/<name>, of type LoadBalancer, and its claims on points.
func (w *world) taken(name string, points ...claim.Coordinate) *world {
	w.serviceHolds(name, "", points...).Spec.Type = corev1.ServiceTypeLoadBalancer
	return w
}

// pool is a pool of the source Addresses, or, with no addresses, of the source NodeIP.
func pool(name, addresses string, changes ...poolChange) *v1beta1.AddressPool {
	p := poolOfSource(v1beta1.SourceNodeIP, changes...)
	if addresses != "" {
		p = poolOfSource(v1beta1.SourceAddresses, append([]poolChange{lists(strings.Split(addresses, ",")...)}, changes...)...)
	}
	p.Name = name
	return p
}

// clusterIPPool is a pool of the source ClusterIP.
func clusterIPPool(name string, changes ...poolChange) *v1beta1.AddressPool {
	p := poolOfSource(v1beta1.SourceClusterIP, changes...)
	p.Name = name
	return p
}

func onRequest(s *v1beta1.AddressPoolSpec) { s.AutoAssign = new(false) }

func sharesPorts(s *v1beta1.AddressPoolSpec) { s.Sharing = v1beta1.SharingPorts }

func first(s *v1beta1.AddressPoolSpec) { s.Priority = 1 }

// web is who holds what the Service shop/web has.
var web = claim.ServiceHolder("shop", "web")

type serviceChange func(*corev1.Service)

// asking is the Service shop/web of type LoadBalancer, which has the port TCP/80 and IPv4 only.
func asking(changes ...serviceChange) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Labels: map[string]string{"tier": "edge"}, Annotations: map[string]string{},
	}}
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
	for _, change := range changes {
		change(svc)
	}
	return svc
}

func forPool(name string) serviceChange {
	return func(s *corev1.Service) { s.Annotations[v1beta1.AnnotationAddressPool] = name }
}

func forAddresses(text string) serviceChange {
	return func(s *corev1.Service) { s.Annotations[v1beta1.AnnotationAddresses] = text }
}

func forSharing(sharing string) serviceChange {
	return func(s *corev1.Service) { s.Annotations[v1beta1.AnnotationSharing] = sharing }
}

func onPorts(numbers ...int32) serviceChange {
	return func(s *corev1.Service) {
		s.Spec.Ports = nil
		for _, number := range numbers {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: number})
		}
	}
}

func ipv6Only(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }

// unborn is what a Service is like before the API server has chosen its families and its cluster IPs.
func unborn(s *corev1.Service) { s.Spec.IPFamilies = nil }

// eitherFamily prefers to have an address of each family, bothFamilies insists.
func eitherFamily(s *corev1.Service) {
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}

func bothFamilies(s *corev1.Service) {
	eitherFamily(s)
	s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
}

func withClusterIPs(ips ...string) serviceChange {
	return func(s *corev1.Service) { s.Spec.ClusterIPs = ips }
}

// servedAt has addresses listed in the status.
func servedAt(addresses ...string) serviceChange {
	return func(s *corev1.Service) {
		for _, ip := range addresses {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
}

// balanceOf is a Service with what it asks for, which must be legible, and what it holds.
func balanceOf(t *testing.T, svc *corev1.Service, held ...claim.Coordinate) *Balance {
	t.Helper()
	ask, problems := AsksForAddresses(svc)
	if len(problems) > 0 {
		t.Fatal(verdicts(problems))
	}
	return &Balance{Service: svc, Ask: ask, Held: held}
}

// lotTexts are lots as people read them: the pool and the points, and whether any other address would do.
func lotTexts(lots []loadbalancer.Lot) []string {
	var all []string
	for _, lot := range lots {
		text := lot.Pool.Name
		for _, at := range lot.Points {
			text += " " + at.Name()
		}
		if lot.Drawn {
			text += " drawn"
		}
		all = append(all, text)
	}
	return all
}

// allotted is what a Service, which holds points already, is to have, or why it can't have it.
type allotted struct {
	in   *world
	svc  *corev1.Service
	held []claim.Coordinate
	want []string
	why  []verdict
}

// check compares what is decided, and then proves that it hides no error of any question it asks.
func (a allotted) check(t *testing.T) {
	t.Helper()
	a.in.asked = nil
	if a.in.claims == nil {
		a.in.claims = map[claim.Coordinate]*v1beta1.EdgeClaim{}
	}
	maps.Copy(a.in.claims, claims(web, a.held...))
	lots, problems, err := Allot(t.Context(), a.in, balanceOf(t, a.svc, a.held...), a.in.graceLeft)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a.want, lotTexts(lots)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(a.why, verdicts(problems)); diff != "" {
		t.Error(diff)
	}
	for question := range maps.Clone(a.in.asked) {
		a.in.failing = question
		if lots, problems, err := Allot(t.Context(), a.in, balanceOf(t, a.svc, a.held...), a.in.graceLeft); !errors.Is(err, errAway) {
			t.Errorf("when %s fails it says %v, %v, %v", question, lotTexts(lots), verdicts(problems), err)
		}
	}
	a.in.failing = ""
}

func checkAll(t *testing.T, all map[string]allotted) {
	t.Helper()
	for name, a := range all {
		t.Run(name, func(t *testing.T) { a.check(t) })
	}
}
