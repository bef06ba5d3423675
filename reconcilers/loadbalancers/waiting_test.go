package loadbalancers

import (
	"slices"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestWaiting(t *testing.T) {
	w := newWaiting()
	web, db := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "db"}
	pause := func(what string, key types.NamespacedName, want time.Duration) {
		t.Helper()
		if got := w.pause(key); got != want {
			t.Errorf("%s: pause %s, want %s", what, got, want)
		}
	}
	pause("it does not wait", web, 0)
	w.set(web, true, false)
	pause("it waits", web, 2*settle)
	w.set(web, true, false) // it was looked at, and still waits
	pause("for longer", web, 4*settle)
	pause("another does not", db, 0)
	w.set(db, true, false)
	pause("another waits", db, 2*settle)
	for range 20 {
		w.pause(web)
	}
	pause("it waits for long", web, watch.RefusedRetry)
	if keys := w.wake(); len(keys) != 2 || !slices.Contains(keys, web) || !slices.Contains(keys, db) {
		t.Errorf("those that wait are %v", keys)
	}
	pause("there was news", web, 2*settle)
	w.set(db, true, true)
	pause("another waits for pools only", db, 2*settle)
	if keys := w.wake(); !slices.Equal(keys, []types.NamespacedName{web}) {
		t.Errorf("those that wait for others are %v", keys)
	}
	pause("there was no news for it", db, 4*settle)
	if keys := w.wakeAll(); len(keys) != 2 {
		t.Errorf("all that wait are %v", keys)
	}
	pause("there was", db, 2*settle)
	w.set(db, true, false)
	if keys := w.wake(); len(keys) != 2 {
		t.Errorf("those that wait for others by now are %v", keys)
	}
	w.set(web, false, false)
	w.remove(db)
	pause("it has all", web, 0)
	if keys := w.wake(); len(keys) > 0 {
		t.Errorf("%v still wait", keys)
	}
	pause("nobody was woken", db, 0)
}

// TestWaitsForClasses has a Service wait, and classes change: what those on the nodes reserve there may be free by now.
func TestWaitsForClasses(t *testing.T) {
	behind, _, _ := accesstest.Public()
	onNodes, _, _ := accesstest.Public()
	onNodes.Spec.Service = nil
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	r := &loadBalancerReconciler{waiting: newWaiting()}
	r.waiting.set(web, true, false)
	if got := r.waitingForClass(t.Context(), behind); len(got) > 0 {
		t.Errorf("a class with a Service wakes %v", got)
	}
	if got := r.waitingForClass(t.Context(), onNodes); !slices.Equal(got, []reconcile.Request{{NamespacedName: web}}) {
		t.Errorf("a class on the nodes wakes %v", got)
	}
}

// TestWaitsForListings has a Service be no longer where it was: who waits is told, unless a claim that goes tells them.
func TestWaitsForListings(t *testing.T) {
	const at = "192.0.2.7"
	others := balancerAt(at)
	others.Spec.LoadBalancerClass = new("example.com/other")
	beside := balancerAt(at)
	beside.Status.LoadBalancer.Ingress = append(beside.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "2001:db8::1"})
	onNodes := claim.New(claim.NodePort("TCP", 80), claim.Claimant{Holder: claim.ServiceHolder("shop", "web"), UID: "w"})
	for name, tc := range map[string]struct {
		before, now client.Object
		ledger      []client.Object
		want        bool
	}{
		"it is gone":                        {before: balancerAt(at), want: true},
		"it is elsewhere":                   {before: balancerAt(at), now: balancerAt("192.0.2.3"), want: true},
		"it has another's class":            {before: balancerAt(at), now: others, want: true},
		"it has one of two":                 {before: beside, now: balancerAt(at), want: true},
		"it has one more":                   {before: balancerAt(at), now: beside},
		"it stays":                          {before: balancerAt(at), now: balancerAt(at)},
		"it was another's":                  {before: others},
		"it is gone, and had a claim":       {before: balancerAt(at), ledger: []client.Object{onAddress(at)}},
		"it is gone, and had a nodes' port": {before: balancerAt(at), ledger: []client.Object{onNodes}},
	} {
		r := balancers(t, nil, tc.ledger)
		if got := r.listingEnds(t.Context(), tc.before, tc.now); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWaitsForWhatCanBeFree has a Service that prefers to have an address of each family, and is served at one.
func TestWaitsForWhatCanBeFree(t *testing.T) {
	const six = "2001:db8::1"
	for name, tc := range map[string]struct {
		pools []client.Object
		waits bool
	}{
		"no pool has the other family": {nil, false},
		"a pool has, and is full":      {[]client.Object{accesstest.PoolOf("six", six)}, true},
	} {
		svc := dualStack(corev1.IPFamilyPolicyPreferDualStack)
		r := balancers(t, []client.Object{svc.DeepCopy()}, append(tc.pools, svc.DeepCopy()))
		r.View.Addresses.Assume(accesstest.AddressAt(six))
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)})
		if err != nil {
			t.Fatal(err)
		}
		mustBeServedAt(t, r, svc, "192.0.2.0")
		if again, woken := result.RequeueAfter > 0, len(r.waiting.wake()) > 0; again != tc.waits || woken != tc.waits {
			t.Errorf("%s: it is looked at again: %v, and when anything is free: %v", name, again, woken)
		}
	}
}
