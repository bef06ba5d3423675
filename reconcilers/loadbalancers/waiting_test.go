package loadbalancers

import (
	"slices"
	"testing"
	"time"

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
	w.set(web, true)
	pause("it waits", web, 2*settle)
	w.set(web, true) // it was looked at, and still waits
	pause("for longer", web, 4*settle)
	pause("another does not", db, 0)
	w.set(db, true)
	pause("another waits", db, 2*settle)
	for range 20 {
		w.pause(web)
	}
	pause("it waits for long", web, watch.RefusedRetry)
	if keys := w.wake(); len(keys) != 2 || !slices.Contains(keys, web) || !slices.Contains(keys, db) {
		t.Errorf("those that wait are %v", keys)
	}
	pause("there was news", web, 2*settle)
	w.set(web, false)
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
	r.waiting.set(web, true)
	if got := r.waitingForClass(t.Context(), behind); len(got) > 0 {
		t.Errorf("a class with a Service wakes %v", got)
	}
	if got := r.waitingForClass(t.Context(), onNodes); !slices.Equal(got, []reconcile.Request{{NamespacedName: web}}) {
		t.Errorf("a class on the nodes wakes %v", got)
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
