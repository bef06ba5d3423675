package findings

import (
	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// annotations are the values of ingress/http that can't be read, or that mean a port which the Service does not have.
func annotations(s *snapshot.Snapshot) (found []Finding) {
	for _, svc := range s.Services {
		value, has := exposure.Annotation(svc)
		if !has {
			continue
		}
		for _, text := range annotationFlaws(svc, value) {
			found = append(found, Finding{
				Rule: AnnotationUnreadable, Point: v1beta1.AnnotationHTTP, Scope: "Service " + snapshot.Key(svc).String(),
				Objects: []Object{objectOf("Service", svc)}, Text: text,
				Advice: "correct the value, or remove the annotation: nothing is served for it",
			})
		}
	}
	return found
}

func annotationFlaws(svc *corev1.Service, value string) (texts []string) {
	request, errs := exposure.Parse(value)
	for _, err := range errs {
		texts = append(texts, err.Detail)
	}
	if len(errs) > 0 || svc.Spec.Type == corev1.ServiceTypeExternalName {
		return texts
	}
	if _, err := request.FindPort(svc); err != nil {
		texts = append(texts, err.Detail)
	}
	return texts
}
