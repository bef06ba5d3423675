package snapshot

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestClasses(t *testing.T) {
	nginx := &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: "nginx"}, Spec: networkingv1.IngressClassSpec{Controller: NginxController},
	}
	byDefault := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "other", Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}}}
	c := (&Snapshot{IngressClasses: []*networkingv1.IngressClass{nginx, byDefault}}).ClassesOf()
	none := (&Snapshot{}).ClassesOf()
	for name, row := range map[string]struct {
		in              networkingv1.Ingress
		want, elsewhere string
	}{
		"by name":       {networkingv1.Ingress{Spec: networkingv1.IngressSpec{IngressClassName: ptr.To("nginx")}}, "nginx", "nginx"},
		"by annotation": {networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1beta1.AnnotationIngressClass: "x"}}}, "x", "x"},
		"by default":    {networkingv1.Ingress{}, "other", ""},
	} {
		if got := c.Of(&row.in); got != row.want {
			t.Errorf("%s: got %q", name, got)
		}
		if got := none.Of(&row.in); got != row.elsewhere {
			t.Errorf("%s, without classes: got %q", name, got)
		}
	}
	if !c.IsNginx("nginx") || c.IsNginx("other") || c.IsNginx("") {
		t.Error("ingress-nginx serves another class")
	}
	if ClassName("") != "no IngressClass" || ClassName("x") != "IngressClass x" {
		t.Error("classes are told wrong")
	}
}
