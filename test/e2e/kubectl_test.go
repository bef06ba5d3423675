package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what a cluster does by itself: long enough for a machine with much else to do.
const patience = 10 * time.Minute

// tryKubectl runs kubectl with a manifest as its standard input, and returns its standard output.
func tryKubectl(manifest string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	args = slices.Concat(target.kubectl[1:], args)
	cmd := exec.CommandContext(ctx, target.kubectl[0], args...)
	cmd.Stdin = strings.NewReader(manifest)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// kubectl runs kubectl, which has to succeed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryKubectl("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply applies manifests to a namespace.
func apply(t *testing.T, namespace, manifests string) {
	t.Helper()
	if _, err := tryKubectl(manifests, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// kustomize applies a kustomization, which is written to a directory, and takes away what is of it when the test ends.
func kustomize(t *testing.T, dir, kustomization string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kubectl(t, "delete", "-k", dir, "--ignore-not-found", "--timeout="+patience.String()) })
	kubectl(t, "apply", "--server-side", "-k", dir)
}

// relativeTo is a path as a kustomization in a directory takes it.
func relativeTo(t *testing.T, dir, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(dir, abs)
	if err != nil {
		t.Fatal(err)
	}
	return rel
}

// read reads what kubectl get finds.
func read[T any](args ...string) (found T, err error) {
	out, err := tryKubectl("", append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return found, err
	}
	err = json.Unmarshal([]byte(out), &found)
	return found, err
}

// list reads the objects that kubectl get finds.
func list[T any](args ...string) ([]T, error) {
	found, err := read[struct{ Items []T }](args...)
	return found.Items, err
}

// eventually waits until check returns nil, and fails the test with its last error when that takes too long.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatalf("waiting for %s: %v", what, err)
}

// newNamespace makes a namespace for one test, with labels, each "key=value", and deletes it when the test ends.
func newNamespace(t *testing.T, name string, labels ...string) string {
	t.Helper()
	name = fmt.Sprintf("e2e-%s-%x", name, time.Now().UnixMilli()&0xffffff)
	kubectl(t, "create", "namespace", name)
	kubectl(t, "wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout="+patience.String()) // without, no Pod is admitted
	t.Cleanup(func() {
		if _, err := tryKubectl("", "delete", "namespace", name, "--ignore-not-found"); err != nil {
			t.Errorf("the namespace does not go: %v", err)
		}
	})
	for _, label := range labels {
		kubectl(t, "label", "namespace", name, label)
	}
	return name
}
