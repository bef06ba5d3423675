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

// newHelm builds helm, as pinned. The API server is to wait for a webhook as long as a busy machine takes: the chart is a copy that says so.
func newHelm(t *testing.T) *helm {
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
	if err := os.CopyFS(h.chart, os.DirFS(filepath.Join(root, "charts", "portcullis"))); err != nil {
		t.Fatal(err)
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
	repository, tag, _ := strings.Cut(target.image, ":")
	return append([]string{
		what, "portcullis", h.chart, "--namespace=" + helmNamespace, "--create-namespace",
		"--set=image.repository=" + repository, "--set=image.tag=" + tag, "--set=certificates=SelfSigned", "--set=guard.enabled=true",
		"--set=guard.mode=all=Warn", "--set=args={--pod-to-ip=all}", "--wait", "--timeout=" + patience.String(),
	}, more...)
}

// TestHelm installs the chart in the place of the manifests, has teams use it, upgrades it while users create StreamIngresses, and takes it
// away again: no door closes, and what is in the ledger stays.
func TestHelm(t *testing.T) {
	needs(t, target.script != "", "what is deployed is taken away for it")
	h := newHelm(t)
	t.Cleanup(func() {
		if err := deploy(target.overlay); err != nil {
			t.Error(err)
		}
	})
	if err := undeploy(target.overlay); err != nil {
		t.Fatal(err)
	}
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

	u := busy(t, "helm")
	if err := h.run(h.release("upgrade", "--set=replicas=3")...); err != nil {
		t.Error(err)
	}
	time.Sleep(settling)
	u.stop()
	u.report(t)
	u.noneFailed(t)
	if n := kubectl(t, "get", "deployment", "portcullis", "-n", helmNamespace, "-o", "jsonpath={.status.readyReplicas}"); n != "3" {
		t.Errorf("%s replicas are ready", n)
	}

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
