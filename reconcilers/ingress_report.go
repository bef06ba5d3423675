package reconcilers

import (
	"context"
	"fmt"
	"strings"
	"sync"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/rules"
)

// topic is what there is news of.
type topic int

const (
	topicIngress topic = iota
	topicCertificate
	topicAddress
)

// The states of an exposed Service.
const (
	stateServed  = "served"
	stateRefused = "refused"
)

// bulletin remembers what was last told about each Service, so that each change is told once. A Service has no
// conditions that would keep it. What it remembers may be lost: then it is told again.
type bulletin struct {
	mu       sync.Mutex
	services map[types.NamespacedName]*standing
}

// standing is what was last told about a Service.
type standing struct {
	uid          types.UID
	last         [topicAddress + 1]string
	class, state string
}

func newBulletin() *bulletin { return &bulletin{services: map[types.NamespacedName]*standing{}} }

// of finds what was told about a Service. The lock must be held.
func (b *bulletin) of(svc *corev1.Service) *standing {
	key := client.ObjectKeyFromObject(svc)
	if s := b.services[key]; s != nil && s.uid == svc.UID {
		return s
	}
	s := &standing{uid: svc.UID}
	b.services[key] = s
	return s
}

// isNews says whether something was not the last that was told about a topic.
func (b *bulletin) isNews(svc *corev1.Service, t topic, text string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(svc).last[t] != text
}

// tell notes what is told about a topic, and returns what was told before.
func (b *bulletin) tell(svc *corev1.Service, t topic, text string) (before string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.of(svc)
	before, s.last[t] = s.last[t], text
	return before
}

// note notes the class and the state of a Service for the metrics.
func (b *bulletin) note(svc *corev1.Service, class, state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.of(svc)
	s.class, s.state = class, state
}

func (b *bulletin) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.services, key)
}

// count counts Services by class and state.
func (b *bulletin) count() map[[2]string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := map[[2]string]int{}
	for _, s := range b.services {
		if s.state != "" {
			counts[[2]string{s.class, s.state}]++
		}
	}
	return counts
}

// refuse reports why a Service gets no Ingress, or why the one it has stays as it is.
func (r *ingressReconciler) refuse(svc *corev1.Service, problems rules.Problems) {
	e, _ := rules.Asks(r.view, svc)
	r.told.note(svc, e.Class, stateRefused)
	message := text(problems)
	if r.told.tell(svc, topicIngress, message) != message {
		r.announce(svc, corev1.EventTypeWarning, problems[0].Reason, message)
	}
}

// serve reports that a Service has its Ingress, if that was not so before, and how its certificate is doing.
func (r *ingressReconciler) serve(ctx context.Context, svc *corev1.Service, w wish) error {
	r.told.note(svc, w.Class, stateServed)
	if r.told.tell(svc, topicIngress, "") != "" {
		r.announce(svc, corev1.EventTypeNormal, v1beta1.ReasonExposed, "the Ingress serves what the annotation says: "+w.String())
	}
	if w.Issuer.IsZero() {
		r.told.tell(svc, topicCertificate, "")
		return nil
	}
	cert, err := r.view.Certificate(ctx, client.ObjectKeyFromObject(svc))
	if err != nil || cert == nil {
		return err
	}
	ready, message := readiness(cert)
	if message == "" || r.told.tell(svc, topicCertificate, message) == message {
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

func text(problems rules.Problems) string { return problems.ErrorList().ToAggregate().Error() }

// announce emits an event of a Service.
func (b base) announce(svc *corev1.Service, kind, reason, message string) {
	b.event(svc, nil, kind, reason, "Expose", message)
}
