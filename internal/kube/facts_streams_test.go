package kube

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// edgeReader has a class whose proxy shares an address and the nodes, and gives a namespace one port. Somebody else's stream has
// TCP/6379 of it, and its ConfigMap an entry that is not ours. The question that is failing gets an error for an answer.
type edgeReader struct {
	// All nil: what is asked only of other features.
	Reader
	claimReader
	loadBalancerReader

	class   *v1beta1.StreamIngressClass
	claims  map[claim.Coordinate]*v1beta1.EdgeClaim
	asked   map[string]bool
	failing string
}

func (r *edgeReader) features() features {
	return features{claims: r, streams: r, targets: r, loadBalancers: r}
}

func newEdgeReader() *edgeReader {
	class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}}
	class.Annotations = map[string]string{v1beta1.AnnotationDefaultClass: "true"}
	class.Spec = v1beta1.StreamIngressClassSpec{
		TCPConfigMap:       &v1beta1.ObjectReference{Namespace: "edge", Name: "tcp"},
		Service:            &v1beta1.ObjectReference{Namespace: "edge", Name: "proxy"},
		UpstreamNamespaces: v1beta1.UpstreamGranted,
		AutoAssign:         &v1beta1.PortRange{From: 6000, To: 6999},
		Allow:              []v1beta1.PortAllowance{{From: 6000, To: 6999, MaxPerNamespace: 1}},
		OutsideUpstreams:   v1beta1.OutsideDenied,
	}
	r := &edgeReader{class: class, claims: map[claim.Coordinate]*v1beta1.EdgeClaim{}, asked: map[string]bool{}}
	proxy := claim.ServiceHolder("edge", "proxy")
	r.hold(proxy, claim.AddressPort(netip.MustParseAddr("192.0.2.1"), "TCP", 443), claim.NodePort("TCP", 443))
	r.hold(claim.StreamHolder("team", "redis"), claim.Stream("public", v1beta1.TCP, 6379))
	return r
}

func (r *edgeReader) hold(by claim.Holder, points ...claim.Coordinate) {
	for _, at := range points {
		r.claims[at] = claim.New(at, claim.Claimant{Holder: by, UID: "u"})
	}
}

// replyTo is the answer to a question, or an error.
func replyTo[T any](r *edgeReader, question string, is T) (T, error) {
	r.asked[question] = true
	if question == r.failing {
		var none T
		return none, errAway
	}
	return is, nil
}

func (r *edgeReader) claimsWhere(wanted func(claim.Coordinate, *v1beta1.EdgeClaim) bool) (all []*v1beta1.EdgeClaim) {
	for at, c := range r.claims {
		if wanted(at, c) {
			all = append(all, c)
		}
	}
	return all
}

func (r *edgeReader) Claim(_ context.Context, name string) (*v1beta1.EdgeClaim, error) {
	at, err := claim.Parse(name)
	if err != nil {
		return nil, err
	}
	return replyTo(r, "Claim", r.claims[at])
}

func (r *edgeReader) Service(_ context.Context, key types.NamespacedName) (*corev1.Service, error) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	if key.Name != "proxy" {
		svc = nil
	}
	return replyTo(r, "Service", svc)
}

func (r *edgeReader) Listing(context.Context, netip.Addr) ([]*corev1.Service, error) {
	return replyTo(r, "Listing", []*corev1.Service{served("x", "192.0.2.1", 80)})
}

func (r *edgeReader) ListingOnNodes(context.Context, claim.Coordinate) ([]*corev1.Service, error) {
	return replyTo(r, "ListingOnNodes", []*corev1.Service{served("x", "192.0.2.1", 80)})
}

// ServiceNow is what StillLists asks.
func (r *edgeReader) ServiceNow(context.Context, types.NamespacedName) (*corev1.Service, error) {
	return replyTo[*corev1.Service](r, "StillLists", nil)
}

func (r *edgeReader) NamespaceLabels(context.Context, string) (labels.Set, error) {
	return replyTo(r, "NamespaceLabels", labels.Set{})
}

func (r *edgeReader) Held(_ context.Context, by claim.Holder) ([]claim.Coordinate, error) {
	var held []claim.Coordinate
	for at, c := range r.claims {
		if claim.HolderOf(c) == by {
			held = append(held, at)
		}
	}
	slices.SortFunc(held, claim.Compare)
	return replyTo(r, "Held", held)
}

func (r *edgeReader) OfNamespace(_ context.Context, namespace, _ string) ([]*v1beta1.EdgeClaim, error) {
	return replyTo(r, "ClaimsOfNamespace", r.claimsWhere(func(_ claim.Coordinate, c *v1beta1.EdgeClaim) bool {
		return c.Spec.Holder.Namespace == namespace
	}))
}

func (r *edgeReader) OnPorts(_ context.Context, ip netip.Addr) ([]*v1beta1.EdgeClaim, error) {
	return replyTo(r, "ClaimedPorts", r.claimsWhere(func(at claim.Coordinate, _ *v1beta1.EdgeClaim) bool { return at.Address() == ip }))
}

func (r *edgeReader) OnNodePorts(context.Context) ([]*v1beta1.EdgeClaim, error) {
	return replyTo(r, "NodePortClaims", r.claimsWhere(func(at claim.Coordinate, _ *v1beta1.EdgeClaim) bool { return at.IsNode() }))
}

func (r *edgeReader) ClassesOnNodes(context.Context) ([]v1beta1.StreamIngressClass, error) {
	return replyTo(r, "ClassesOnNodes", []v1beta1.StreamIngressClass{{ObjectMeta: metav1.ObjectMeta{Name: "on-nodes"}}})
}

func (r *edgeReader) Fronts(context.Context) ([]types.NamespacedName, error) {
	return replyTo[[]types.NamespacedName](r, "Fronts", nil)
}

func (r *edgeReader) Class(_ context.Context, name string) (*v1beta1.StreamIngressClass, error) {
	class := r.class
	if name != class.Name {
		class = nil
	}
	return replyTo(r, "Class", class)
}

func (r *edgeReader) Classes(context.Context) ([]v1beta1.StreamIngressClass, error) {
	return replyTo(r, "Classes", []v1beta1.StreamIngressClass{*r.class})
}

func (r *edgeReader) Get(context.Context, types.NamespacedName) (*v1beta1.StreamIngress, error) {
	return replyTo[*v1beta1.StreamIngress](r, "Stream", nil)
}

func (r *edgeReader) IsOutside(context.Context, types.NamespacedName) (bool, error) {
	return replyTo(r, "IsOutside", false)
}

func (r *edgeReader) Granted(context.Context, string, types.NamespacedName) (bool, error) {
	return replyTo(r, "Granted", true)
}

func (r *edgeReader) Foreign(
	context.Context, *v1beta1.StreamIngressClass, stream.PortKey,
) (f stream.Foreign, ok bool, err error) {
	f = stream.Foreign{Holder: claim.Claimant{Holder: claim.ConfigMapHolder("edge", "tcp"), UID: "cm"}, Entry: "shop/db:5432"}
	// What comes with an error must not be taken for an answer.
	_, err = replyTo(r, "Foreign", true)
	return f, true, err
}

func (r *edgeReader) EntriesOf(context.Context, *v1beta1.StreamIngressClass, v1beta1.Protocol) (stream.Current, error) {
	return replyTo(r, "Entries", stream.Current{
		Data: map[string]string{"6001": "data/db:5432"}, Ours: map[int32]bool{6001: true}, Leading: map[string][]int32{"data/db": {6001}},
	})
}

// To are a stream that asks for any port, in another namespace than its Service.
func (r *edgeReader) To(_ context.Context, service types.NamespacedName) ([]v1beta1.StreamIngress, error) {
	s := v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	s.Spec.Upstream = v1beta1.StreamUpstream{Namespace: service.Namespace, Service: service.Name, Port: intstr.FromInt32(5432)}
	return replyTo(r, "StreamsTo", []v1beta1.StreamIngress{s})
}

func (r *edgeReader) At(context.Context, v1beta1.Protocol, int32) ([]v1beta1.StreamIngress, error) {
	return replyTo[[]v1beta1.StreamIngress](r, "StreamsAt", nil)
}

func (r *edgeReader) ReservedNodePorts() loadbalancer.PortRanges { return nil }
func (r *edgeReader) ClusterDomain() string                      { return "cluster.local" }
func (r *edgeReader) GivesNodes() bool                           { return false }
func (r *edgeReader) IsOurs(*corev1.Service) bool                { return true }

func (r *edgeReader) Unclaimed(ports *stream.PortSet, class string, protocol v1beta1.Protocol) {
	for at := range r.claims {
		if at.Class() == class && at.Protocol() == protocol {
			ports.Remove(at.Port())
		}
	}
}

// TestNoRuleOfStreamsDecidesWithoutAnAnswer runs each rule, by what it asks, with each of its questions failing in turn: the decision is
// that error. A question that has an error for an answer and is asked by no rule is none of theirs.
func TestNoRuleOfStreamsDecidesWithoutAnAnswer(t *testing.T) {
	s := &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	s.Spec.Upstream = v1beta1.StreamUpstream{Service: "db", Port: intstr.FromInt32(5432)}
	change := func(changes ...func(*v1beta1.StreamIngress)) *v1beta1.StreamIngress {
		next := s.DeepCopy()
		for _, c := range changes {
			c(next)
		}
		return next
	}
	listens := func(port int32) func(*v1beta1.StreamIngress) {
		return func(s *v1beta1.StreamIngress) { s.Spec.Listen = &port }
	}
	abroad := func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Namespace = "data" }
	nosuch := func(s *v1beta1.StreamIngress) { s.Spec.ClassName = "nosuch" }
	public := func(s *v1beta1.StreamIngress) { s.Spec.ClassName = "public" }
	moved := claim.Stream("public", v1beta1.TCP, 6379)
	asked := map[string]bool{}
	for name, tc := range map[string]struct {
		// asks are questions that the rule must ask.
		asks []string
		rule func(r *edgeReader, f *Facts) any
		// prepare changes what is there.
		prepare func(*edgeReader)
	}{
		"ClassOf, of none that it names": {[]string{"Held", "Classes"}, func(_ *edgeReader, f *Facts) any {
			class, problems := stream.ClassOf(f, s)
			return []any{class, problems}
		}, nil},
		"ClassOf": {[]string{"Class"}, func(_ *edgeReader, f *Facts) any {
			class, problems := stream.ClassOf(f, change(public))
			return []any{class, problems}
		}, nil},
		"ClassOf, of one that is not there": {[]string{"Class", "Classes"}, func(_ *edgeReader, f *Facts) any {
			class, problems := stream.ClassOf(f, change(nosuch))
			return []any{class, problems}
		}, nil},
		"PortFor, of a port that is named": {[]string{"Held", "Service", "NamespaceLabels", "ClaimsOfNamespace", "Claim", "ClassesOnNodes"},
			func(r *edgeReader, f *Facts) any {
				req, problems := stream.PortFor(f, change(listens(6000)), r.class)
				return []any{req, problems}
			}, nil},
		"PortFor, of a port that the class does not give": {[]string{"Class", "NamespaceLabels", "ClaimedPorts", "NodePortClaims", "ClassesOnNodes"},
			func(r *edgeReader, f *Facts) any {
				req, problems := stream.PortFor(f, change(listens(7000)), r.class)
				return []any{req, problems}
			}, nil},
		"PortFor, of any port": {[]string{"Held", "Service", "NamespaceLabels", "ClaimsOfNamespace", "ClaimedPorts", "NodePortClaims", "ClassesOnNodes"},
			func(r *edgeReader, f *Facts) any {
				req, problems := stream.PortFor(f, s, r.class)
				return []any{req, problems}
			}, nil},
		"PortFor, of more than its namespace gets": {[]string{"ClaimsOfNamespace", "Stream", "Class"},
			func(r *edgeReader, f *Facts) any {
				req, problems := stream.PortFor(f, change(listens(6000)), r.class)
				return []any{req, problems}
			}, func(r *edgeReader) {
				r.hold(claim.StreamHolder("shop", "other"), claim.Stream("public", v1beta1.TCP, 6001))
			}},
		"PortFor, of any port and more than its namespace gets": {[]string{"ClaimsOfNamespace", "Stream"},
			func(r *edgeReader, f *Facts) any {
				req, problems := stream.PortFor(f, s, r.class)
				return []any{req, problems}
			}, func(r *edgeReader) {
				r.hold(claim.StreamHolder("shop", "other"), claim.Stream("public", v1beta1.TCP, 6001))
			}},
		"Conflict": {[]string{"Class", "NamespaceLabels", "ClaimsOfNamespace", "Stream", "Service", "Held", "ClaimedPorts", "NodePortClaims", "ClassesOnNodes"},
			func(r *edgeReader, f *Facts) any { return stream.Conflict(f, s, moved, r.claims[moved], 0) }, nil},
		"AdoptionOf": {[]string{"Foreign", "Service", "IsOutside"},
			func(r *edgeReader, f *Facts) any {
				return stream.AdoptionOf(f, change(listens(6380)), r.class, claim.Stream("public", v1beta1.TCP, 6380))
			}, nil},
		"AdoptionOf, by one that leads elsewhere": {[]string{"Foreign", "Claim", "Class"},
			func(r *edgeReader, f *Facts) any {
				return stream.AdoptionOf(f, change(listens(6380), abroad), r.class, claim.Stream("public", v1beta1.TCP, 6380))
			}, nil},
		"Consent": {[]string{"Granted", "IsOutside", "Service"},
			func(r *edgeReader, f *Facts) any { return stream.Consent(f, change(abroad), r.class) }, nil},
		"Upstream":     {[]string{"Service"}, func(_ *edgeReader, f *Facts) any { return stream.Upstream(f, s) }, nil},
		"ClassTargets": {[]string{"Classes"}, func(r *edgeReader, f *Facts) any { return stream.ClassTargets(f, r.class, nil) }, nil},
		"ClassConsent": {[]string{"Granted", "IsOutside", "Service"}, func(r *edgeReader, f *Facts) any {
			after := r.class.DeepCopy()
			after.Spec.UpstreamNamespaces = v1beta1.UpstreamSame
			return stream.ClassConsent(f, r.class, after, []v1beta1.StreamIngress{*change(abroad)})
		}, nil},
		"Offered": {[]string{"Entries", "StreamsAt", "StreamsTo", "Claim", "Held", "Granted", "Service", "NamespaceLabels", "ClaimsOfNamespace", "ClaimedPorts"},
			func(r *edgeReader, f *Facts) any {
				offer := stream.Offered(f, change(abroad), stream.Request{Class: r.class, Free: &stream.PortSet{}}, &stream.PortSet{})
				if f.err == nil && offer.Port != 6001 {
					t.Errorf("it is offered %d", offer.Port)
				}
				return offer
			}, nil},
		"IsAssignable": {[]string{"Foreign"}, func(r *edgeReader, f *Facts) any {
			return stream.IsAssignable(f, s, r.class, claim.Stream("public", v1beta1.TCP, 6001))
		}, nil},
		"Retained": {[]string{"Entries", "StreamsAt", "StreamsTo", "Claim", "Held", "Granted"}, func(r *edgeReader, f *Facts) any {
			return stream.Retained(f, r.class, v1beta1.TCP, []int32{6001})
		}, nil},
		"FrontOf, Conflicts": {[]string{"Service", "Held", "Listing", "ListingOnNodes", "StillLists", "Claim", "ClassesOnNodes"}, func(r *edgeReader, f *Facts) any {
			return stream.FrontOf(f, r.class).Conflicts(f, claim.Stream("public", v1beta1.TCP, 80))
		}, nil},
		"FrontOf, Free": {[]string{"Service", "Held", "Listing", "ClaimedPorts", "NodePortClaims", "ClassesOnNodes"}, func(r *edgeReader, f *Facts) any {
			ports := &stream.PortSet{}
			stream.FrontOf(f, r.class).Free(f, v1beta1.TCP, ports)
			return ports
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newEdgeReader()
			if tc.prepare != nil {
				tc.prepare(r)
			}
			decide := func() (any, error) { return Decide(t.Context(), r, func(f *Facts) any { return tc.rule(r, f) }) }
			if _, err := decide(); err != nil {
				t.Fatal(err)
			}
			maps.Copy(asked, r.asked)
			for _, question := range tc.asks {
				if !r.asked[question] {
					t.Errorf("it does not ask for %s", question)
				}
			}
			for question := range maps.Clone(r.asked) {
				r.failing = question
				if got, err := decide(); got != nil || !errors.Is(err, errAway) {
					t.Errorf("when %s fails it says %v, %v", question, got, err)
				}
			}
		})
	}
	// Each method of stream.RestoreFacts, and so of stream.Facts, that asks the cluster has been asked.
	fromMemory := []string{"ClusterDomain", "GivesNodes", "IsOurs", "ReservedNodePorts", "Unclaimed"}
	for question := range reflect.TypeFor[stream.RestoreFacts]().Methods() {
		if !slices.Contains(fromMemory, question.Name) && !asked[question.Name] {
			t.Errorf("no rule asks for %s", question.Name)
		}
	}
}

// TestWhatIsForeignComesWithNoError has an error come with an answer.
func TestWhatIsForeignComesWithNoError(t *testing.T) {
	r := newEdgeReader()
	r.failing = "Foreign"
	_, err := Decide(t.Context(), r, func(f *Facts) refusal.Problems {
		if found, ok := f.Foreign(r.class, stream.PortKey{}); ok || found != (stream.Foreign{}) {
			t.Errorf("the rule is told of %v", found)
		}
		return nil
	})
	if !errors.Is(err, errAway) {
		t.Error(err)
	}
}
