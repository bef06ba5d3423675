package controlplane_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

const gate = `
apiVersion: example.com/v1
kind: Gate
metadata: {name: north, namespace: castle}
---
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gates.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Gate, plural: gates}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: castle}
`

func decode(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := controlplane.Decode(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestApplyPutsFirstWhatOthersNeed(t *testing.T) {
	cp := start(t, controlplane.Options{})
	for _, turn := range []string{"first", "second"} {
		if err := controlplane.Apply(t.Context(), cp.Config(), "test", decode(t, gate)...); err != nil {
			t.Errorf("%s time: %v", turn, err)
		}
	}
}

func TestPointWebhooks(t *testing.T) {
	objects := decode(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: some}
webhooks:
- {name: a.example.com, failurePolicy: Fail, clientConfig: {service: {name: s, namespace: n, path: /validate-a}}}
- {name: b.example.com, clientConfig: {service: {name: s, namespace: n, path: /validate-b}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
`)
	if err := controlplane.PointWebhooks(objects, "localhost:9443"); err != nil {
		t.Fatal(err)
	}
	webhooks, _, err := unstructured.NestedSlice(objects[0].Object, "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"https://localhost:9443/validate-a", "https://localhost:9443/validate-b"} {
		webhook := webhooks[i].(map[string]any)
		config := webhook["clientConfig"].(map[string]any)
		if len(config) != 1 || config["url"] != want {
			t.Errorf("webhook %d calls %v, want the URL %s alone", i, config, want)
		}
	}
	if webhooks[0].(map[string]any)["failurePolicy"] != "Fail" {
		t.Error("other fields of a webhook are lost")
	}
}

func TestDecodeNamesWhatIsWrong(t *testing.T) {
	if _, err := controlplane.Decode(strings.NewReader("a: [")); err == nil {
		t.Error("broken YAML gives no error")
	}
}
