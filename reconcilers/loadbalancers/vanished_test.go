package loadbalancers

import (
	"net/netip"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

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
	} {
		t.Run(name, func(t *testing.T) {
			for want, live := range map[string]client.Reader{served: accesstest.GoingKinds{}, elsewhere: accesstest.AllKinds{}} {
				r := balancers(t, []client.Object{svc.DeepCopy(), claim.New(held, by)}, []client.Object{svc.DeepCopy(), claim.New(held, by)})
				r.Kinds = kube.NewKinds(live, logr.Discard())
				reconciler := watch.Guarded(r.View, r.Kinds, reconcile.TypedReconciler[reconcile.Request](r))
				result, err := reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)})
				if err != nil || want == served && result.RequeueAfter != watch.UninstalledRetry {
					t.Errorf("it is looked at again after %s: %v", result.RequeueAfter, err)
				}
				mustBeServedAt(t, r, svc, want)
			}
		})
	}
}

// nodeAt is a node in a rack of its own.
func nodeAt(rack, address string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: rack, Labels: map[string]string{"rack": rack}},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
		},
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
	for name, tc := range map[string]struct {
		live  client.Reader
		ready corev1.ConditionStatus
		want  string
	}{
		"the pool is deleted":         {accesstest.AllKinds{}, corev1.ConditionTrue, elsewhere},
		"all pools are being deleted": {accesstest.GoingKinds{}, corev1.ConditionTrue, served},
		"the node is lost meanwhile":  {accesstest.GoingKinds{}, corev1.ConditionFalse, elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			r := balancers(t, []client.Object{svc.DeepCopy(), held.DeepCopy()}, []client.Object{
				svc.DeepCopy(), held.DeepCopy(), left, nodeAt("a", served, tc.ready), nodeAt("b", elsewhere, corev1.ConditionTrue),
			})
			r.Kinds = kube.NewKinds(tc.live, logr.Discard())
			reconciler := watch.Guarded(r.View, r.Kinds, reconcile.TypedReconciler[reconcile.Request](r))
			if _, err := reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)}); err != nil {
				t.Fatal(err)
			}
			mustBeServedAt(t, r, svc, tc.want)
		})
	}
}
