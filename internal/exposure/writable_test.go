package exposure_test

import (
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

func TestWritable(t *testing.T) {
	svc := requesting("web", "")
	svc.Spec.Ports = []corev1.ServicePort{{Port: 8080}}
	theirs := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	ours := theirs.DeepCopy()
	exposure.Mark(ours, svc)
	cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	own := cert.DeepCopy()
	exposure.Mark(own, svc)
	plain, issued := exposure.Exposure{}, exposure.Exposure{Issuer: exposure.Issuer{Kind: "ClusterIssuer", Name: "ca"}, Secret: "web-tls"}
	for name, c := range map[string]struct {
		facts        fakeFacts
		request      exposure.Exposure
		reason, text string
	}{
		"nothing is there":           {fakeFacts{}, plain, "", ""},
		"the Ingress is its own":     {fakeFacts{ingress: ours}, plain, "", ""},
		"the Ingress is not":         {fakeFacts{ingress: theirs}, plain, v1beta1.ReasonIngressNameTaken, "an Ingress shop/web exists"},
		"no cert-manager":            {fakeFacts{}, issued, v1beta1.ReasonCertManagerMissing, "for example tls=web-tls"},
		"cert-manager":               {fakeFacts{certManager: true}, issued, "", ""},
		"the Certificate is its own": {fakeFacts{certManager: true, certificate: own}, issued, "", ""},
		"the Certificate is not": {
			fakeFacts{certManager: true, certificate: cert}, issued, v1beta1.ReasonCertificateNameTaken, "a Certificate shop/web exists",
		},
		"a Certificate is no matter": {fakeFacts{certManager: true, certificate: cert}, plain, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			port, problems := exposure.Writable(c.facts, svc, c.request)
			if port != 8080 {
				t.Errorf("the port is %d", port)
			}
			if c.reason == "" && len(problems) > 0 {
				t.Errorf("got %v", problems)
			} else if c.reason != "" {
				isOne(t, problems, c.reason, c.text)
			}
		})
	}
}

func TestWritableNeedsThePort(t *testing.T) {
	_, problems := exposure.Writable(fakeFacts{}, requesting("web", ""), exposure.Exposure{Port: "web"})
	isOne(t, problems, v1beta1.ReasonServicePortNotFound, "the Service has no port web;")
}
