package exposure_test

import (
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

func TestClassOf(t *testing.T) {
	for name, c := range map[string]struct {
		spec       *string
		annotation *string
		want       string
	}{
		"none":                               {nil, nil, ""},
		"in the spec":                        {new("nginx"), nil, "nginx"},
		"by the annotation":                  {nil, new("nginx"), "nginx"},
		"by both":                            {new("nginx"), new("old"), "old"},
		"by what is no name":                 {new("nginx"), new("a b/c"), ""},
		"by nothing":                         {new("nginx"), new(""), ""},
		"by what is longer than any name is": {nil, new(strings.Repeat("a", 254)), ""},
	} {
		ing := &networkingv1.Ingress{Spec: networkingv1.IngressSpec{IngressClassName: c.spec}}
		if c.annotation != nil {
			ing.Annotations = map[string]string{v1beta1.AnnotationIngressClass: *c.annotation}
		}
		if got := exposure.ClassOf(ing); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestDefaultClass(t *testing.T) {
	class := func(name, isDefault string, age time.Duration) networkingv1.IngressClass {
		return networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age)),
			Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: isDefault},
		}}
	}
	for want, classes := range map[string][]networkingv1.IngressClass{
		"":       {class("a", "false", 0), class("b", "yes", 0)},
		"old":    {class("new", "false", 0), class("old", "true", time.Hour)},
		"young":  {class("old", "true", time.Hour), class("young", "true", time.Minute), class("middle", "true", 30*time.Minute)},
		"a-twin": {class("b-twin", "true", 0), class("a-twin", "true", 0)},
	} {
		if got := exposure.DefaultClass(classes); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
