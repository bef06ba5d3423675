package webhooks

import (
	"os"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"
)

// TestJudge holds that the judge says what each webhook of a kind says, and that nobody is asked about what is exempt.
func TestJudge(t *testing.T) {
	w := newWorld(t, nil, nil)
	j := NewJudge(Options{View: w.view, Ledger: w.ledger})
	broken := exposed(team(0), "broken", "not a host")
	warnings, refusals := j.Validate(t.Context(), nil, broken)
	if len(refusals) != 1 || !apierrors.IsInvalid(refusals[0]) || len(warnings) > 0 {
		t.Errorf("a Service that is wrong: %v, %v", warnings, refusals)
	}
	if _, refusals = j.Validate(t.Context(), broken, exposed(team(0), "broken", "a.example.com")); len(refusals) > 0 {
		t.Errorf("one that is mended: %v", refusals)
	}
	if _, refusals = j.Validate(t.Context(), nil, exposed("kube-system", "broken", "not a host")); len(refusals) > 0 {
		t.Errorf("one where nothing waits for Portcullis: %v", refusals)
	}
	if warnings, refusals = j.Validate(t.Context(), nil, &corev1.Pod{}); len(warnings)+len(refusals) > 0 {
		t.Errorf("one of another kind: %v, %v", warnings, refusals)
	}
}

// TestExempt holds that the same namespaces are exempt as in the configuration.
func TestExempt(t *testing.T) {
	text, err := os.ReadFile("../config/webhook/patch.yaml")
	if err != nil {
		t.Fatal(err)
	}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(text, configuration); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, webhook := range configuration.Webhooks {
		if webhook.NamespaceSelector == nil {
			continue
		}
		found++
		if got := webhook.NamespaceSelector.MatchExpressions[0].Values; !slices.Equal(got, exempt) {
			t.Errorf("%s: got %v, want %v", webhook.Name, got, exempt)
		}
	}
	if found == 0 {
		t.Error("no namespace is exempt")
	}
}
