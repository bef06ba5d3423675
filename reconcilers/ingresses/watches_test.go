package ingresses

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// annotated is a Service that asks for an Ingress, and names an heir, each unless it is empty.
func annotated(key types.NamespacedName, asks, heir string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID(key.Name)}}
	for name, value := range map[string]string{v1beta1.AnnotationHTTP: asks, v1beta1.AnnotationHandOverTo: heir} {
		if value != "" {
			metav1.SetMetaDataAnnotation(&svc.ObjectMeta, name, value)
		}
	}
	return svc
}

// TestNamingAnHeirTakesNothingFromIt has a Service name another namespace's, the Ingress of which another tool made for it: nothing of that
// is touched. One that asks for an Ingress is looked at.
func TestNamingAnHeirTakesNothingFromIt(t *testing.T) {
	key := types.NamespacedName{Namespace: "victim", Name: "web"}
	for name, tc := range map[string]struct {
		heir *corev1.Service
		want bool
	}{
		"it asks for nothing":     {heir: annotated(key, "", "")},
		"it asks for an Ingress":  {heir: annotated(key, "host=web.example.com", ""), want: true},
		"it is not there":         {},
		"it is one of other name": {heir: annotated(types.NamespacedName{Namespace: "victim", Name: "x"}, "host=web.example.com", "")},
	} {
		t.Run(name, func(t *testing.T) {
			theirs := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "i"}}
			objects := []client.Object{theirs}
			if tc.heir != nil {
				objects = append(objects, tc.heir)
				theirs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(tc.heir, corev1.SchemeGroupVersion.WithKind("Service"))}
			}
			stored := accesstest.Cluster(t, objects...).Build()
			r := &ingressReconciler{Access: accesstest.With(t, stored), reported: report.NewReportedState(), handing: newHanding()}
			requests := r.heirOf(t.Context(), annotated(types.NamespacedName{Namespace: "mean", Name: "web"}, "host=a.test", key.String()))
			if len(requests) > 0 != tc.want || tc.want && requests[0].NamespacedName != key {
				t.Fatalf("looks at %v", requests)
			}
			if tc.want {
				return
			}
			for _, req := range requests {
				if _, err := r.Reconcile(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			if err := stored.Get(t.Context(), key, &networkingv1.Ingress{}); err != nil {
				t.Errorf("the Ingress of another tool: %v", err)
			}
		})
	}
}

// TestHeirChanged has Services come to name somebody: only those with an Ingress have anything that who is named may wait for.
func TestHeirChanged(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	for name, tc := range map[string]struct {
		before, after *corev1.Service
		want          bool
	}{
		"it names one":               {annotated(key, "host=a.test", ""), annotated(key, "host=a.test", "blog/new"), true},
		"it names another":           {annotated(key, "host=a.test", "blog/x"), annotated(key, "host=a.test", "blog/new"), true},
		"it named it before":         {annotated(key, "host=a.test", "blog/new"), annotated(key, "host=b.test", "blog/new"), false},
		"it asks for no Ingress":     {annotated(key, "", ""), annotated(key, "", "blog/new"), false},
		"it asks for one no longer":  {annotated(key, "host=a.test", ""), annotated(key, "", "blog/new"), false},
		"it names nobody any longer": {annotated(key, "host=a.test", "blog/new"), annotated(key, "host=a.test", ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := heirChanged().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
