package kube

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
)

func life(uid types.UID) *v1beta1.StreamIngress {
	return &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "postgres", UID: uid}}
}

func TestSeen(t *testing.T) {
	c := clientOf(t, life("now")).Build()
	informers := &informertest.FakeInformers{Scheme: c.Scheme()}
	v, err := NewView(t.Context(), cached{informers, c}, c)
	if err != nil {
		t.Fatal(err)
	}
	events, err := informers.FakeInformerFor(t.Context(), &v1beta1.StreamIngress{})
	if err != nil {
		t.Fatal(err)
	}
	seen := func(uid types.UID, want bool) {
		t.Helper()
		if got := v.Claims.Seen(t.Context(), claim.Claimant{Holder: claim.StreamHolder("shop", "postgres"), UID: uid}); got != want {
			t.Errorf("%q was seen: %v", uid, got)
		}
	}
	seen("now", true)
	seen("before", false)
	seen("", false)
	events.Delete(life("before"))
	seen("before", true)
	events.Update(life("between"), life("now"))
	seen("between", true)
	events.Update(life("now"), life("now"))
	v.Claims.departures.deleted(toolscache.DeletedFinalStateUnknown{Obj: life("missed")})
	seen("missed", true)
	v.Claims.departures.deleted(toolscache.DeletedFinalStateUnknown{Key: "shop/postgres"})
	seen("never", false)
	if !v.Claims.Departed("before") || v.Claims.Departed("now") || v.Claims.Departed("never") || v.Claims.Departed("") {
		t.Error("it does not tell those that are gone from those that are there")
	}

	others := claim.Claimant{Holder: claim.ConfigMapHolder("shop", "postgres"), UID: "now"}
	if v.Claims.Seen(t.Context(), others) {
		t.Error("of a ConfigMap nothing is known")
	}
}

// TestGuardedDepartures remembers guarded routes that are gone, also those whose name is another's by the time that it is looked at.
func TestGuardedDepartures(t *testing.T) {
	s := scheme(t)
	if err := gatewayv1.Install(s); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(s).Build()
	informers := &informertest.FakeInformers{Scheme: s}
	v, err := NewView(t.Context(), cached{informers, c}, c)
	if err != nil {
		t.Fatal(err)
	}
	events, err := informers.FakeInformerFor(t.Context(), &gatewayv1.HTTPRoute{})
	if err != nil {
		t.Fatal(err)
	}
	v.Gateways.Guarded = guard.Actions{guard.HTTPRoute: guard.Deny}
	if err := v.Gateways.followed(t.Context()); err != nil {
		t.Fatal(err)
	}
	route := func(uid types.UID) *gatewayv1.HTTPRoute {
		return &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid}}
	}
	events.Update(route("first"), route("second"))
	events.Update(route("second"), route("second"))
	events.Delete(route("third"))
	if d := v.Claims.Departed; !d("first") || d("second") || !d("third") {
		t.Errorf("gone are the first: %v, the second: %v, the third: %v", d("first"), d("second"), d("third"))
	}
}

func TestDeparturesAreForgotten(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(now)
	d := &departures{clock: clock}
	d.add("a")
	clock.SetTime(now.Add(remembered))
	d.add("b")
	clock.SetTime(now.Add(2 * remembered))
	d.add("c")
	for _, uid := range []types.UID{"a", "b", "c"} {
		if !d.has(uid) {
			t.Errorf("%s is forgotten too early", uid)
		}
	}
	clock.SetTime(now.Add(4 * remembered))
	d.add("d")
	if d.has("a") || d.has("b") || !d.has("c") || !d.has("d") {
		t.Errorf("it knows %v and %v", d.recent, d.past)
	}
}
