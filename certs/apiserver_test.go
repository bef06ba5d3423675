package certs

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// install makes the namespace, and binds the roles that Portcullis is deployed with to its account.
func install(t *testing.T, admin client.Client) {
	t.Helper()
	if err := admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testNamespace}}); err != nil {
		t.Fatal(err)
	}
	for _, manifest := range []string{"selfsigned/role.yaml", "selfsigned/role_binding.yaml", "rbac/leader_election.yaml"} {
		content, err := os.ReadFile(filepath.Join("..", "config", manifest))
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", manifest, err)
			}
			if err := admin.Create(t.Context(), object); err != nil {
				t.Fatalf("%s: %v", manifest, err)
			}
		}
	}
}

// createHooks makes a configuration with two webhooks: one by Service, as deployed, which nothing matches, and one by URL
// that the API server can reach here.
func createHooks(t *testing.T, admin client.Client, port int) {
	t.Helper()
	hook := func(name, label string, c admissionv1.WebhookClientConfig) admissionv1.ValidatingWebhook {
		return admissionv1.ValidatingWebhook{
			Name: name, ClientConfig: c, AdmissionReviewVersions: []string{"v1"},
			SideEffects:    ptr.To(admissionv1.SideEffectClassNone),
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"judge": label}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}
	}
	err := admin.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: testHooks},
		Webhooks: []admissionv1.ValidatingWebhook{
			hook("service.portcullis.test", "nobody", admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Namespace: testNamespace, Name: testService, Path: ptr.To("/validate")}}),
			hook("url.portcullis.test", "me", admissionv1.WebhookClientConfig{
				URL: ptr.To(fmt.Sprintf("https://localhost:%d/validate", port))}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func readHooks(t *testing.T, admin client.Client) *admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	hooks := &admissionv1.ValidatingWebhookConfiguration{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: testHooks}, hooks); err != nil {
		t.Fatal(err)
	}
	return hooks
}

func hooksVersion(t *testing.T, admin client.Client) string {
	t.Helper()
	return readHooks(t, admin).ResourceVersion
}

func editHooks(t *testing.T, admin client.Client, edit func(*admissionv1.WebhookClientConfig)) {
	t.Helper()
	eventually(t, func() error {
		hooks := readHooks(t, admin)
		for i := range hooks.Webhooks {
			edit(&hooks.Webhooks[i].ClientConfig)
		}
		return admin.Update(t.Context(), hooks)
	})
}

// readSecret returns the Secret, empty when there is none.
func readSecret(t *testing.T, admin client.Client) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	err := admin.Get(t.Context(), client.ObjectKey{Namespace: testNamespace, Name: testSecret}, secret)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return secret
}

func relabel(t *testing.T, admin client.Client, value string) {
	t.Helper()
	secret := readSecret(t, admin)
	secret.Labels["touched"] = value
	if err := admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// setCertificate puts a certificate of the Secret's own authority into the Secret.
func setCertificate(t *testing.T, admin client.Client, valid time.Duration, names ...string) {
	t.Helper()
	secret := readSecret(t, admin)
	stored, err := tls.X509KeyPair(secret.Data[caFile], secret.Data["ca.key"])
	if err != nil {
		t.Fatal(err)
	}
	pair := (&authority{cert: stored.Leaf, key: stored.PrivateKey}).pair(t, names[0], valid, names[1:]...)
	secret.Data[certFile], secret.Data[keyFile] = pair.certPEM, pair.keyPEM
	if err := admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := controlplane.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
