package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// helmNamespace is where the chart is installed: another namespace than that of the manifests.
const helmNamespace = "e2e-helm"

// helm is the program, and the cluster as it is told of.
type helm struct{ program, kubeconfig, chart string }

// newHelm builds helm, as pinned, and unpacks the chart of a release. The API server is to wait for a webhook as long as a busy machine
// takes: the chart is changed to say so.
func newHelm(t *testing.T, archive string) *helm {
	t.Helper()
	dir := t.TempDir()
	h := &helm{program: filepath.Join(dir, "helm"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	build := exec.Command("go", "build", "-modfile="+filepath.Join("tools", "helm", "go.mod"), "-o", h.program, "helm.sh/helm/v4/cmd/helm")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building helm: %v\n%s", err, out)
	}
	if err := os.WriteFile(h.kubeconfig, []byte(kubectl(t, "config", "view", "--raw", "--minify", "--flatten")), 0o600); err != nil {
		t.Fatal(err)
	}
	h.chart = filepath.Join(dir, "portcullis")
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("unpacking %s: %v\n%s", archive, err, out)
	}
	for _, name := range []string{"portcullis.yaml", "guard.yaml"} {
		path := filepath.Join(h.chart, "templates", name)
		template, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		patient := waits.ReplaceAll(template, fmt.Appendf(nil, "timeoutSeconds: %d", long))
		if err := os.WriteFile(path, patient, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// waits is how long the API server waits for a webhook, in a template.
var waits = regexp.MustCompile(`timeoutSeconds: \d+`)

// run runs helm on the first node, from where the API server can be reached.
func (h *helm) run(args ...string) error {
	args = append([]string{"node", "0", "env", "KUBECONFIG=" + h.kubeconfig, "HOME=" + filepath.Dir(h.kubeconfig), h.program}, args...)
	if out, err := exec.Command(target.script, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w\n%s", strings.Join(args[6:], " "), err, out)
	}
	return nil
}

// release are the arguments of an install or an upgrade, with other values than the default ones.
func (h *helm) release(what string, more ...string) []string {
	return append([]string{
		what, "portcullis", h.chart, "--namespace=" + helmNamespace, "--create-namespace",
		"--set=certificates=SelfSigned", "--set=guard.enabled=true", "--set=guard.mode=all=Warn", "--set=args={--pod-to-ip=all}",
		"--wait", "--timeout=" + patience.String(),
	}, more...)
}

// TestHelm installs a release: its manifests, and then in their place its chart. It has teams use both, upgrades the chart while users
// create StreamIngresses, and takes it away again: no door closes, and what is in the ledger stays.
func TestHelm(t *testing.T) {
	needs(t, target.script != "", "what is deployed is taken away for it")
	dir, version := publish(t)
	h := newHelm(t, filepath.Join(dir, "portcullis-"+version+".tgz"))
	t.Cleanup(func() {
		if err := deploy(target.overlay); err != nil {
			t.Error(err)
		}
	})
	if err := undeploy(target.overlay); err != nil {
		t.Fatal(err)
	}
	t.Run("manifests", func(t *testing.T) { installsByKubectl(t, dir) })
	began := time.Now()
	if err := errors.Join(h.run(h.release("install")...), awaitAdmission()); err != nil {
		t.Fatal(err)
	}
	t.Logf("installed after %v", time.Since(began).Round(time.Second))
	t.Cleanup(func() { // also where the test ends early
		if err := h.run("uninstall", "portcullis", "--namespace="+helmNamespace, "--ignore-not-found", "--wait"); err != nil {
			t.Error(err)
		}
		kubectl(t, "delete", "namespace", helmNamespace, "--timeout="+patience.String())
	})
	t.Run("ports", TestTeamsOpenPorts)
	t.Run("ingresses", TestTeamsAskForIngresses)
	t.Run("addresses", TestTeamsAskForAddresses)

	h.tests(t)

	u := busy(t, "helm")
	if err := h.run(h.release("upgrade", "--set=replicas=3")...); err != nil {
		t.Error(err)
	}
	time.Sleep(settling)
	u.stop()
	u.report(t)
	u.noneFailed(t)
	kubectl(t, "wait", "--for=jsonpath={.status.readyReplicas}=3", "deployment/portcullis", "-n", helmNamespace, "--timeout="+patience.String())

	e := newEdge(t, "helm-left")
	apply(t, e.namespace, asking("left", e.class, 5432))
	entries := map[int]string{5432: e.namespace + "/web:80"}
	e.leadsTo(t, entries)
	if err := h.run("uninstall", "portcullis", "--namespace="+helmNamespace, "--wait", "--timeout="+patience.String()); err != nil {
		t.Fatal(err)
	}
	e.leadsTo(t, entries)
	if left := kubectl(t, "get", "edgeclaims", "--field-selector=spec.holder.namespace="+e.namespace, "-o", "name"); left == "" {
		t.Error("the claims are gone with the chart")
	}
	kubectl(t, "wait", "--for=delete", "pods", "-n", helmNamespace, "-l", "app.kubernetes.io/name=portcullis", "--timeout="+patience.String())
}

// tests runs the chart's own test, with Portcullis and without, and lets Portcullis come back.
func (h *helm) tests(t *testing.T) {
	t.Helper()
	test := []string{"test", "portcullis", "--namespace=" + helmNamespace, "--timeout=" + patience.String()}
	if err := h.run(test...); err != nil {
		t.Error(err)
	}
	scale := func(replicas string) {
		t.Helper()
		kubectl(t, "scale", "deployment", "portcullis", "-n", helmNamespace, "--replicas="+replicas)
	}
	scale("0")
	kubectl(t, "wait", "--for=delete", "pods", "-n", helmNamespace, "-l", "app.kubernetes.io/name=portcullis", "--timeout="+patience.String())
	if err := h.run(test...); err == nil || !strings.Contains(err.Error(), "hostpolicy.nginx-stream.jeffthecoder.xyz") {
		t.Errorf("helm test passes without Portcullis: %v", err)
	}
	scale("2")
	kubectl(t, "rollout", "status", "deployment/portcullis", "-n", helmNamespace, "--timeout="+patience.String())
	if err := awaitAdmission(); err != nil {
		t.Fatal(err)
	}
}
