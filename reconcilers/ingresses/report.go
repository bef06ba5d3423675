package ingresses

import (
	"context"
	"fmt"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

// refuse reports why a Service gets no Ingress, or why the one it has stays as it is.
func (r *ingressReconciler) refuse(svc *corev1.Service, class string, problems refusal.Problems) {
	r.reported.RecordState(svc, class, report.StateRefused)
	message := report.Text(problems)
	if r.reported.Record(svc, report.TopicIngress, message) != message {
		r.announce(svc, corev1.EventTypeWarning, problems[0].Reason, message)
	}
}

// serve reports that a Service has its Ingress, if that was not so before, and how its certificate is doing.
func (r *ingressReconciler) serve(ctx context.Context, svc *corev1.Service, w wish) error {
	r.reported.RecordState(svc, w.Class, report.StateServed)
	if r.reported.Record(svc, report.TopicIngress, "") != "" {
		r.announce(svc, corev1.EventTypeNormal, v1beta1.ReasonExposed, "the Ingress serves what the annotation says: "+w.String())
	}
	if w.Issuer.IsZero() {
		r.reported.Record(svc, report.TopicCertificate, "")
		return nil
	}
	cert, err := r.View.Ingresses.Certificate(ctx, client.ObjectKeyFromObject(svc))
	if err != nil || cert == nil {
		return err
	}
	ready, message := readiness(cert)
	if message == "" || r.reported.Record(svc, report.TopicCertificate, message) == message {
		return nil
	}
	if ready {
		r.announce(svc, corev1.EventTypeNormal, v1beta1.ReasonCertificateReady, message)
	} else {
		r.announce(svc, corev1.EventTypeWarning, v1beta1.ReasonCertificateNotReady, message)
	}
	return nil
}

// readiness is what there is to say about a Certificate; the message is empty while there is nothing but to wait.
func readiness(cert *cmv1.Certificate) (ready bool, message string) {
	conditions := map[cmv1.CertificateConditionType]cmv1.CertificateCondition{}
	for _, c := range cert.Status.Conditions {
		conditions[c.Type] = c
	}
	state, issuing := conditions[cmv1.CertificateConditionReady], conditions[cmv1.CertificateConditionIssuing]
	switch {
	case state.Status == cmmeta.ConditionTrue && state.ObservedGeneration == cert.Generation:
		return true, fmt.Sprintf("the certificate for %s is in Secret %s", strings.Join(cert.Spec.DNSNames, ", "), cert.Spec.SecretName)
	case issuing.Status == cmmeta.ConditionFalse && issuing.Reason == failedReason:
		return false, fmt.Sprintf("the certificate for %s could not be issued: %s", strings.Join(cert.Spec.DNSNames, ", "), issuing.Message)
	default:
		return false, ""
	}
}

// failedReason is the reason that cert-manager gives for an issuance that came to nothing.
const failedReason = "Failed"

// announce emits an event of a Service.
func (r *ingressReconciler) announce(svc *corev1.Service, kind, reason, message string) {
	report.Emit(r.Events, svc, nil, kind, reason, "Expose", message)
}
