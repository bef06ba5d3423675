package e2e

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// publish makes a release for the nodes, imports its image there, and returns the directory of its files. From these alone Portcullis is
// installed; the version is that of the files' names.
func publish(t *testing.T) (dir, version string) {
	t.Helper()
	const releases = "e2e-dist"
	version = "0.0.0-e2e"
	dir, err := filepath.Abs(filepath.Join(root, "bin", releases))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	platform := "linux/" + runtime.GOARCH
	if err := command("make", "-C", root, "dist", "VERSION=v"+version, "IMG=localhost/portcullis-release", "PLATFORMS="+platform, "PLUGINS="+platform,
		"DIST="+dir); err != nil {
		t.Fatal(err)
	}
	if err := command(target.script, "load", filepath.Join(dir, "portcullis-v"+version+"-image.tar")); err != nil {
		t.Fatal(err)
	}
	return dir, version
}

// installsByKubectl installs what a release has for kubectl, until it decides, and takes it away again.
func installsByKubectl(t *testing.T, dir string) {
	t.Helper()
	manifests := filepath.Join(dir, "install-standalone.yaml")
	if err := inOrder(
		func() error { return kubectlCommand("apply", "-f", manifests) },
		func() error {
			return kubectlCommand("rollout", "status", "deployment/portcullis", "-n", system, "--timeout="+patience.String())
		},
		awaitAdmission,
	); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(kubectl(t, "get", "pods", "-n", system, "-l", "app.kubernetes.io/name=portcullis", "-o", `jsonpath={range .items[*]}`+
		`{.spec.containers[0].image} started {.status.containerStatuses[0].state.running.startedAt}, `+
		`ready {.status.conditions[?(@.type=="Ready")].lastTransitionTime}{"\n"}{end}`)) {
		t.Log(strings.TrimSpace(line))
		if !strings.HasPrefix(line, "localhost/portcullis-release@sha256:") {
			t.Error("the image is not named by its digest")
		}
	}
	kubectl(t, "delete", "-f", manifests, "--timeout="+patience.String())
}
