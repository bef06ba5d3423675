package snapshot

import (
	"cmp"

	networkingv1 "k8s.io/api/networking/v1"

	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// Classes tell which IngressClass an Ingress is of, and what is known of who serves it.
type Classes struct {
	byName map[string]*networkingv1.IngressClass
	// byDefault is the class of Ingresses that name none, empty for none.
	byDefault string
}

// ClassesOf are the IngressClasses that were read.
func (s *Snapshot) ClassesOf() Classes {
	c := Classes{byName: map[string]*networkingv1.IngressClass{}}
	var classes []networkingv1.IngressClass
	for _, class := range s.IngressClasses {
		c.byName[class.Name] = class
		classes = append(classes, *class)
	}
	c.byDefault = exposure.DefaultClass(classes)
	return c
}

// Of is the class of an Ingress, empty for none.
func (c Classes) Of(ing *networkingv1.Ingress) string {
	return cmp.Or(exposure.ClassOf(ing), c.byDefault)
}

// IsNginx says whether ingress-nginx serves a class.
func (c Classes) IsNginx(class string) bool {
	return c.byName[class] != nil && c.byName[class].Spec.Controller == NginxController
}

// ClassName is a class as it is told.
func ClassName(class string) string {
	if class == "" {
		return "no IngressClass"
	}
	return "IngressClass " + class
}
