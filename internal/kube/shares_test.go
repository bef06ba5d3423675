package kube

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func claimsOf(t *testing.T, v *View, namespace, family string) []string {
	t.Helper()
	claims, err := v.ClaimsOfNamespace(t.Context(), namespace, family)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, c := range claims {
		all = append(all, c.Name)
	}
	slices.Sort(all)
	return all
}

// TestClaimsOfANamespace has claims in the cache, and others that this replica has made and the cache does not show.
func TestClaimsOfANamespace(t *testing.T) {
	by, web := claim.StreamHolder("shop", "a"), claim.ServiceHolder("shop", "web")
	point := func(at claim.Coordinate, by claim.Holder) *v1beta1.EdgeClaim {
		return claim.New(at, claim.Claimant{Holder: by})
	}
	shown := claimOn("public", v1beta1.TCP, 80, by)
	v := viewOf(t, shown, claimOn("internal", v1beta1.TCP, 80, by), claimOn("public", v1beta1.TCP, 81, claim.StreamHolder("data", "a")),
		point(portAt("192.0.2.1", tcp80), web), point(whole("192.0.2.2"), web), point(claim.NodePort("TCP", 80), web),
		point(claim.HTTP("example.com", "/"), web))
	has := func(family string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, claimsOf(t, v, "shop", family)); diff != "" {
			t.Errorf("%s: %s", family, diff)
		}
	}
	has("stream/public", "stream.public.tcp.80")
	has("addr", "addr.192-0-2-1.tcp.80", "addr.192-0-2-2")
	has("node", "node.tcp.80")

	made := claimOn("public", v1beta1.TCP, 90, by)
	if err := v.made.write(made, func() error {
		has("stream/public", "stream.public.tcp.80", "stream.public.tcp.90") // while it is being written
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_ = v.made.write(shown, func() error { return nil })
	has("stream/public", "stream.public.tcp.80", "stream.public.tcp.90")

	refused := errors.New("refused")
	if err := v.made.write(claimOn("public", v1beta1.TCP, 91, by), func() error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	_ = v.made.write(made, func() error { return refused }) // that of another request is there
	_ = v.made.write(point(claim.HTTP("example.com", "/x"), web), func() error { return nil })
	has("stream/public", "stream.public.tcp.80", "stream.public.tcp.90")
}

func TestMadeClaimsAreForgotten(t *testing.T) {
	informers := &informertest.FakeInformers{Scheme: scheme(t)}
	m, err := newMadeClaims(t.Context(), cached{FakeInformers: informers})
	if err != nil {
		t.Fatal(err)
	}
	now := clocktesting.NewFakePassiveClock(time.Now())
	m.clock = now
	events, err := informers.FakeInformerFor(t.Context(), &v1beta1.EdgeClaim{})
	if err != nil {
		t.Fatal(err)
	}
	by := claim.StreamHolder("shop", "a")
	first, second := claimOn("public", v1beta1.TCP, 80, by), claimOn("public", v1beta1.TCP, 81, by)
	left := func(want int) {
		t.Helper()
		if got := len(m.of("stream/public shop")); got != want {
			t.Errorf("%d are left, want %d", got, want)
		}
	}
	m.note(first)
	m.note(second)
	left(2)
	events.Add(first)
	left(1)
	now.SetTime(now.Now().Add(assumption / 2))
	m.note(first)
	now.SetTime(now.Now().Add(assumption / 2))
	left(1) // the second was never shown
	now.SetTime(now.Now().Add(assumption / 2))
	left(0)
	if len(m.byName) > 0 || len(m.byShare) > 0 || len(m.lapses) > 0 {
		t.Errorf("%d, %d and %d are kept", len(m.byName), len(m.byShare), len(m.lapses))
	}
}

func TestFronts(t *testing.T) {
	named := &v1beta1.StreamIngressClass{}
	named.Name, named.Spec.Service = "public", &v1beta1.ObjectReference{Namespace: "edge", Name: "proxy"}
	onHosts := &v1beta1.StreamIngressClass{}
	onHosts.Name = "hosts"
	fronts, err := viewOf(t, named, onHosts).Fronts(t.Context())
	if err != nil || len(fronts) != 1 || fronts[0].String() != "edge/proxy" {
		t.Errorf("got %v, %v", fronts, err)
	}
}
