package loadbalancers

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestNothingIsDoneBeforeAllIsRead looks at a Service that is served from a pool, while the pools are still being read. It is
// not touched, and stays where it is when they are there. Without the guard it loses its address.
func TestNothingIsDoneBeforeAllIsRead(t *testing.T) {
	for name, tc := range map[string]struct {
		with  func(access.Access, reconcile.Reconciler) reconcile.Reconciler
		early string
	}{
		"guarded": {func(b access.Access, r reconcile.Reconciler) reconcile.Reconciler {
			return watch.Guarded(b.View, b.Kinds, r)
		}, "192.0.2.7"},
		"unguarded": {func(_ access.Access, r reconcile.Reconciler) reconcile.Reconciler { return r }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			const served = "192.0.2.7"
			svc, pool := balancerAt(served), accesstest.PoolOf("pool", "192.0.2.0/28")
			held := claim.New(claim.Address(netip.MustParseAddr(served)),
				claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID})
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
			all := accesstest.Cluster(t, namespace, pool, svc, held).WithReturnManagedFields().Build()
			pools := controllertest.NewFakeInformer()
			b := accesstest.Told(t, &informertest.FakeInformers{
				Scheme: all.Scheme(),
				InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{
					v1beta1.GroupVersion.WithKind("AddressPool"): pools,
				},
			}, all, all)
			b.Events = events.NewFakeRecorder(10)
			r := &loadBalancerReconciler{
				Access: b, reported: report.NewReportedState(), services: &kube.KeyMutex[types.NamespacedName]{},
				waiting: newWaiting(), looked: newLooked(), bridges: newBridges(DefaultHandOverWait),
			}
			synctest.Test(t, func(t *testing.T) {
				request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)}
				early, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, err := tc.with(b, r).Reconcile(early, request)
				if waited := errors.Is(err, context.DeadlineExceeded); waited != (tc.early != "") {
					t.Errorf("it looked before the pools were read: %v", err)
				}
				mustBeServedAt(t, r, svc, tc.early)
				if tc.early == "" {
					return
				}
				pools.Add(pool)
				pools.Synced()
				if _, err := tc.with(b, r).Reconcile(t.Context(), request); err != nil {
					t.Error(err)
				}
				mustBeServedAt(t, r, svc, served)
			})
		})
	}
}
