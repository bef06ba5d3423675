package reconcilers

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/cluster"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// applied is a ConfigMap that Portcullis has last written to at a time.
func applied(at time.Time) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	cm.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, Time: &metav1.Time{Time: at.Add(-time.Hour)}},
		{Manager: stream.FieldManager, Operation: metav1.ManagedFieldsOperationApply, Time: &metav1.Time{Time: at}},
	}
	return cm
}

// TestLeftovers follows an object of a former installation, and one of this installation.
func TestLeftovers(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(noon)
	l := newLeftovers(clock, 2*time.Minute)
	installed := noon.Add(-time.Hour)
	expect := func(obj *corev1.ConfigMap, since time.Time, want time.Duration) {
		t.Helper()
		if got := l.keep(obj, since); got != want {
			t.Errorf("it is kept for %v, want %v", got, want)
		}
	}
	expect(applied(installed), installed, 0)
	expect(applied(installed.Add(time.Second)), installed, 0)
	expect(&corev1.ConfigMap{}, installed, 0)
	expect(applied(installed.Add(-time.Second)), installed, 2*time.Minute)
	clock.SetTime(noon.Add(time.Minute))
	expect(applied(noon), installed, time.Minute) // written to meanwhile
	clock.SetTime(noon.Add(2 * time.Minute))
	expect(applied(noon), installed, 0)
	clock.SetTime(noon.Add(time.Hour))
	expect(applied(installed.Add(-time.Second)), installed, 0) // and nothing to write until now
	again := noon.Add(time.Hour)
	expect(applied(noon), again, 2*time.Minute) // installed once more, under this process
	clock.SetTime(again.Add(time.Minute))
	expect(applied(noon), again, time.Minute)
}

// TestClassReportAgain looks again at the earliest of what there is to wait for.
func TestClassReportAgain(t *testing.T) {
	r := classReport{}
	expect := func(want time.Duration) {
		t.Helper()
		if got := r.again(); got != want {
			t.Errorf("again after %v, want %v", got, want)
		}
	}
	expect(0)
	r.retry(0)
	expect(0)
	r.retry(2 * time.Minute)
	expect(2 * time.Minute)
	r.configMapError = errors.New("refused")
	expect(watch.RefusedRetry)
	r.retry(time.Second)
	expect(time.Second)
}

// goingKinds is an API server where all kinds are being deleted.
type goingKinds struct{ client.Reader }

func (goingKinds) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetDeletionTimestamp(&metav1.Time{Time: noon})
	return nil
}

// TestVanishedPoolsTakeNoAddressAway looks at a Service whose pool is gone and that another pool could serve: it moves
// there, unless the pool has vanished with its kind.
func TestVanishedPoolsTakeNoAddressAway(t *testing.T) {
	const served, elsewhere = "198.51.100.7", "192.0.2.0"
	svc := balancerAt(served)
	by := claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID}
	for name, held := range map[string]claim.Coordinate{
		"an address":           claim.Address(netip.MustParseAddr(served)),
		"a port of an address": claim.AddressPort(netip.MustParseAddr(served), "TCP", 80),
		"a port of the nodes":  claim.NodePort("TCP", 80),
		"a claim that is gone": {},
	} {
		t.Run(name, func(t *testing.T) {
			for want, live := range map[string]client.Reader{served: goingKinds{}, elsewhere: allKinds{}} {
				objects := func() []client.Object { return []client.Object{svc.DeepCopy()} }
				stored, seen := objects(), objects()
				if !held.IsZero() {
					stored, seen = append(stored, claim.New(held, by)), append(seen, claim.New(held, by))
				}
				r := balancers(t, stored, seen)
				r.kinds = cluster.NewKinds(live, logr.Discard())
				reconciler := watch.Guarded(r.view, r.kinds, reconcile.TypedReconciler[reconcile.Request](r))
				result, err := reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)})
				if err != nil || want == served && result.RequeueAfter != watch.UninstalledRetry {
					t.Errorf("it is looked at again after %s: %v", result.RequeueAfter, err)
				}
				mustBeServedAt(t, r, svc, want)
			}
		})
	}
}

// TestVanishedPoolsTakeNoNodeAway looks at a Service that was served by the nodes of one pool when only another pool is left:
// it moves there, unless the pool has vanished with its kind. A node that is lost is lost also then.
func TestVanishedPoolsTakeNoNodeAway(t *testing.T) {
	const served, elsewhere = "198.51.100.1", "198.51.100.2"
	svc := balancerAt(served)
	held := claim.New(claim.NodePort("TCP", 80), claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID})
	left := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "left"}, Spec: v1beta1.AddressPoolSpec{
		Source: v1beta1.SourceNodeIP, NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "b"}},
	}}
	node := func(rack, address string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: rack, Labels: map[string]string{"rack": rack}},
			Status: corev1.NodeStatus{
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
			},
		}
	}
	for name, tc := range map[string]struct {
		live  client.Reader
		ready corev1.ConditionStatus
		want  string
	}{
		"the pool is deleted":         {allKinds{}, corev1.ConditionTrue, elsewhere},
		"all pools are being deleted": {goingKinds{}, corev1.ConditionTrue, served},
		"the node is lost meanwhile":  {goingKinds{}, corev1.ConditionFalse, elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			r := balancers(t, []client.Object{svc.DeepCopy(), held.DeepCopy()}, []client.Object{
				svc.DeepCopy(), held.DeepCopy(), left, node("a", served, tc.ready), node("b", elsewhere, corev1.ConditionTrue),
			})
			r.kinds = cluster.NewKinds(tc.live, logr.Discard())
			reconciler := watch.Guarded(r.view, r.kinds, reconcile.TypedReconciler[reconcile.Request](r))
			if _, err := reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)}); err != nil {
				t.Fatal(err)
			}
			mustBeServedAt(t, r, svc, tc.want)
		})
	}
}
