package kube

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// naming is a Service with the port TCP/80 that names addresses in spec.externalIPs.
func naming(name string, addresses ...string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"team": "shop"}}}
	svc.Spec.ExternalIPs = addresses
	svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
	return svc
}

// viewOfNaming is a view of a cache with Services, which are found by what they name.
func viewOfNaming(t *testing.T, services ...client.Object) *View {
	t.Helper()
	b := clientOf(t, services...)
	if err := addIndexes(t.Context(), indexer(func(obj client.Object, name string, value client.IndexerFunc) {
		b.WithIndex(obj, name, value)
	}), indexOf(&corev1.Service{}, indexExternalIP, externalKeys)); err != nil {
		t.Fatal(err)
	}
	c := b.Build()
	v, err := NewView(t.Context(), cached{&informertest.FakeInformers{Scheme: c.Scheme()}, c}, c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestExternalIPs finds Services by the addresses that they name, however they write them.
func TestExternalIPs(t *testing.T) {
	var many []string
	for i := range loadbalancer.MaxExternalIPs {
		many = append(many, fmt.Sprintf("198.51.100.%d", i))
	}
	v := viewOfNaming(t, naming("none"), naming("plain", "192.0.2.7"), naming("zeros", "203.0.113.1", "192.0.02.07"), naming("mapped", "::ffff:192.0.2.7"),
		naming("twice", "192.0.2.8", "192.0.2.8"), naming("six", "2001:db8:0::7"), naming("odd", "web", ""), naming("many", append(many, "192.0.2.9")...))
	for address, want := range map[string][]string{
		"192.0.2.7": {"mapped", "plain", "zeros"}, "203.0.113.1": {"zeros"}, "192.0.2.8": {"twice"}, "2001:db8::7": {"six"},
		"198.51.100.15": {"many"}, "192.0.2.9": nil, "192.0.2.70": nil,
	} {
		found, err := v.ExternalIPs.Naming(t.Context(), netip.MustParseAddr(address))
		var names []string
		for _, svc := range found {
			names = append(names, svc.Name)
		}
		slices.Sort(names)
		if diff := cmp.Diff(want, names); diff != "" || err != nil {
			t.Errorf("%s is named by (-want +got), %v:\n%s", address, err, diff)
		}
	}
	want := map[string]bool{"192.0.2.7": true, "203.0.113.1": true, "192.0.2.8": true, "2001:db8::7": true}
	for _, address := range many {
		want[address] = true
	}
	named, err := v.ExternalIPs.Named(t.Context())
	got := map[string]bool{}
	for ip := range named {
		got[ip.String()] = true
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("named are (-want +got), %v:\n%s", err, diff)
	}
	if named, err := viewOfNaming(t, naming("odd", "web")).ExternalIPs.Named(t.Context()); len(named) > 0 || err != nil {
		t.Errorf("what is no address is named: %v, %v", named, err)
	}
}

// TestExternalIPsAreJudgedAsTheCacheHasThem judges Services with many addresses and labels, whole and as the cache has them.
func TestExternalIPsAreJudgedAsTheCacheHasThem(t *testing.T) {
	for name, n := range map[string]int{"few": 2, "as many as there may be": loadbalancer.MaxExternalIPs, "too many": 3000} {
		t.Run(name, func(t *testing.T) {
			whole := naming("web")
			for i := range n {
				whole.Spec.ExternalIPs = append(whole.Spec.ExternalIPs, fmt.Sprintf("198.51.%d.%d", i/250, i%250))
			}
			cut := slimmed(t, whole).(*corev1.Service)
			if len(cut.Spec.ExternalIPs) > loadbalancer.MaxExternalIPs+1 || !maps.Equal(cut.Labels, whole.Labels) {
				t.Errorf("of %d addresses and %v it keeps %d and %v", n, whole.Labels, len(cut.Spec.ExternalIPs), cut.Labels)
			}
			pool := addressPool("a", "1", 1, "198.51.0.0/16")
			pool.Spec.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
			r := &failingReader{book: addresspool.NewBook([]*v1beta1.AddressPool{pool}), asked: map[string]int{}, maxPorts: 100}
			verdict := func(svc *corev1.Service) (is []string) {
				_, err := Decide(t.Context(), r, func(f *Facts) bool {
					points, problems := allocator.External(f, nil, svc, grace)
					for _, at := range points {
						is = append(is, at.Name())
					}
					for _, p := range problems {
						is = append(is, p.Reason)
					}
					return true
				})
				if err != nil {
					t.Fatal(err)
				}
				return is
			}
			if diff := cmp.Diff(verdict(whole), verdict(cut)); diff != "" {
				t.Errorf("whole, and as the cache has it:\n%s", diff)
			}
		})
	}
}

func grace(*v1beta1.EdgeClaim) time.Duration { return time.Minute }

// TestNoDecisionOnExternalIPsOnAFailedQuestion has every question fail that the rules for external IPs ask.
func TestNoDecisionOnExternalIPsOnAFailedQuestion(t *testing.T) {
	limited := addressPool("a", "1", 1, "192.0.2.0/28")
	limited.Spec.MaxPerNamespace = 5
	book := addresspool.NewBook([]*v1beta1.AddressPool{limited})
	for name, rule := range map[string]func(*Facts) any{
		"what a Service names": func(f *Facts) any {
			_, problems := allocator.External(f, nil, naming("web", "192.0.2.7"), grace)
			return problems
		},
		"what stands": func(f *Facts) any {
			enter, lost := allocator.SettleExternal(f, netip.MustParseAddr("192.0.2.7"), grace)
			return []any{enter, lost}
		},
	} {
		r := &failingReader{book: book, asked: map[string]int{}, maxPorts: 1, naming: []*corev1.Service{naming("x", "192.0.2.7")}}
		if decided, err := Decide(t.Context(), r, rule); err != nil || decided == nil {
			t.Fatalf("%s: %v, %v", name, decided, err)
		}
		asked := maps.Clone(r.asked)
		if asked["Naming"] == 0 || asked["Claim"] == 0 || asked["NamespaceLabels"] == 0 {
			t.Errorf("%s: asked are %v", name, asked)
		}
		for r.failing = range asked {
			if decided, err := Decide(t.Context(), r, rule); decided != nil || !errors.Is(err, errAway) {
				t.Errorf("%s: when %s fails it is %v, %v", name, r.failing, decided, err)
			}
		}
	}
}

// TestHeldIsWithoutExternalIPs: what a load balancer retains does not follow from what it names.
func TestHeldIsWithoutExternalIPs(t *testing.T) {
	me := claim.ServiceHolder("shop", "web")
	given, external := portAt("192.0.2.1", tcp80), portAt("192.0.2.2", tcp80)
	v := viewOf(t, claim.New(given, claim.Claimant{Holder: me}), claim.New(external, claim.Claimant{Holder: me, ExternalIP: true}))
	for how, held := range map[string]func() ([]claim.Coordinate, error){
		"by the cache": func() ([]claim.Coordinate, error) { return v.Claims.Held(t.Context(), me) },
		"live":         func() ([]claim.Coordinate, error) { return v.Claims.HeldLive(t.Context(), me) },
	} {
		if got, err := held(); err != nil || !slices.Equal(got, []claim.Coordinate{given}) {
			t.Errorf("held %s are %v, %v", how, got, err)
		}
	}
	claims, err := v.Claims.Of(t.Context(), me)
	var names []string
	for _, c := range claims {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	if want := given.Name() + " " + external.Name(); strings.Join(names, " ") != want || err != nil {
		t.Errorf("all that it has are %v, %v", names, err)
	}
}
