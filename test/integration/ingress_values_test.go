package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/annotations"
)

// ofCase is the Service of a case, in a namespace.
func ofCase(c annotations.Case, key string) *corev1.Service {
	svc := service(key, c.ServicePorts()...)
	metav1.SetMetaDataAnnotation(&svc.ObjectMeta, v1beta1.AnnotationHTTP, c.Value)
	return svc
}

// TestRefusedAnnotations offers every wrong value to the API server, which refuses it in the words of the table: of a new
// Service, and of one that is there.
func TestRefusedAnnotations(t *testing.T) {
	w := shared(t)
	cases, err := annotations.Refused()
	if err != nil {
		t.Fatal(err)
	}
	w.create(namespace("http-values-refused"))
	for _, c := range cases {
		svc := ofCase(c, "http-values-refused/web")
		isRefusedSaying(t, w.try(svc), strings.Split(c.Says, "\n")...)
		plain := service("http-values-refused/plain", c.ServicePorts()...)
		w.create(plain)
		isRefusedSaying(t, tryEdit(w, plain, ask(c.Value)), strings.Split(c.Says, "\n")...)
		w.delete(plain)
	}
	t.Logf("%d values were refused, each twice", len(cases))
	for _, name := range []string{"web", "plain"} {
		if ing := w.ingressOf(service("http-values-refused/" + name)); ing != nil {
			t.Errorf("there is an Ingress: %s", annotations.Describe(ing.Spec))
		}
	}
}

// TestAcceptedAnnotations offers every right value to the API server, and looks at the Ingress that it gives.
func TestAcceptedAnnotations(t *testing.T) {
	w := shared(t)
	cases, err := annotations.Accepted()
	if err != nil {
		t.Fatal(err)
	}
	w.create(namespace("http-values-accepted"))
	for _, c := range cases {
		svc := ofCase(c, "http-values-accepted/web")
		// Many ask for the same host, which is free a moment after the Service before is gone.
		w.eventually("the Service to be admitted", func() error { return w.Client.Create(t.Context(), svc.DeepCopy()) })
		w.get(svc)
		ing := w.serves(svc, c.Gives)
		if !metav1.IsControlledBy(ing, svc) {
			t.Errorf("%q: the Ingress is owned by %v", c.Value, ing.OwnerReferences)
		}
		if got := ing.Annotations[v1beta1.AnnotationMadeFor]; len(ing.Annotations) != 1 || !strings.HasPrefix(got, string(svc.UID)+"@") {
			t.Errorf("%q: the Ingress has the annotations %v", c.Value, ing.Annotations)
		}
		if len(ing.Labels) > 0 {
			t.Errorf("%q: the Ingress has the labels %v", c.Value, ing.Labels)
		}
		w.delete(svc)
		w.serves(svc, "")
	}
	t.Logf("%d values gave their Ingress", len(cases))
	// What made them is gone, and so is every claim.
	w.eventually("the claims to be released", func() error {
		var list v1beta1.EdgeClaimList
		if err := w.Client.List(t.Context(), &list, client.MatchingFields{"spec.heldBy": "Service http-values-accepted/web"}); err != nil {
			return err
		}
		return is(len(list.Items), 0)
	})
}
