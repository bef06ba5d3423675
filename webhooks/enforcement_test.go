package webhooks

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// TestEnforcement has a class refuse streams, and then only warn of what it has refused them for, in the same words. Nothing is claimed for
// what is warned of.
func TestEnforcement(t *testing.T) {
	class := func(change func(*v1beta1.StreamIngressClassSpec)) *v1beta1.StreamIngressClass {
		c := &v1beta1.StreamIngressClass{ObjectMeta: meta("", worldClass)}
		c.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "tcp"}
		c.Spec.Reserved = []v1beta1.PortRange{{From: 22}}
		if change != nil {
			change(&c.Spec)
		}
		return c
	}
	of := func(s *v1beta1.StreamIngress, change func(*v1beta1.StreamIngress)) *v1beta1.StreamIngress {
		s.Spec.ClassName = worldClass
		if change != nil {
			change(s)
		}
		return s
	}
	abroad := func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Namespace = "team-3" }
	same := func(c *v1beta1.StreamIngressClassSpec) { c.UpstreamNamespaces = v1beta1.UpstreamSame }
	holder := of(streamTo("team-1", "holder", 5432), nil)
	had := of(streamTo("team-2", "had", 6000), nil)
	for name, tc := range map[string]struct {
		class        *v1beta1.StreamIngressClass
		before       *v1beta1.StreamIngress
		stream       *v1beta1.StreamIngress
		want         string
		adds         string // a warning more
		stillRefused bool
		claims       bool // its port, as all that is wrong is where it leads
	}{
		"a held port": {stream: of(streamTo("team-2", "new", 5432), nil),
			want: `spec.listen: Duplicate value: "TCP/5432": held by StreamIngress team-1/holder`},
		"a reserved port": {stream: of(streamTo("team-2", "new", 22), nil), want: "spec.listen: Invalid value: 22: class"},
		"a port of others": {
			class:  class(func(c *v1beta1.StreamIngressClassSpec) { c.Allow = []v1beta1.PortAllowance{{From: 5000, To: 7000}} }),
			stream: of(streamTo("team-2", "new", 80), nil), want: "does not give TCP/80 to namespace"},
		"one more than the limit": {
			class: class(func(c *v1beta1.StreamIngressClassSpec) {
				c.Allow = []v1beta1.PortAllowance{{From: 5000, To: 7000, MaxPerNamespace: 1}}
			}),
			stream: of(streamTo("team-2", "new", 7000), nil), want: "gives at most 1 port(s)"},
		"no automatic port": {stream: of(streamTo("team-2", "new", 1), func(s *v1beta1.StreamIngress) { s.Spec.Listen = nil }),
			want: "has no autoAssign range"},
		"another protocol": {stream: of(streamTo("team-2", "new", 53), func(s *v1beta1.StreamIngress) { s.Spec.Protocol = v1beta1.UDP }),
			want: "spec.protocol: Invalid value"},
		"no consent": {stream: of(streamTo("team-2", "new", 80), abroad), class: class(same),
			want: `spec.upstream.namespace: Invalid value: "team-3": class "public" lets streams`, claims: true},
		"no consent any longer": {before: had, stream: of(streamTo("team-2", "had", 6000), abroad), class: class(same),
			want: `class "public" lets streams`, adds: "TCP/6000 stays claimed, and is closed until the stream may lead there"},
		"no consent at another port": {before: had, stream: of(streamTo("team-2", "had", 80), abroad), class: class(same),
			want: `class "public" lets streams`, adds: "TCP/6000, which the stream has had, is closed", claims: true},
		"a change to a held port": {before: had, stream: of(streamTo("team-2", "had", 5432), nil),
			want: `held by StreamIngress team-1/holder`, adds: "TCP/6000, which the stream has had, is closed"},
		"a class that is not there": {stream: of(streamTo("team-2", "new", 80), func(s *v1beta1.StreamIngress) { s.Spec.ClassName = "none" }),
			want: `spec.className: Not found: "none"`, stillRefused: true},
		"an heir that nobody can read": {stream: of(streamTo("team-2", "new", 80), func(s *v1beta1.StreamIngress) {
			s.Annotations = map[string]string{v1beta1.AnnotationHandOverTo: "what"}
		}), want: "must be namespace/name", stillRefused: true},
		"what is being deleted": {before: had, stream: of(streamTo("team-2", "had", 6001), func(s *v1beta1.StreamIngress) {
			s.DeletionTimestamp = &metav1.Time{}
		}), want: "the object is being deleted", stillRefused: true},
		"what is being deleted, by another protocol": {before: had, stream: of(streamTo("team-2", "had", 6001), func(s *v1beta1.StreamIngress) {
			s.DeletionTimestamp, s.Spec.Protocol = &metav1.Time{}, v1beta1.UDP
		}), want: "spec.protocol: Invalid value", stillRefused: true},
		"what is being deleted, without consent": {before: had, stream: of(streamTo("team-2", "had", 6000), func(s *v1beta1.StreamIngress) {
			s.DeletionTimestamp = &metav1.Time{}
			abroad(s)
		}), class: class(same), want: `class "public" lets streams`, stillRefused: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := cmp.Or(tc.class, class(nil))
			claimed := []*v1beta1.EdgeClaim{
				claim.New(claim.Stream(worldClass, v1beta1.TCP, 5432), claim.Claimant{Holder: claim.StreamHolder("team-1", "holder"), UID: holder.UID}),
				claim.New(claim.Stream(worldClass, v1beta1.TCP, 6000), claim.Claimant{Holder: claim.StreamHolder("team-2", "had"), UID: had.UID}),
			}
			ask := func(enforcement v1beta1.Enforcement) (warnings []string, refusals []error, points []string) {
				t.Helper()
				c := c.DeepCopy()
				c.Spec.Enforcement = enforcement
				w := newWorld(t, []client.Object{c, holder.DeepCopy(), had.DeepCopy()}, claimed)
				var before client.Object
				if tc.before != nil {
					before = tc.before.DeepCopy()
				}
				warnings, refusals = NewJudge(Options{View: w.view, Ledger: w.ledger}).Validate(t.Context(), before, tc.stream.DeepCopy())
				stored, err := w.claims.List(t.Context(), claim.StreamScope(worldClass), "")
				if err != nil {
					t.Fatal(err)
				}
				for i := range stored {
					points = append(points, stored[i].Spec.Point+" "+stored[i].Spec.HeldBy)
				}
				slices.Sort(points)
				return warnings, refusals, points
			}
			_, refusals, before := ask(v1beta1.EnforcementDeny)
			if len(refusals) != 1 || !strings.Contains(refusals[0].Error(), tc.want) {
				t.Fatalf("it is refused by %v, want %q", refusals, tc.want)
			}
			warnings, refusals, after := ask(v1beta1.EnforcementWarn)
			if tc.stillRefused {
				if len(refusals) != 1 || !strings.Contains(refusals[0].Error(), tc.want) {
					t.Errorf("it is refused by %v, want %q", refusals, tc.want)
				}
				return
			}
			if len(refusals) > 0 {
				t.Fatalf("it is refused by %v", refusals)
			}
			said := strings.Join(warnings, "\n")
			if !strings.HasPrefix(said, `admitted, and not opened, as class "public" only warns (enforcement: Warn): spec.`) ||
				!strings.Contains(said, tc.want) || !strings.Contains(said, tc.adds) {
				t.Errorf("it warns of %s", said)
			}
			if tc.claims {
				before = append(before, "TCP/80 StreamIngress team-2/"+tc.stream.Name)
			}
			if diff := gocmp.Diff(before, after); diff != "" {
				t.Errorf("claims (-when it is refused +when it is warned of):\n%s", diff)
			}
		})
	}
}

// TestEnforcementAfterReserving has somebody take what the front of a class needs, unseen by the cache, so that it is found only after the
// port of a stream is reserved: the stream is refused, also by a class that only warns, and nothing stays reserved.
func TestEnforcementAfterReserving(t *testing.T) {
	ip, front := netip.MustParseAddr("192.0.2.1"), claim.ServiceHolder("edge", "proxy")
	c := &v1beta1.StreamIngressClass{ObjectMeta: meta("", worldClass)}
	c.Spec.Enforcement = v1beta1.EnforcementWarn
	c.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "tcp"}
	c.Spec.Service = &v1beta1.ObjectReference{Namespace: "edge", Name: "proxy"}
	c.Spec.AutoAssign = &v1beta1.PortRange{From: 5432, To: 5432}
	proxy := serviceWithPorts("edge", "proxy", 80)
	proxy.Spec.Type = corev1.ServiceTypeLoadBalancer
	for name, change := range map[string]func(*v1beta1.StreamIngress){
		"a port that it names":    func(*v1beta1.StreamIngress) {},
		"the only automatic port": func(s *v1beta1.StreamIngress) { s.Spec.Listen = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []client.Object{c.DeepCopy(), proxy.DeepCopy()}, []*v1beta1.EdgeClaim{
				claim.New(claim.AddressPort(ip, "TCP", 80), claim.Claimant{Holder: front, UID: proxy.UID}),
			})
			taken := claim.New(claim.AddressPort(ip, "TCP", 5432), claim.Claimant{Holder: claim.ServiceHolder("team-1", "taker"), UID: "taker"})
			if err := w.claims.Create(t.Context(), taken); err != nil {
				t.Fatal(err)
			}
			s := streamTo("team-2", "new", 5432)
			s.Spec.ClassName = worldClass
			change(s)
			warnings, refusals := NewJudge(Options{View: w.view, Ledger: w.ledger}).Validate(t.Context(), nil, s)
			if len(refusals) != 1 || strings.Contains(strings.Join(warnings, ""), "admitted") {
				t.Errorf("it is refused by %v, and warned %q", refusals, warnings)
			}
			reserved, err := w.claims.List(t.Context(), claim.StreamScope(worldClass), "")
			if err != nil || len(reserved) > 0 {
				t.Errorf("reserved is %v, %v", reserved, err)
			}
		})
	}
}
