package exposure

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// RequestOf is what a Service requests by its annotation, complete but for the port.
func RequestOf(svc *corev1.Service, defaults Defaults) (Exposure, refusal.Problems) {
	value, _ := Annotation(svc)
	request, errs := Parse(value)
	if len(errs) > 0 {
		problems := make(refusal.Problems, 0, len(errs))
		for _, err := range errs {
			problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonInvalidAnnotation, Err: err})
		}
		return Exposure{}, problems
	}
	complete, err := defaults.Complete(request, svc.Namespace, svc.Name)
	if err != nil {
		return Exposure{}, refusal.One(v1beta1.ReasonInvalidAnnotation, err)
	}
	return complete, nil
}

// Wants says whether a Service requests a point. One whose annotation can't be read keeps what it has.
func Wants(svc *corev1.Service, defaults Defaults, at claim.Coordinate) bool {
	if _, requests := Annotation(svc); !requests || svc.DeletionTimestamp != nil {
		return false
	}
	e, problems := RequestOf(svc, defaults)
	return len(problems) > 0 || slices.Contains(e.Points(), at)
}

// IsRequested says whether an Ingress serves just what the annotation of the Service of its name requests, so that the claims
// are that Service's to make. svc is nil where there is none.
func IsRequested(ing *networkingv1.Ingress, svc *corev1.Service, defaults Defaults) bool {
	if svc == nil || svc.DeletionTimestamp != nil || !IsOwn(ing, svc) {
		return false
	}
	if _, requests := Annotation(svc); !requests {
		return false
	}
	e, problems := RequestOf(svc, defaults)
	if len(problems) > 0 {
		return false
	}
	port, err := e.FindPort(svc)
	return err == nil && e.Class == ClassOf(ing) && equality.Semantic.DeepEqual(ing.Spec.Rules, e.IngressSpec(svc.Name, port).Rules)
}
