// Package exposure is all of the annotation ingress/http on a Service that knows no cluster: its grammar; the points of the edge
// that it requests, the Ingress and the Certificate; and the rules that say whether the Service may have them.
//
// The value is empty, the name of an IngressClass, or fields separated by commas:
//
//	class=nginx, host=shop.example.com, host=www.example.com, path=/api, exact=/health, port=http,
//	issuer=letsencrypt, tls=shop-tls
//
// The rules see the cluster as Facts. Admission and reconciliation call the same ones, so that an object that got past admission
// meets the same verdict later.
package exposure

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Exposure is what the annotation says. Empty fields are those that were left out.
type Exposure struct {
	// Class is the name of an IngressClass.
	Class string
	Hosts []string
	Paths []Path
	// Port is the number or the name of a port of the Service.
	Port string
	// Issuer signs the certificate.
	Issuer Issuer
	// Secret has the certificate, or gets it from the issuer.
	Secret string
}

// Path is a path on every host. It is comparable.
type Path struct {
	Type  networkingv1.PathType
	Value string
}

// Issuer is an issuer of cert-manager. It is comparable; the zero value is none.
type Issuer struct {
	// Kind is ClusterIssuer or Issuer.
	Kind, Name string
}

// The kinds of an issuer.
const (
	clusterIssuer = "ClusterIssuer"
	issuer        = "Issuer"
)

// IsZero says whether there is no issuer.
func (i Issuer) IsZero() bool { return i == Issuer{} }

// String is the issuer as the annotation names it.
func (i Issuer) String() string {
	if i.Kind == issuer {
		return i.Kind + "/" + i.Name
	}
	return i.Name
}

// HasTLS says whether the hosts are served with a certificate.
func (e Exposure) HasTLS() bool { return !e.Issuer.IsZero() || e.Secret != "" }

// String is the value of the annotation. Parse reads it back.
func (e Exposure) String() string {
	var fields []string
	add := func(name, value string) {
		if value != "" {
			fields = append(fields, name+"="+value)
		}
	}
	add("class", e.Class)
	for _, host := range e.Hosts {
		add("host", host)
	}
	for _, p := range e.Paths {
		add(p.field(), p.Value)
	}
	add("port", e.Port)
	add("issuer", e.Issuer.String())
	add("tls", e.Secret)
	return strings.Join(fields, ", ")
}

// field is the name of the field that gives a path.
func (p Path) field() string {
	if p.Type == networkingv1.PathTypeExact {
		return "exact"
	}
	return "path"
}

// Annotation is the value of the annotation, and whether the Service carries it.
func Annotation(svc *corev1.Service) (value string, ok bool) {
	value, ok = svc.Annotations[v1beta1.AnnotationHTTP]
	return value, ok
}

// AnnotationPath is the path of the annotation in an object.
func AnnotationPath() *field.Path {
	return field.NewPath("metadata", "annotations").Key(v1beta1.AnnotationHTTP)
}
