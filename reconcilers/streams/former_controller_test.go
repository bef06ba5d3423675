package streams

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestFormerTargets looks at a ConfigMap that bears the label of a class, and to which somebody has applied an entry.
func TestFormerTargets(t *testing.T) {
	const former = "public"
	names := func(name string) *v1beta1.StreamIngressClass {
		class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "tcp-services"}
		return class
	}
	turning := names(former)
	turning.Spec.TCPConfigMap.Name = "another"
	turning.Generation = 2
	turning.Status.Conditions = []metav1.Condition{{
		Type: v1beta1.ConditionAccepted, Status: metav1.ConditionTrue, ObservedGeneration: 1, Reason: v1beta1.ReasonAccepted,
	}}
	elsewhere := turning.DeepCopy()
	elsewhere.Status.Conditions[0].ObservedGeneration = 2
	adopted := claim.New(claim.Stream(former, v1beta1.TCP, 80), claim.Claimant{Holder: claim.StreamHolder("shop", "web")})
	adopted.Spec.Adopted = &v1beta1.AdoptedEntry{Entry: "shop/web:80", Holder: claim.ConfigMapHolder("edge", "tcp-services").Spec("")}
	replaced := adopted.DeepCopy()
	replaced.Spec.Adopted.Replaced = true
	for name, tc := range map[string]struct {
		by      string
		label   string
		objects []client.Object
		want    string
		again   time.Duration
	}{
		"its class is gone":                          {stream.FieldManager, former, nil, "", 0},
		"its class names another one":                {stream.FieldManager, former, []client.Object{elsewhere}, "", 0},
		"its class has yet to write to another one":  {stream.FieldManager, former, []client.Object{turning}, "shop/web:80", formerRetry},
		"its class names it":                         {stream.FieldManager, former, []client.Object{names(former)}, "shop/web:80", 0},
		"another class names it by now":              {stream.FieldManager, former, []client.Object{names("next")}, "shop/web:80", 0},
		"it has no label":                            {stream.FieldManager, "", nil, "shop/web:80", 0},
		"somebody else has applied the entry":        {"kubectl", former, nil, "shop/web:80", 0},
		"an entry is still to be written back to it": {stream.FieldManager, former, []client.Object{replaced}, "shop/web:80", watch.CacheLag},
		"its class has moved, and an entry is still to be written back": {
			stream.FieldManager, former, []client.Object{elsewhere, replaced}, "shop/web:80", watch.CacheLag},
		"its class serves the stream that took it on": {stream.FieldManager, former, []client.Object{elsewhere, adopted}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := baseWith(t, accesstest.Cluster(t, tc.objects...).WithReturnManagedFields().Build())
			apply := corev1ac.ConfigMap("tcp-services", "edge").WithData(map[string]string{"80": "shop/web:80"})
			if tc.label != "" {
				apply.WithLabels(map[string]string{v1beta1.LabelClass: tc.label})
			}
			if err := b.Writer.Apply(t.Context(), apply, client.FieldOwner(tc.by)); err != nil {
				t.Fatal(err)
			}
			cm := &corev1.ConfigMap{}
			cm.Namespace, cm.Name = "edge", "tcp-services"
			r := &formerReconciler{base: b}
			result, err := r.Reconcile(t.Context(), formerRequest{false, client.ObjectKeyFromObject(cm)})
			if err != nil || result.RequeueAfter != tc.again {
				t.Errorf("again after %v, want %v: %v", result.RequeueAfter, tc.again, err)
			}
			if err := b.Live.Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil {
				t.Fatal(err)
			}
			if got := cm.Data["80"]; got != tc.want {
				t.Errorf("the entry is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestLabeledObjectsOfAClass finds those that Portcullis may have to let go of.
func TestLabeledObjectsOfAClass(t *testing.T) {
	class, cm, svc := accesstest.Public()
	ours := []metav1.ManagedFieldsEntry{{
		Manager: stream.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}"),
	}}
	cm.ManagedFields, svc.ManagedFields = ours, ours
	tenants := cm.DeepCopy()
	tenants.Name, tenants.ManagedFields = "tenants", nil
	r := &formerReconciler{base: baseWith(t, accesstest.Cluster(t, cm, svc, tenants).WithReturnManagedFields().Build())}
	got := r.labeled(t.Context(), class)
	want := []formerRequest{{false, client.ObjectKeyFromObject(cm)}, {true, client.ObjectKeyFromObject(svc)}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
}
