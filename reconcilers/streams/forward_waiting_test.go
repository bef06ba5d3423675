package streams

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// doorOf is a port of a class that writes to a namespace of its own name.
func doorOf(class string, port int32) *door {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: class}}
	c.Spec.AddressPool = &v1beta1.ClassAddressPool{Name: "pool", Namespace: class}
	return &door{class: c, port: stream.PortKey{Protocol: v1beta1.TCP, Port: port}}
}

// waitingPorts is a reconciler of two classes that were refused ports for each reason: TCP/1 to 3 for want of cluster IPs, 11 and 12 for
// a name that is taken, 21 and 22 by the API server.
func waitingPorts(t *testing.T) *forwardReconciler {
	t.Helper()
	refused := newRefusedDoors()
	for _, class := range []string{"a", "b"} {
		for from, reason := range map[int32]string{
			1: v1beta1.ReasonClusterIPsExhausted, 11: v1beta1.ReasonServiceNameTaken, 21: v1beta1.ReasonServiceRefused,
		} {
			for port := from; port < from+2; port++ {
				refused.set(doorOf(class, port), reason, "words")
			}
		}
	}
	refused.set(doorOf("b", 1), v1beta1.ReasonPortRefused, "words")
	refused.set(doorOf("b", 2), v1beta1.ReasonPortRefused, "words")
	refused.set(doorOf("a", 3), v1beta1.ReasonClusterIPsExhausted, "words")
	return &forwardReconciler{base: baseOf(t, doorOf("a", 1).class, doorOf("b", 1).class), refused: refused}
}

func portsIn(requests []reconcile.Request) []string {
	var names []string
	for _, request := range requests {
		names = append(names, strings.TrimPrefix(request.String(), "/"))
	}
	slices.Sort(names)
	return names
}

// TestRoomWakesThoseThatWait has Services come and go while ports wait for a cluster IP: some of those are tried, and no others.
func TestRoomWakesThoseThatWait(t *testing.T) {
	exhausted := []string{"stream.a.tcp.1", "stream.a.tcp.2", "stream.a.tcp.3"}
	made := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a-tcp-7", ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: stream.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
	}}}}
	made.Spec.Type, made.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.StreamLoadBalancerClass)
	forged := made.DeepCopy()
	forged.Namespace = "shop"
	another := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	another.Spec.ClusterIP = "10.96.0.1"
	headless := another.DeepCopy()
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	taken := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "b-tcp-11"}}
	taken.Spec.ClusterIP = "10.96.0.2"
	for name, tc := range map[string]struct {
		create, remove *corev1.Service
		listed         bool
		// waiting is how many of those that wait for a cluster IP are woken, and others are who else is.
		waiting int
		others  []string
	}{
		"a port got its Service":                 {create: made, waiting: 2},
		"it had it before this process began":    {create: made, listed: true},
		"a tenant made one that says it is one":  {create: forged},
		"one without a cluster IP goes":          {remove: headless},
		"somebody else made one":                 {create: another},
		"one goes":                               {remove: another, waiting: 1},
		"one goes that has the name of a port's": {remove: taken, waiting: 1, others: []string{"stream.b.tcp.11"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := waitingPorts(t)
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			if tc.create != nil {
				r.onRoom().Create(t.Context(), event.CreateEvent{Object: tc.create, IsInInitialList: tc.listed}, q)
			}
			if tc.remove != nil {
				r.onRoom().Delete(t.Context(), event.DeleteEvent{Object: tc.remove}, q)
			}
			var waiting, others []string
			for range tc.waiting + len(tc.others) {
				request, _ := q.Get() // blocks for one that comes later
				if name := portsIn([]reconcile.Request{request})[0]; slices.Contains(exhausted, name) {
					waiting = append(waiting, name)
				} else {
					others = append(others, name)
				}
			}
			if q.Len() > 0 || len(waiting) != tc.waiting || !slices.Equal(others, tc.others) {
				t.Errorf("woke %v and %v, and %d more", waiting, others, q.Len())
			}
		})
	}
}

// TestPlaceWakesThoseThatWait has a namespace come, and an EndpointSlice go: in a namespace that a class writes to, and elsewhere.
func TestPlaceWakesThoseThatWait(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace, reason string
		want              []string
	}{
		"a namespace":                {"a", v1beta1.ReasonServiceRefused, []string{"stream.a.tcp.21", "stream.a.tcp.22"}},
		"a name":                     {"b", v1beta1.ReasonServiceNameTaken, []string{"stream.b.tcp.11", "stream.b.tcp.12"}},
		"where no class writes to":   {"shop", v1beta1.ReasonServiceNameTaken, nil},
		"what nobody is waiting for": {"b", v1beta1.ReasonClusterIPsExhausted, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, portsIn(waitingPorts(t).waitingIn(t.Context(), tc.namespace, tc.reason))); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}
