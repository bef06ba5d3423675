package exposure

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Writable finds the port that the Ingress of an exposure leads to, and says what keeps its objects from being written: a port that
// is not there, an Ingress or a Certificate of the Service's name that is somebody else's, and an issuer without cert-manager.
func Writable(facts Facts, svc *corev1.Service, e Exposure) (port int32, problems refusal.Problems) {
	port, err := e.FindPort(svc)
	if err != nil {
		problems = refusal.One(v1beta1.ReasonServicePortNotFound, err)
	}
	key := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
	if ing := facts.Ingress(key); ing != nil && !IsOwn(ing, svc) {
		return port, append(problems, unwritable(v1beta1.ReasonIngressNameTaken, e, fmt.Sprintf(
			"an Ingress %s exists%s, and this Service does not own it; it is left alone: delete or rename it, or rename the Service",
			key, refusal.Since(ing))))
	}
	if e.Issuer.IsZero() {
		return port, problems
	}
	return port, append(problems, certifiable(facts, svc, e, key)...)
}

func certifiable(facts Facts, svc *corev1.Service, e Exposure, key types.NamespacedName) refusal.Problems {
	if !facts.CertManager() {
		return refusal.Problems{unwritable(v1beta1.ReasonCertManagerMissing, e, fmt.Sprintf(
			"issuer=%s needs cert-manager, which is not installed in this cluster; install it, or name a Secret that has a certificate, "+
				"for example tls=%s", e.Issuer, e.Secret))}
	}
	if cert := facts.Certificate(key); cert != nil && !IsOwn(cert, svc) {
		return refusal.Problems{unwritable(v1beta1.ReasonCertificateNameTaken, e, fmt.Sprintf(
			"a Certificate %s exists%s, and this Service does not own it; it is left alone: leave issuer out and name its Secret, "+
				"for example tls=%s", key, refusal.Since(cert), cert.Spec.SecretName))}
	}
	return nil
}

func unwritable(reason string, e Exposure, detail string) refusal.Problem {
	return refusal.Problem{Reason: reason, Err: field.Invalid(AnnotationPath(), e.String(), detail)}
}
