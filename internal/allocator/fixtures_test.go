package allocator

import (
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// since is when all claims of the tests were made.
var since = time.Date(2026, 7, 1, 12, 30, 0, 0, time.UTC)

// claims are claims of one holder on some points.
func claims(by claim.Holder, points ...claim.Coordinate) map[claim.Coordinate]*v1beta1.EdgeClaim {
	all := map[claim.Coordinate]*v1beta1.EdgeClaim{}
	for _, at := range points {
		c := claim.New(at, claim.Claimant{Holder: by, UID: "u", Generation: 1})
		c.CreationTimestamp = metav1.NewTime(since)
		all[at] = c
	}
	return all
}

func both(a, b map[claim.Coordinate]*v1beta1.EdgeClaim) map[claim.Coordinate]*v1beta1.EdgeClaim {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func tcp(port int32) claim.Coordinate { return claim.Stream("public", v1beta1.TCP, port) }

// class is a class with a Service of its own.
func class(name string, change ...func(*v1beta1.StreamIngressClass)) *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{}
	c.Name = name
	c.Spec.Service = &v1beta1.ObjectReference{Namespace: "edge", Name: name}
	for _, f := range change {
		f(c)
	}
	return c
}

func onHostNetwork(c *v1beta1.StreamIngressClass) { c.Spec.Service = nil }

func at(ip string) claim.Coordinate { return claim.Address(netip.MustParseAddr(ip)) }

func portAt(ip string, port int32) claim.Coordinate {
	return claim.AddressPort(netip.MustParseAddr(ip), "TCP", port)
}

type poolChange func(*v1beta1.AddressPoolSpec)

func poolOfSource(source v1beta1.AddressSource, changes ...poolChange) *v1beta1.AddressPool {
	p := &v1beta1.AddressPool{Spec: v1beta1.AddressPoolSpec{Source: source}}
	p.Name = "pool"
	if source == v1beta1.SourceAddresses {
		p.Spec.Addresses = []string{"192.0.2.0/28"}
	}
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

func lists(addresses ...string) poolChange {
	return func(s *v1beta1.AddressPoolSpec) { s.Addresses = addresses }
}

func forTier(tier string) poolChange {
	return func(s *v1beta1.AddressPoolSpec) {
		s.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}
	}
}

func forTeam(team string) poolChange {
	return func(s *v1beta1.AddressPoolSpec) {
		s.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
}

func avoidBuggy(s *v1beta1.AddressPoolSpec) { s.AvoidBuggyIPs = true }

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
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
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

// subjectOf is a Service with what it asks for, which must be legible, and what it holds.
func subjectOf(t *testing.T, svc *corev1.Service, held ...claim.Coordinate) *Subject {
	t.Helper()
	request, problems := loadbalancer.RequestOf(svc)
	if len(problems) > 0 {
		t.Fatal(verdicts(problems))
	}
	return &Subject{Service: svc, Request: request, Held: held}
}

// allocationTexts are allocations as people read them: the pool and the points, and whether any other address would do.
func allocationTexts(allocations []Allocation) []string {
	var all []string
	for _, allocation := range allocations {
		text := allocation.Pool.Name
		for _, at := range allocation.Points {
			text += " " + at.Name()
		}
		if allocation.AutoAssigned {
			text += " auto-assigned"
		}
		all = append(all, text)
	}
	return all
}

// allocated is what a Service, which holds points already, is to have, or why it can't have it.
type allocated struct {
	in   *cluster
	svc  *corev1.Service
	held []claim.Coordinate
	want []string
	why  []verdict
}

// verdict is a problem as people read it.
type verdict struct{ Reason, Text string }

func verdicts(problems refusal.Problems) []verdict {
	var all []verdict
	for _, p := range problems {
		all = append(all, verdict{p.Reason, p.Err.Error()})
	}
	return all
}

// check compares what is decided, and then proves that a decision comes whichever question the cluster fails to answer.
func (a allocated) check(t *testing.T) {
	t.Helper()
	a.in.asked = 0
	if a.in.claims == nil {
		a.in.claims = map[claim.Coordinate]*v1beta1.EdgeClaim{}
	}
	maps.Copy(a.in.claims, claims(web, a.held...))
	subject := subjectOf(t, a.svc, a.held...)
	d := Allocate(a.in, subject, a.in.graceLeft)
	if diff := cmp.Diff(a.want, allocationTexts(d.Allocations)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(a.why, verdicts(d.Problems)); diff != "" {
		t.Error(diff)
	}
	a.in.failAfterEach(func() { Allocate(a.in, subject, a.in.graceLeft) })
}

func checkAll(t *testing.T, all map[string]allocated) {
	t.Helper()
	for name, a := range all {
		t.Run(name, func(t *testing.T) { a.check(t) })
	}
}
