package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunsRestricted looks at what Portcullis may do to its node: nothing. The namespace admits no pod that may more.
func TestRunsRestricted(t *testing.T) {
	level := kubectl(t, "get", "namespace", system, "-o", `jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}`)
	if level != "restricted" {
		t.Errorf("the namespace admits pods at level %q", level)
	}
	for _, r := range replicas(t) {
		pod, err := read[struct {
			Spec struct {
				Containers []struct {
					SecurityContext struct {
						ReadOnlyRootFilesystem, AllowPrivilegeEscalation, RunAsNonRoot bool
						Capabilities                                                   struct{ Add, Drop []string }
					}
				}
				InitContainers []any
			}
		}]("pod", r.Metadata.Name, "-n", system)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(pod.Spec.Containers) + len(pod.Spec.InitContainers); n != 1 {
			t.Fatalf("%s has %d containers", r.Metadata.Name, n)
		}
		context := pod.Spec.Containers[0].SecurityContext
		got := fmt.Sprintf("%+v", context)
		if want := "{ReadOnlyRootFilesystem:true AllowPrivilegeEscalation:false RunAsNonRoot:true Capabilities:{Add:[] Drop:[ALL]}}"; got != want {
			t.Errorf("%s runs with %s, want %s", r.Metadata.Name, got, want)
		}
		if target.script != "" {
			holdsNothing(t, r)
		}
	}
}

// holdsNothing looks at the process itself.
func holdsNothing(t *testing.T, r replica) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d", process(t, r))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Uid:\t65532"} {
		if !strings.Contains(string(status), "\n"+line) {
			t.Errorf("the process of %s has no %q:\n%s", r.Metadata.Name, line, status)
		}
	}
	mounts, err := os.ReadFile(filepath.Join(dir, "mounts"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); fields[1] == "/" && !strings.HasPrefix(fields[3], "ro,") {
			t.Errorf("%s can write to its root: %s", r.Metadata.Name, line)
		}
	}
}

// TestEveryWebhookIsTrusted looks at the webhook configuration as the API server has it: each has an authority, and none
// can make the cluster wait for long.
func TestEveryWebhookIsTrusted(t *testing.T) {
	asShipped(t)
	configuration, err := read[struct {
		Webhooks []struct {
			Name           string
			TimeoutSeconds int
			ClientConfig   struct{ CABundle []byte }
		}
	}]("validatingwebhookconfiguration", "portcullis")
	if err != nil || len(configuration.Webhooks) == 0 {
		t.Fatalf("there are %d webhooks: %v", len(configuration.Webhooks), err)
	}
	for _, w := range configuration.Webhooks {
		if len(w.ClientConfig.CABundle) == 0 || w.TimeoutSeconds > 3 {
			t.Errorf("%s has an authority of %d bytes and waits for %d s", w.Name, len(w.ClientConfig.CABundle), w.TimeoutSeconds)
		}
	}
}
