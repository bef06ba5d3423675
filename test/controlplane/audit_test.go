package controlplane

import (
	"strings"
	"testing"
)

// TestTheLastLineIsLeftOutUntilItHasEnded cuts an audit log at each byte, as whoever reads it meanwhile finds it.
func TestTheLastLineIsLeftOutUntilItHasEnded(t *testing.T) {
	const line = `{"verb":"patch","objectRef":{"resource":"configmaps"}}` + "\n"
	log := strings.Repeat(line, 3)
	for end := range len(log) + 1 {
		requests, err := parseRequests(strings.NewReader(log[:end]))
		if err != nil || len(requests) != end/len(line) {
			t.Fatalf("of %q, %d requests were read, want %d (%v)", log[:end], len(requests), end/len(line), err)
		}
	}
	if _, err := parseRequests(strings.NewReader("no JSON\n")); err == nil {
		t.Error("a line that is no JSON was read")
	}
}

// TestRequestsThatPassedUnasked reads which requests the API server let pass a webhook that did not answer.
func TestRequestsThatPassedUnasked(t *testing.T) {
	for annotation, want := range map[string]bool{
		"failed-open.validating.webhook.admission.k8s.io/round_0_index_3": true,
		"authorization.k8s.io/decision":                                   false,
	} {
		got, err := parseRequest([]byte(`{"verb":"create","annotations":{"` + annotation + `":"x"}}`))
		if err != nil || got.FailedOpen != want {
			t.Errorf("%s: %v, %v", annotation, got.FailedOpen, err)
		}
	}
}
