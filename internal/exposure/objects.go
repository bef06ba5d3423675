package exposure

import (
	"maps"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// point is a path as the ledger has it. The type does not count: of Prefix and Exact on one path, the second would take
// the requests of the first. A slash at the end of a prefix means nothing.
func (p Path) point() string {
	if p.Type == networkingv1.PathTypeExact {
		return p.Value
	}
	return "/" + strings.Trim(p.Value, "/")
}

// Points are the points of the edge that a complete exposure asks for, in ascending order: whoever claims several does
// so in this order, so that of two that want the same ones the first gets all.
func (e Exposure) Points() []claim.Coordinate {
	var points []claim.Coordinate
	for _, host := range e.Hosts {
		for _, p := range e.Paths {
			points = append(points, claim.HTTP(host, p.point()).ServedBy(e.Class))
		}
	}
	slices.SortFunc(points, claim.Compare)
	return points
}

// IngressSpec is what the Ingress of a complete exposure says.
func (e Exposure) IngressSpec(service string, port int32) networkingv1.IngressSpec {
	spec := networkingv1.IngressSpec{}
	if e.Class != "" {
		spec.IngressClassName = &e.Class
	}
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: service, Port: networkingv1.ServiceBackendPort{Number: port},
	}}
	for _, host := range e.Hosts {
		http := &networkingv1.HTTPIngressRuleValue{}
		for _, p := range e.Paths {
			http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Path: p.Value, PathType: &p.Type, Backend: *backend.DeepCopy()})
		}
		spec.Rules = append(spec.Rules, networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: http}})
	}
	if e.HasTLS() {
		spec.TLS = []networkingv1.IngressTLS{{Hosts: slices.Clone(e.Hosts), SecretName: e.Secret}}
	}
	return spec
}

// FillCertificate writes into a Certificate what a complete exposure with an issuer wants of it, and leaves the rest.
func (e Exposure) FillCertificate(spec *cmv1.CertificateSpec) {
	spec.SecretName = e.Secret
	spec.DNSNames = slices.Clone(e.Hosts)
	spec.IssuerRef = cmmeta.IssuerReference{Group: "cert-manager.io", Kind: e.Issuer.Kind, Name: e.Issuer.Name}
}

// Mark writes into an object that it is owned by a Service, and made for it as it is. Owners that do not control it stay.
func Mark(obj metav1.Object, svc *corev1.Service) {
	annotations := map[string]string{}
	maps.Copy(annotations, obj.GetAnnotations())
	annotations[v1beta1.AnnotationMadeFor] = string(svc.UID) + "@" + svc.ResourceVersion
	obj.SetAnnotations(annotations)
	owners := []metav1.OwnerReference{{
		APIVersion: corev1.SchemeGroupVersion.String(), Kind: serviceKind, Name: svc.Name, UID: svc.UID,
		Controller: new(true), BlockOwnerDeletion: new(false),
	}}
	for _, owner := range obj.GetOwnerReferences() {
		if owner.UID != svc.UID && !ptr.Deref(owner.Controller, false) {
			owners = append(owners, owner)
		}
	}
	obj.SetOwnerReferences(owners)
}

const serviceKind = "Service"

// MadeFor is the UID of the Service of an object's name that it was made for; empty when Portcullis has not made it, or it
// is somebody else's now. Mark and owner have to agree: a copy of the annotation alone says nothing. Both are the tenant's
// to write, so this decides only what of the tenant's own is overwritten and deleted, never whose a point is.
func MadeFor(obj metav1.Object) types.UID {
	uid := madeFor(obj)
	if owner := metav1.GetControllerOf(obj); owner == nil || owner.UID != uid || owner.APIVersion != "v1" ||
		owner.Kind != serviceKind || owner.Name != obj.GetName() {
		return ""
	}
	return uid
}

func madeFor(obj metav1.Object) types.UID {
	uid, _, _ := strings.Cut(obj.GetAnnotations()[v1beta1.AnnotationMadeFor], "@")
	return types.UID(uid)
}

// IsOwn says whether an object of a Service's name is the Service's: it controls the object, or Portcullis has made it
// for this Service or an earlier one of its name.
func IsOwn(obj metav1.Object, svc *corev1.Service) bool {
	return metav1.IsControlledBy(obj, svc) || MadeFor(obj) != "" || metav1.GetControllerOf(obj) == nil && madeFor(obj) == svc.UID
}

// IsMarked says whether the owner and the mark of an object are as Mark writes them, for any version of the Service.
func IsMarked(obj metav1.Object, svc *corev1.Service) bool {
	return MadeFor(obj) == svc.UID && metav1.IsControlledBy(obj, svc)
}
