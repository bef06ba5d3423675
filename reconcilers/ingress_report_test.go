package reconcilers

import (
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestBulletinTellsEachChangeOnce(t *testing.T) {
	b := newBulletin()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	if !b.isNews(svc, topicIngress, "wrong") {
		t.Error("the first is no news")
	}
	if before := b.tell(svc, topicIngress, "wrong"); before != "" {
		t.Errorf("%q was told before", before)
	}
	if b.isNews(svc, topicIngress, "wrong") || !b.isNews(svc, topicIngress, "other") || !b.isNews(svc, topicCertificate, "wrong") {
		t.Error("news are mistaken")
	}
	b.note(svc, "nginx", stateRefused)
	if diff := cmp.Diff(map[[2]string]int{{"nginx", stateRefused}: 1}, b.count()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again := svc.DeepCopy()
	again.UID = "2"
	if !b.isNews(again, topicIngress, "wrong") {
		t.Error("a Service of another life was told already")
	}
	b.forget(types.NamespacedName{Namespace: "shop", Name: "web"})
	if len(b.count()) > 0 {
		t.Errorf("%v is left", b.count())
	}
}

func TestReadiness(t *testing.T) {
	cert := func(conditions ...cmv1.CertificateCondition) *cmv1.Certificate {
		c := &cmv1.Certificate{Spec: cmv1.CertificateSpec{SecretName: "tls", DNSNames: []string{"a", "b"}}}
		c.Generation = 2
		c.Status.Conditions = conditions
		return c
	}
	ready := cmv1.CertificateCondition{Type: "Ready", Status: cmmeta.ConditionTrue, ObservedGeneration: 2}
	failed := cmv1.CertificateCondition{Type: "Issuing", Status: cmmeta.ConditionFalse, Reason: failedReason, Message: "no"}
	for name, c := range map[string]struct {
		cert  *cmv1.Certificate
		ready bool
		says  string
	}{
		"new":      {cert(), false, ""},
		"issuing":  {cert(cmv1.CertificateCondition{Type: "Ready", Status: cmmeta.ConditionFalse, Reason: "DoesNotExist"}), false, ""},
		"outdated": {cert(cmv1.CertificateCondition{Type: "Ready", Status: cmmeta.ConditionTrue, ObservedGeneration: 1}), false, ""},
		"ready":    {cert(ready), true, "the certificate for a, b is in Secret tls"},
		"failed":   {cert(failed), false, "the certificate for a, b could not be issued: no"},
	} {
		if ready, says := readiness(c.cert); ready != c.ready || says != c.says {
			t.Errorf("%s: %v %q", name, ready, says)
		}
	}
}
