package ingresses

import (
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestIsIssued looks whether an heir has the certificate that it asks cert-manager for: until then the Ingress of the giver keeps the path.
func TestIsIssued(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	service := func(asks string) *corev1.Service {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "w"}}
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, v1beta1.AnnotationHTTP, asks)
		return svc
	}
	const byIssuer = "host=web.example.com, issuer=letsencrypt"
	certificate := func(own bool, ready cmmeta.ConditionStatus, observed int64) *cmv1.Certificate {
		cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Generation: 2}}
		if own {
			exposure.Mark(cert, service(byIssuer))
		}
		cert.Status.Conditions = []cmv1.CertificateCondition{{Type: cmv1.CertificateConditionReady, Status: ready, ObservedGeneration: observed}}
		return cert
	}
	for name, tc := range map[string]struct {
		asks string
		cert *cmv1.Certificate
		want bool
	}{
		"it asks for none":              {"host=web.example.com", nil, true},
		"it names a Secret":             {"host=web.example.com, tls=web", nil, true},
		"nobody can read what it asks":  {"host=Web, issuer=letsencrypt", nil, true},
		"there is none yet":             {byIssuer, nil, false},
		"it is being issued":            {byIssuer, certificate(true, cmmeta.ConditionFalse, 2), false},
		"it was issued for other hosts": {byIssuer, certificate(true, cmmeta.ConditionTrue, 1), false},
		"it is issued":                  {byIssuer, certificate(true, cmmeta.ConditionTrue, 2), true},
		"somebody else's is issued":     {byIssuer, certificate(false, cmmeta.ConditionTrue, 2), false},
	} {
		t.Run(name, func(t *testing.T) {
			stored := accesstest.Cluster(t, []client.Object{service(tc.asks)}...).Build()
			b, _ := accesstest.On(t, stored, stored)
			r := &ingressReconciler{Access: b, handing: newHanding()}
			if got, err := r.isIssued(t.Context(), key, tc.cert); err != nil || got != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
