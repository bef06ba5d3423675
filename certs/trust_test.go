package certs

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestTrust(t *testing.T) {
	const name = "portcullis-webhook.portcullis-system.svc"
	ours, theirs := newAuthority(t), newAuthority(t)
	pair := ours.pair(t, name, time.Hour)
	cert, err := tls.X509KeyPair(pair.certPEM, pair.keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	service := &admissionv1.ServiceReference{Namespace: "portcullis-system", Name: "portcullis-webhook"}
	byURL := func(host string) *string { return ptr.To("https://" + host + ":9443/validate") }
	good := admissionv1.WebhookClientConfig{Service: service, CABundle: ours.pem()}

	for name, test := range map[string]struct {
		webhooks []admissionv1.WebhookClientConfig
		missing  bool
		want     string
	}{
		"by its Service": {webhooks: []admissionv1.WebhookClientConfig{good}},
		"by its URL":     {webhooks: []admissionv1.WebhookClientConfig{{URL: byURL(name), CABundle: ours.pem()}}},
		"by one of two in the bundle": {webhooks: []admissionv1.WebhookClientConfig{
			{Service: service, CABundle: append(theirs.pem(), ours.pem()...)}}},
		"no configuration": {missing: true, want: "there is no ValidatingWebhookConfiguration"},
		"nothing injected": {webhooks: []admissionv1.WebhookClientConfig{{Service: service}}, want: "not injected yet"},
		"injected in the first only": {
			webhooks: []admissionv1.WebhookClientConfig{good, {Service: service}}, want: "webhook b.test of"},
		"another name in the third only": {
			webhooks: []admissionv1.WebhookClientConfig{good, good, {URL: byURL("localhost"), CABundle: ours.pem()}}, want: "webhook c.test of"},
		"another authority in the third only": {
			webhooks: []admissionv1.WebhookClientConfig{good, good, {Service: service, CABundle: theirs.pem()}}, want: "webhook c.test of"},
		"another authority": {
			webhooks: []admissionv1.WebhookClientConfig{{Service: service, CABundle: theirs.pem()}}, want: "does not fit"},
		"another name": {
			webhooks: []admissionv1.WebhookClientConfig{{URL: byURL("localhost"), CABundle: ours.pem()}},
			want:     "not localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := configurationReader{}
			if !test.missing {
				reader.configuration = &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "portcullis"}}
				for i, c := range test.webhooks {
					reader.configuration.Webhooks = append(reader.configuration.Webhooks,
						admissionv1.ValidatingWebhook{Name: string(rune('a'+i)) + ".test", ClientConfig: c})
				}
			}
			err := trustedBy(t.Context(), reader, "portcullis", &cert, time.Now())
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("trustedBy says %v, want %q", err, test.want)
			}
		})
	}
}

// configurationReader has one ValidatingWebhookConfiguration, or none.
type configurationReader struct {
	client.Reader
	configuration *admissionv1.ValidatingWebhookConfiguration
}

func (r configurationReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if r.configuration == nil || r.configuration.Name != key.Name {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, key.Name)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r.configuration)
	into.(*unstructured.Unstructured).Object = content
	return err
}
