package exposure

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Two IngressClasses are two proxies: a path of one is another point than the same path of the other. Earlier versions of Portcullis
// claimed a path once for all classes, and their claims name none.

// ClassOf is the IngressClass that serves an Ingress, as the Ingress names it: by the annotation of old, which is to be asked first, or in
// its spec; empty for none, and for what is no name of a class. See
// https://kubernetes.io/docs/concepts/services-networking/ingress/#ingress-class, and IsOfTwoClasses.
func ClassOf(ing *networkingv1.Ingress) string {
	if class, named := ing.Annotations[v1beta1.AnnotationIngressClass]; named {
		if len(validation.IsDNS1123Subdomain(class)) > 0 {
			return ""
		}
		return class
	}
	return ptr.Deref(ing.Spec.IngressClassName, "")
}

// IsOfTwoClasses says whether an Ingress names one class by the annotation of old, and another in its spec. The API lets nobody create
// such a one, but lets one become so. Proxies differ in which of the two they go by: ingress-nginx asks the spec first.
func IsOfTwoClasses(ing *networkingv1.Ingress) bool {
	class, named := ing.Annotations[v1beta1.AnnotationIngressClass]
	return named && ing.Spec.IngressClassName != nil && class != *ing.Spec.IngressClassName
}

// DefaultClass is the class of Ingresses that name none, empty where no class is marked as the default: of several it is the youngest, as
// the API server has it.
func DefaultClass(classes []networkingv1.IngressClass) string {
	marked := slices.DeleteFunc(slices.Clone(classes), func(class networkingv1.IngressClass) bool {
		return class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true"
	})
	if len(marked) == 0 {
		return ""
	}
	return slices.MinFunc(marked, func(a, b networkingv1.IngressClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}).Name
}

// Wanted are the points that a complete exposure has to have: those that it asks for, and, while replicas run that know of no classes,
// those that keep such a replica from giving the same away. These come first, as such a replica has no others: of two that want the same
// ones the first gets all.
func Wanted(facts Facts, e Exposure) []claim.Coordinate {
	points := e.Points()
	if e.Class == "" || !facts.OlderReplicas() {
		return points
	}
	var first []claim.Coordinate
	for _, at := range points {
		first = append(first, at.ServedBy(""))
	}
	return append(first, points...)
}

// servedBefore says whether a Service has a path by a claim that names no class, and is served there for its class: it was there before
// any other that serves the path, whatever that one has.
func servedBefore(facts Facts, svc *corev1.Service, at claim.Coordinate) bool {
	if at.IngressClass() == "" {
		return false
	}
	held := facts.Claim(at.ServedBy("").Name())
	if held == nil || claim.HolderOf(held) != claim.ServiceHolder(svc.Namespace, svc.Name) && !MayTake(svc)(held) {
		return false
	}
	ing := facts.Ingress(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
	return ing != nil && Serves(ing, at)
}

// ofAnyClass is the claim of somebody else that names no class, and is on a path that its holder has of the class of a point, or may have;
// nil for none.
func ofAnyClass(facts Facts, at claim.Coordinate, self claim.Holder) *v1beta1.EdgeClaim {
	if at.IngressClass() == "" {
		return nil
	}
	held := facts.Claim(at.ServedBy("").Name())
	if held == nil || claim.HolderOf(held) == self || !claim.MayBeOfAnyClass(held) {
		return nil
	}
	if class, known := facts.ClassFor(claim.HolderOf(held)); known && class != at.IngressClass() {
		return nil
	}
	return held
}
