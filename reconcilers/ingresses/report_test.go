package ingresses

import (
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
)

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
