package stream

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// facts are Facts that are written down here.
type facts struct {
	classes    []*v1beta1.StreamIngressClass
	namespaces map[string]labels.Set
	services   map[string]*corev1.Service
	streams    map[string]*v1beta1.StreamIngress
	// grants are "namespace -> namespace/service".
	grants  map[string]bool
	claims  map[claim.Coordinate]*v1beta1.EdgeClaim
	foreign map[PortKey]Foreign
	// givesNodes: there is a pool of the nodes' addresses.
	givesNodes bool

	// asked are the questions so far. The cluster is away when failing is asked, as failed says from then on: every question is
	// answered with nothing, as kube.Facts do.
	asked   map[string]bool
	failing string
	failed  bool
}

var _ Facts = &facts{}

// answer is the answer to a question, nothing while the cluster is away.
func answer[T any](f *facts, question string, is T) (given T) {
	if f.asked == nil {
		f.asked = map[string]bool{}
	}
	f.asked[question] = true
	f.failed = f.failed || question == f.failing
	if !f.failed {
		given = is
	}
	return given
}

func (f *facts) Class(name string) *v1beta1.StreamIngressClass {
	i := slices.IndexFunc(f.classes, func(c *v1beta1.StreamIngressClass) bool { return c.Name == name })
	if i < 0 {
		return answer[*v1beta1.StreamIngressClass](f, "Class", nil)
	}
	return answer(f, "Class", f.classes[i])
}

func (f *facts) Classes() []v1beta1.StreamIngressClass {
	return answer(f, "Classes", f.classesWhere(nil))
}

func (f *facts) ClassesOnNodes() []v1beta1.StreamIngressClass {
	return answer(f, "ClassesOnNodes", f.classesWhere(func(c *v1beta1.StreamIngressClass) bool { return c.Spec.Service == nil }))
}

func (f *facts) classesWhere(wanted func(*v1beta1.StreamIngressClass) bool) (all []v1beta1.StreamIngressClass) {
	for _, c := range f.classes {
		if wanted == nil || wanted(c) {
			all = append(all, *c)
		}
	}
	return all
}

func (f *facts) NamespaceLabels(name string) labels.Set {
	return answer(f, "NamespaceLabels", f.namespaces[name])
}

func (f *facts) Service(key types.NamespacedName) *corev1.Service {
	return answer(f, "Service", f.services[key.String()])
}

func (f *facts) Stream(key types.NamespacedName) *v1beta1.StreamIngress {
	return answer(f, "Stream", f.streams[key.String()])
}

func (f *facts) IsOutside(service types.NamespacedName) bool {
	return answer(f, "IsOutside", service.Name == "sti-outside")
}

func (f *facts) ClusterDomain() string { return "cluster.local" }

func (f *facts) IsOurs(svc *corev1.Service) bool { return loadbalancer.IsOurs(svc, false) }

func (f *facts) Listing(ip netip.Addr) (listing []*corev1.Service) {
	for _, svc := range f.services {
		at := loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)
		if slices.Contains(at, ip) && !slices.ContainsFunc(slices.Collect(maps.Keys(f.claims)), func(at claim.Coordinate) bool {
			return claim.HolderOf(f.claims[at]) == claim.ServiceHolder(svc.Namespace, svc.Name)
		}) {
			listing = append(listing, svc)
		}
	}
	return answer(f, "Listing", listing)
}

func (f *facts) ListingOnNodes(at claim.Coordinate) (listing []*corev1.Service) {
	for _, svc := range f.services {
		if len(svc.Status.LoadBalancer.Ingress) > 1 && loadbalancer.HasPort(svc, at) {
			listing = append(listing, svc)
		}
	}
	return answer(f, "ListingOnNodes", listing)
}

func (f *facts) StillLists(svc *corev1.Service, _ claim.Coordinate) bool {
	return answer(f, "StillLists", svc.Labels["moved"] == "")
}

func (f *facts) Granted(from string, service types.NamespacedName) bool {
	return answer(f, "Granted", f.grants[from+" -> "+service.String()])
}

func (f *facts) Held(by claim.Holder) []claim.Coordinate {
	var held []claim.Coordinate
	for at, c := range f.claims {
		if claim.HolderOf(c) == by {
			held = append(held, at)
		}
	}
	slices.SortFunc(held, claim.Compare)
	return answer(f, "Held", held)
}

func (f *facts) Claim(name string) *v1beta1.EdgeClaim {
	at, err := claim.Parse(name)
	if err != nil {
		panic(err)
	}
	return answer(f, "Claim", f.claims[at])
}

func (f *facts) claimsWhere(wanted func(claim.Coordinate) bool) (all []*v1beta1.EdgeClaim) {
	for at, c := range f.claims {
		if wanted(at) {
			all = append(all, c)
		}
	}
	return all
}

func (f *facts) ClaimsOfNamespace(namespace, family string) []*v1beta1.EdgeClaim {
	return answer(f, "ClaimsOfNamespace", f.claimsWhere(func(at claim.Coordinate) bool {
		return claim.ScopeFamily(at.Scope()) == family && f.claims[at].Spec.Holder.Namespace == namespace
	}))
}

func (f *facts) ClaimedPorts(ip netip.Addr) []*v1beta1.EdgeClaim {
	return answer(f, "ClaimedPorts", f.claimsWhere(func(at claim.Coordinate) bool { return at.Address() == ip && at.Port() != 0 }))
}

func (f *facts) NodePortClaims() []*v1beta1.EdgeClaim {
	return answer(f, "NodePortClaims", f.claimsWhere(claim.Coordinate.IsNode))
}

func (f *facts) ReservedNodePorts() loadbalancer.PortRanges {
	return loadbalancer.PortRanges{{From: 22}}
}

func (f *facts) Unclaimed(ports *PortSet, class string, protocol v1beta1.Protocol) {
	for at := range f.claims {
		if at.Class() == class && at.Protocol() == protocol {
			ports.Remove(at.Port())
		}
	}
}

func (f *facts) GivesNodes() bool { return f.givesNodes }

func (f *facts) Foreign(class *v1beta1.StreamIngressClass, port PortKey) (Foreign, bool) {
	found, ok := f.foreign[port]
	ok = answer(f, "Foreign", ok && class != nil)
	if !ok {
		return Foreign{}, false
	}
	return found, true
}

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
func udp(port int32) claim.Coordinate { return claim.Stream("public", v1beta1.UDP, port) }

// class is a class with ConfigMaps and a Service of its own.
func class(name string, change ...func(*v1beta1.StreamIngressClass)) *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{}
	c.Name = name
	c.Spec = v1beta1.StreamIngressClassSpec{
		TCPConfigMap: &v1beta1.ObjectReference{Namespace: "edge", Name: name + "-tcp"},
		UDPConfigMap: &v1beta1.ObjectReference{Namespace: "edge", Name: name + "-udp"},
		Service:      &v1beta1.ObjectReference{Namespace: "edge", Name: name},

		OutsideUpstreams: v1beta1.OutsideAllowed,
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func isDefault(c *v1beta1.StreamIngressClass) {
	c.Annotations = map[string]string{v1beta1.AnnotationDefaultClass: "true"}
}

func autoAssign(from, to int32) func(*v1beta1.StreamIngressClass) {
	return func(c *v1beta1.StreamIngressClass) { c.Spec.AutoAssign = &v1beta1.PortRange{From: from, To: to} }
}

func reserved(from, to int32) func(*v1beta1.StreamIngressClass) {
	return func(c *v1beta1.StreamIngressClass) {
		c.Spec.Reserved = append(c.Spec.Reserved, v1beta1.PortRange{From: from, To: to})
	}
}

func allow(from, to int32, team string) func(*v1beta1.StreamIngressClass) {
	return func(c *v1beta1.StreamIngressClass) {
		rule := v1beta1.PortAllowance{From: from, To: to}
		if team != "" {
			rule.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
		}
		c.Spec.Allow = append(c.Spec.Allow, rule)
	}
}

func onHostNetwork(c *v1beta1.StreamIngressClass) { c.Spec.Service = nil }

func upstreams(from v1beta1.UpstreamNamespaces) func(*v1beta1.StreamIngressClass) {
	return func(c *v1beta1.StreamIngressClass) { c.Spec.UpstreamNamespaces = from }
}

// sti is the stream shop/postgres on class public, to shop/db:5432.
func sti(change ...func(*v1beta1.StreamIngress)) *v1beta1.StreamIngress {
	s := &v1beta1.StreamIngress{}
	s.Namespace, s.Name = "shop", "postgres"
	s.Spec.ClassName = "public"
	s.Spec.Upstream = v1beta1.StreamUpstream{Service: "db", Port: intstr.FromInt32(5432)}
	for _, f := range change {
		f(s)
	}
	return s
}

func named(namespace, name string) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) { s.Namespace, s.Name = namespace, name }
}

func of(class string) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) { s.Spec.ClassName = class }
}

func servedBy(class string, listen int32) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) { s.Status.ClassName, s.Status.Listen = class, listen }
}

func listen(port int32) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) { s.Spec.Listen = &port }
}

func isUDP(s *v1beta1.StreamIngress) { s.Spec.Protocol = v1beta1.UDP }

func leadingTo(namespace, service, port string) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) {
		s.Spec.Upstream = v1beta1.StreamUpstream{Namespace: namespace, Service: service, Port: intstr.Parse(port)}
	}
}

func outside(host string) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) {
		s.Spec.IsService, s.Spec.Upstream = new(false), v1beta1.StreamUpstream{Host: host, Port: intstr.FromInt32(5432)}
	}
}

// db is a Service with ports sql (TCP/5432) and stats (UDP/8125).
var db = &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
	{Name: "sql", Protocol: corev1.ProtocolTCP, Port: 5432}, {Name: "stats", Protocol: corev1.ProtocolUDP, Port: 8125},
}}}

// verdict is a problem as people read it.
type verdict struct{ Reason, Text string }

func verdicts(problems refusal.Problems) []verdict {
	var all []verdict
	for _, p := range problems {
		all = append(all, verdict{p.Reason, p.Err.Error()})
	}
	return all
}

// decide runs a rule with each question that it asks failing in turn: it must ask it again, and run on with nothing. Then it
// compares the rule's verdict on all the facts. kube.Decide is what keeps the others from being told: see its tests.
func decide(t *testing.T, f *facts, rule func(Facts) refusal.Problems, want ...verdict) {
	t.Helper()
	rule(f)
	for question := range maps.Clone(f.asked) {
		f.failing, f.failed = question, false
		rule(f)
		if !f.failed {
			t.Errorf("%s is asked only some times", question)
		}
	}
	f.failing, f.failed = "", false
	if diff := cmp.Diff(want, verdicts(rule(f))); diff != "" {
		t.Error(diff)
	}
}
