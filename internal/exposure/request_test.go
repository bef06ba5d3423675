package exposure_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

func TestWants(t *testing.T) {
	at := claim.HTTP("web.example.com", "/")
	leaving := requesting("web", "")
	leaving.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		svc  *corev1.Service
		want bool
	}{
		"by default":         {requesting("web", ""), true},
		"by name":            {requesting("other", "host=web.example.com"), true},
		"another host":       {requesting("other", ""), false},
		"another path":       {requesting("web", "path=/x"), false},
		"no annotation":      {&corev1.Service{}, false},
		"being deleted":      {leaving, false},
		"what can't be read": {requesting("other", "host=Web"), true},
	} {
		if got := exposure.Wants(c.svc, fakeFacts{}.Defaults(types.NamespacedName{}), at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestIsRequested(t *testing.T) {
	defaults := fakeFacts{}.Defaults(types.NamespacedName{})
	web := requesting("web", "")
	web.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	made := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	request, _ := exposure.RequestOf(web, defaults)
	made.Spec = request.IngressSpec("web", 80)
	foreign := made.DeepCopy()
	exposure.Mark(made, web)
	edited := made.DeepCopy()
	edited.Spec.Rules[0].Host = "other.example.com"
	changed := func(change func(*corev1.Service)) *corev1.Service {
		svc := web.DeepCopy()
		change(svc)
		return svc
	}
	for name, c := range map[string]struct {
		ing  *networkingv1.Ingress
		svc  *corev1.Service
		want bool
	}{
		"what it requests":             {made, web, true},
		"no Service":                   {made, nil, false},
		"it serves something else":     {edited, web, false},
		"it is somebody else's":        {foreign, web, false},
		"the Service requests nothing": {made, changed(func(svc *corev1.Service) { svc.Annotations = nil }), false},
		"the Service is being deleted": {made, changed(func(svc *corev1.Service) { svc.DeletionTimestamp = &metav1.Time{} }), false},
		"the request can't be read":    {made, changed(func(svc *corev1.Service) { svc.Annotations[v1beta1.AnnotationHTTP] = "host=Web" }), false},
		"the port is gone":             {made, changed(func(svc *corev1.Service) { svc.Spec.Ports = nil }), false},
	} {
		if got := exposure.IsRequested(c.ing, c.svc, defaults); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
