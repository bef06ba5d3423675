package claims

import (
	"context"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestPortsThatAreForwarded tells what is looked at when a port of class public, which asks for one address and has another, has gone
// or its Service has changed.
func TestPortsThatAreForwarded(t *testing.T) {
	class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}}
	class.Spec.AddressPool = &v1beta1.ClassAddressPool{Name: "edge", Namespace: "edge", Addresses: []string{"192.0.2.1"}}
	class.Status.Addresses = []string{"192.0.2.2"}
	port := claim.Stream("public", v1beta1.TCP, 80)
	asked, had := claim.AddressPort(netip.MustParseAddr("192.0.2.1"), "TCP", 80), claim.AddressPort(netip.MustParseAddr("192.0.2.2"), "TCP", 80)
	byClass, byStream := claim.ClassHolder("public"), claim.StreamHolder("shop", "web")
	r := newClaimReconciler(accesstest.Of(t, class,
		claim.New(port, claim.Claimant{Holder: byStream}),
		claim.New(asked, claim.Claimant{Holder: byClass}), claim.New(had, claim.Claimant{Holder: byClass})), claimTestOptions())
	open := forwarding()
	unlabeled := open.DeepCopy()
	unlabeled.Labels = nil
	closed := open.DeepCopy()
	closed.Status = corev1.ServiceStatus{}
	streamPort := claimRequest{Holder: byStream}
	of := func(at claim.Coordinate) claimRequest { return claimRequest{Holder: byClass, At: at} }
	for name, tc := range map[string]struct {
		happens func(context.Context, claimQueue)
		want    []claimRequest
	}{
		"its claim goes": {func(ctx context.Context, q claimQueue) { r.enqueueFront(ctx, q, port) }, []claimRequest{of(asked), of(had)}},
		"its Service goes": {func(ctx context.Context, q claimQueue) {
			r.onForwarded().Delete(ctx, event.TypedDeleteEvent[client.Object]{Object: open}, q)
		}, []claimRequest{of(had), streamPort}},
		"its Service goes, and says nothing of the port": {func(ctx context.Context, q claimQueue) {
			r.onForwarded().Delete(ctx, event.TypedDeleteEvent[client.Object]{Object: unlabeled}, q)
		}, []claimRequest{streamPort}},
		"its Service is no more that of the port": {func(ctx context.Context, q claimQueue) {
			r.onForwarded().Update(ctx, event.TypedUpdateEvent[client.Object]{ObjectOld: open, ObjectNew: unlabeled}, q)
		}, []claimRequest{of(had), streamPort}},
		"its Service is open nowhere": {func(ctx context.Context, q claimQueue) {
			r.onForwarded().Update(ctx, event.TypedUpdateEvent[client.Object]{ObjectOld: open, ObjectNew: closed}, q)
		}, []claimRequest{of(had)}},
		"its Service is opened": {func(ctx context.Context, q claimQueue) {
			r.onForwarded().Update(ctx, event.TypedUpdateEvent[client.Object]{ObjectOld: closed, ObjectNew: open}, q)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(watch.BackOff[claimRequest]())
			defer q.ShutDown()
			tc.happens(t.Context(), q)
			var got []claimRequest
			for q.Len() > 0 {
				req, _ := q.Get()
				got = append(got, req)
			}
			inOrder := cmpopts.SortSlices(func(a, b claimRequest) bool { return a.At.Name()+a.Holder.String() < b.At.Name()+b.Holder.String() })
			if diff := cmp.Diff(tc.want, got, inOrder, cmp.Comparer(func(a, b claimRequest) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// forwarding is the Service of TCP/80 of class public, open at 192.0.2.2.
func forwarding() *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "edge", Name: v1beta1.StreamServiceName("public", v1beta1.TCP, 80), Labels: map[string]string{v1beta1.LabelClass: "public"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: stream.FieldManager, Operation: metav1.ManagedFieldsOperationApply}},
	}}
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.StreamLoadBalancerClass)
	svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.2"}}
	return svc
}
