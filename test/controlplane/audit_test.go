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
