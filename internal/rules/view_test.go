package rules

import (
	"context"
	"errors"
	"maps"
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
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// world is a View of what is written down here.
type world struct {
	classes    []*v1beta1.StreamIngressClass
	namespaces map[string]labels.Set
	services   map[string]*corev1.Service
	streams    map[string]*v1beta1.StreamIngress
	// grants are "namespace -> namespace/service".
	grants  map[string]bool
	claims  map[claim.Coordinate]*v1beta1.EdgeClaim
	foreign map[stream.PortKey]Foreign
	// pools are in the book, which does not change; unread are stored and not in it yet.
	pools, unread []*v1beta1.AddressPool
	book          *addresspool.Book
	// maxPorts is how many ports one Service gets of what it shares.
	maxPorts int
	// grace is how long a claim is kept whose holder is gone.
	grace time.Duration

	// asked counts the questions, and failing is the one that gets an error for an answer.
	asked   map[string]int
	failing string
}

var _ View = &world{}

var errAway = errors.New("the cluster is away")

func (w *world) ask(question string) error {
	if w.asked == nil {
		w.asked = map[string]int{}
	}
	w.asked[question]++
	if question == w.failing {
		return errAway
	}
	return nil
}

func (w *world) Class(_ context.Context, name string) (*v1beta1.StreamIngressClass, error) {
	for _, c := range w.classes {
		if c.Name == name {
			return c, w.ask("Class")
		}
	}
	return nil, w.ask("Class")
}

func (w *world) Classes(context.Context) ([]v1beta1.StreamIngressClass, error) {
	var all []v1beta1.StreamIngressClass
	for _, c := range w.classes {
		all = append(all, *c)
	}
	return all, w.ask("Classes")
}

func (w *world) NamespaceLabels(_ context.Context, name string) (labels.Set, error) {
	return w.namespaces[name], w.ask("NamespaceLabels")
}

func (w *world) Service(_ context.Context, key types.NamespacedName) (*corev1.Service, error) {
	return w.services[key.String()], w.ask("Service")
}

func (w *world) Stream(_ context.Context, key types.NamespacedName) (*v1beta1.StreamIngress, error) {
	return w.streams[key.String()], w.ask("Stream")
}

func (w *world) IsOutside(_ context.Context, service types.NamespacedName) (bool, error) {
	return service.Name == "sti-outside", w.ask("IsOutside")
}

func (w *world) ClusterDomain() string { return "cluster.local" }

func (w *world) Balances(svc *corev1.Service) bool { return loadbalancer.IsOurs(svc, false) }

func (w *world) Granted(_ context.Context, from string, service types.NamespacedName) (bool, error) {
	return w.grants[from+" -> "+service.String()], w.ask("Granted")
}

func (w *world) Held(_ context.Context, by claim.Holder) ([]claim.Coordinate, error) {
	var held []claim.Coordinate
	for at, c := range w.claims {
		if claim.HolderOf(c) == by {
			held = append(held, at)
		}
	}
	slices.SortFunc(held, claim.Compare)
	return held, w.ask("Held")
}

func (w *world) Claim(_ context.Context, name string) (*v1beta1.EdgeClaim, error) {
	at, err := claim.Parse(name)
	if err != nil {
		return nil, err
	}
	return w.claims[at], w.ask("Claim")
}

func (w *world) ClaimsOfNamespace(_ context.Context, namespace, family string) ([]*v1beta1.EdgeClaim, error) {
	in := func(at claim.Coordinate) bool {
		return claim.ScopeFamily(at.Scope()) == family && w.claims[at].Spec.Holder.Namespace == namespace
	}
	return w.claimsWhere(in), w.ask("ClaimsOfNamespace")
}

func (w *world) Fronts(context.Context) ([]types.NamespacedName, error) {
	var fronts []types.NamespacedName
	for _, c := range w.classes {
		if ref := c.Spec.Service; ref != nil {
			fronts = append(fronts, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return fronts, w.ask("Fronts")
}

func (w *world) Unclaimed(ports *stream.PortSet, class string, protocol v1beta1.Protocol) {
	for at := range w.claims {
		if at.Class() == class && at.Protocol() == protocol {
			ports.Remove(at.Port())
		}
	}
}

func (w *world) Foreign(_ context.Context, class *v1beta1.StreamIngressClass, port stream.PortKey) (Foreign, bool, error) {
	f, ok := w.foreign[port]
	return f, ok && class != nil, w.ask("Foreign")
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

func to(namespace, service, port string) func(*v1beta1.StreamIngress) {
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

// judge runs a rule, compares its verdict, and then proves that it hides no error of any question it asks.
func judge(t *testing.T, w *world, rule func(View) (refusal.Problems, error), want ...verdict) {
	t.Helper()
	got, err := rule(w)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, verdicts(got)); diff != "" {
		t.Error(diff)
	}
	for question := range maps.Clone(w.asked) {
		w.failing = question
		if got, err := rule(w); !errors.Is(err, errAway) {
			t.Errorf("when %s fails it says %v, %v", question, verdicts(got), err)
		}
	}
	w.failing = ""
}
