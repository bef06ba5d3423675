package streams

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// leaves is a stream that is being deleted.
func leaves(s *v1beta1.StreamIngress) {
	s.Spec.ClassName, s.Finalizers, s.DeletionTimestamp = "public", []string{"example.com/mine"}, new(metav1.Now())
}

// TestAStreamThatIsBeingDeleted keeps what it has outside as long as it has leave and that is as it was, and gets nothing new.
func TestAStreamThatIsBeingDeleted(t *testing.T) {
	denied := func(c *v1beta1.StreamIngressClass) { c.Spec.OutsideUpstreams = v1beta1.OutsideDenied }
	elsewhere := func(c *v1beta1.StreamIngressClass) { c.Name = "another" }
	both, onlySlice := []string{"delete EndpointSlice", "delete Service"}, []string{"delete EndpointSlice"}
	for name, tc := range map[string]struct {
		class  func(*v1beta1.StreamIngressClass)
		change func(*v1beta1.StreamIngress)
		alter  func(*corev1.Service, *discoveryv1.EndpointSlice)
		want   []string
	}{
		"with leave":      {},
		"without leave":   {class: denied, want: both},
		"without a class": {class: elsewhere},
		"that leads inside by now": {change: func(s *v1beta1.StreamIngress) {
			s.Spec.IsService = nil
			s.Spec.Upstream = accesstest.Postgres().Spec.Upstream
		}, want: both},
		"to another address": {change: to("192.0.2.8", 5432), want: both},
		"to a name by now":   {change: to("db.example.com", 5432), want: both},
		"with its Service opened": {alter: func(svc *corev1.Service, _ *discoveryv1.EndpointSlice) {
			svc.Spec.Type = corev1.ServiceTypeLoadBalancer
		}, want: both},
		"with its Service taken": {alter: func(svc *corev1.Service, _ *discoveryv1.EndpointSlice) { svc.OwnerReferences = nil }, want: onlySlice},
		"without leave, with its Service taken": {class: denied, alter: func(svc *corev1.Service, _ *discoveryv1.EndpointSlice) {
			svc.OwnerReferences = nil
		}, want: onlySlice},
		"without leave, with its Service held": {class: denied, alter: func(svc *corev1.Service, _ *discoveryv1.EndpointSlice) {
			svc.Finalizers, svc.DeletionTimestamp = []string{"example.com/mine"}, new(metav1.Now())
		}, want: onlySlice},
		"whose Service the garbage collector has deleted":       {alter: func(svc *corev1.Service, _ *discoveryv1.EndpointSlice) { svc.Name = "gone" }},
		"whose EndpointSlice the garbage collector has deleted": {alter: func(_ *corev1.Service, slice *discoveryv1.EndpointSlice) { slice.Name = "gone" }},
	} {
		t.Run(name, func(t *testing.T) {
			si := accesstest.Postgres(to("192.0.2.7", 5432), leaves)
			class, _, _ := accesstest.Public()
			svc, slice := serviceOf(t, si, true), sliceOf(t, si)
			if tc.class != nil {
				tc.class(class)
			}
			if tc.change != nil {
				tc.change(si)
			}
			if tc.alter != nil {
				tc.alter(svc, slice)
			}
			c := record(t, si, class, svc, slice)
			r := &streamReconciler{base: c.base}
			for look, want := range [][]string{tc.want, nil} {
				c.writes = nil
				result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(si)})
				if err != nil || result.RequeueAfter != 0 {
					t.Fatal(result, err)
				}
				if diff := cmp.Diff(want, c.writes); diff != "" {
					t.Errorf("writes of look %d (-want +got):\n%s", look+1, diff)
				}
			}
		})
	}
}

// TestATakenServiceLeadsNowhere has somebody take the stream off the owners of its Service, which is not set right any longer then.
func TestATakenServiceLeadsNowhere(t *testing.T) {
	si := accesstest.Postgres(to("192.0.2.7", 5432))
	svc, slice := serviceOf(t, si, true), sliceOf(t, si)
	svc.OwnerReferences = nil
	c := record(t, svc, slice)
	problems, err := (&streamReconciler{base: c.base}).outside(t.Context(), si)
	if err != nil || len(problems) != 1 || problems[0].Reason != v1beta1.ReasonBackendNameTaken {
		t.Fatal(problems, err)
	}
	if diff := cmp.Diff([]string{"delete EndpointSlice"}, c.writes); diff != "" {
		t.Error(diff)
	}
}

// TestOutsideReplacesAnOrphan has the EndpointSlice of a stream of the same name, of another family, that was orphaned.
func TestOutsideReplacesAnOrphan(t *testing.T) {
	slice := sliceOf(t, accesstest.Postgres(to("192.0.2.9", 5432)))
	slice.OwnerReferences = nil
	c := record(t, slice)
	problems, err := (&streamReconciler{base: c.base}).outside(t.Context(), accesstest.Postgres(to("2001:db8::7", 5432)))
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	want := []string{"delete EndpointSlice", "apply Service", "apply EndpointSlice"}
	if diff := cmp.Diff(want, c.writes); diff != "" {
		t.Error(diff)
	}
}

// TestOrphans are EndpointSlices of ours that no stream controls.
func TestOrphans(t *testing.T) {
	for name, tc := range map[string]struct {
		alter func(*discoveryv1.EndpointSlice)
		want  []string
	}{
		"of a stream":           {func(*discoveryv1.EndpointSlice) {}, nil},
		"of nobody":             {func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil }, []string{"delete EndpointSlice"}},
		"of an owner of no say": {func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Controller = nil }, []string{"delete EndpointSlice"}},
		"of somebody else": {func(s *discoveryv1.EndpointSlice) {
			s.OwnerReferences, s.Labels[discoveryv1.LabelManagedBy] = nil, "endpointslice-controller.k8s.io"
		}, nil},
		"without a label": {func(s *discoveryv1.EndpointSlice) { s.OwnerReferences, s.Labels = nil, nil }, nil},
		"that is gone":    {func(s *discoveryv1.EndpointSlice) { s.Name = "another" }, nil},
	} {
		t.Run("an EndpointSlice "+name, func(t *testing.T) {
			si := accesstest.Postgres(to("192.0.2.7", 5432))
			slice := sliceOf(t, si)
			key := client.ObjectKeyFromObject(slice)
			tc.alter(slice)
			c := record(t, serviceOf(t, si, true), slice)
			result, err := (&orphanReconciler{c.base}).Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			if err != nil || result.RequeueAfter != 0 {
				t.Error(result, err)
			}
			if diff := cmp.Diff(tc.want, c.writes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAnOrphanThatAStreamHasTakenOn is not deleted by what the cache still shows.
func TestAnOrphanThatAStreamHasTakenOn(t *testing.T) {
	stored := sliceOf(t, accesstest.Postgres(to("192.0.2.7", 5432)))
	stored.UID, stored.ResourceVersion = "same", "8"
	seen := stored.DeepCopy()
	seen.OwnerReferences, seen.ResourceVersion = nil, "7"
	key := client.ObjectKeyFromObject(stored)
	server := accesstest.Cluster(t, stored).WithInterceptorFuncs(interceptor.Funcs{Delete: deleteThat}).Build()
	b, _ := baseOn(t, accesstest.Cluster(t, seen).Build(), server)
	result, err := (&orphanReconciler{b}).Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil || result.RequeueAfter != watch.CacheLag {
		t.Errorf("got %v, %v", result, err)
	}
	if err := server.Get(t.Context(), key, &discoveryv1.EndpointSlice{}); apierrors.IsNotFound(err) {
		t.Error("it was deleted")
	}
}

// TestTheServiceDoesNotKeepTheEndpointSlice has somebody make the Service anew, as one of the stream, faster than the cache shows.
func TestTheServiceDoesNotKeepTheEndpointSlice(t *testing.T) {
	si := accesstest.Postgres(to("192.0.2.7", 5432))
	svc, slice := serviceOf(t, si, true), sliceOf(t, si)
	svc.UID = "seen"
	anew := svc.DeepCopy()
	anew.UID = "anew"
	server := accesstest.Cluster(t, anew, slice).WithInterceptorFuncs(interceptor.Funcs{Delete: deleteThat}).Build()
	b, _ := baseOn(t, accesstest.Cluster(t, svc, slice).Build(), server)
	if err := (&streamReconciler{base: b}).dropUnless(t.Context(), si, false); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if err := server.Get(t.Context(), client.ObjectKeyFromObject(slice), &discoveryv1.EndpointSlice{}); !apierrors.IsNotFound(err) {
		t.Errorf("the EndpointSlice stays: %v", err)
	}
}
