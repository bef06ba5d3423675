package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUninstalledWithObjectsLeft takes Portcullis away from under its users, and installs it again in its other form.
// Nothing hangs, nothing of others is touched, and what was left in the proxy is taken up or, after a grace, taken out
// again. With make the pods end first; kubectl deletes the kinds from under the pods that run.
func TestUninstalledWithObjectsLeft(t *testing.T) {
	needs(t, target.overlay != "", "what was deployed by somebody else stays")
	for name, takeAway := range map[string]func(overlay string) error{
		"by make":    undeploy,
		"by kubectl": deleteManifests,
	} {
		t.Run(name, func(t *testing.T) { uninstalledWithObjectsLeft(t, takeAway) })
	}
}

// deleteManifests deletes all manifests at once, as whoever has applied them without make does.
func deleteManifests(overlay string) error {
	manifests, err := exec.Command("go", "tool", "-modfile="+filepath.Join(root, "tools", "go.mod"), "kustomize", "build",
		filepath.Join(root, "config", "overlays", overlay)).Output()
	if err != nil {
		return fmt.Errorf("rendering %s: %w", overlay, err)
	}
	_, err = tryKubectl(string(manifests), "delete", "--ignore-not-found", "-f", "-", "--timeout="+patience.String())
	return err
}

func uninstalledWithObjectsLeft(t *testing.T, takeAway func(overlay string) error) {
	const addresses = "addresses: [198.51.100.9]"
	lend(t, "e2e-uninstalled", addresses)
	e := newEdge(t, "uninstalled")
	doomed := newNamespace(t, "doomed", podToIPLabel+"=enabled")
	apply(t, e.namespace, asking("kept", e.class, 5432))
	apply(t, doomed, asking("doomed", e.class, 5433))
	kubectl(t, "run", "web", "-n", doomed, "--image="+target.pause)
	kubectl(t, "create", "service", "clusterip", "web", "--tcp=80:8080", "-n", doomed)
	kubectl(t, "annotate", "service", "web", "-n", doomed, "ingress/http=class=nginx, host="+doomed+".example.com")
	entries := map[int]string{5432: e.namespace + "/web:80", 5433: doomed + "/web:80"}
	e.leadsTo(t, entries)
	balance(t, e.namespace, "balanced", "e2e-uninstalled", "")
	balancedAt(t, e.namespace, "balanced", "198.51.100.9")
	kubectl(t, "wait", "--for=create", "ptp/web", "ingress/web", "-n", doomed, "--timeout="+patience.String())

	t.Cleanup(func() {
		if err := deploy(target.overlay); err != nil {
			t.Fatal(err)
		}
	})
	if err := takeAway(target.overlay); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"crd", "validatingwebhookconfiguration", "namespace", "clusterrole", "clusterrolebinding", "flowschema", "prioritylevelconfiguration"} {
		for name := range strings.Lines(kubectl(t, "get", kind, "-o", "name")) {
			if strings.Contains(name, "portcullis") || strings.Contains(name, "nginx-stream.jeffthecoder.xyz") {
				t.Errorf("left behind: %s", name)
			}
		}
	}
	kubectl(t, "delete", "namespace", doomed, "--timeout="+patience.String())
	// As the documentation says: who wants entries and addresses gone deletes StreamIngresses and Services first.
	e.leadsTo(t, entries)
	balancedAt(t, e.namespace, "balanced", "198.51.100.9")
	kubectl(t, "create", "service", "clusterip", "after", "--tcp=80:8080", "-n", e.namespace)
	kubectl(t, "annotate", "service", "after", "-n", e.namespace, "ingress/http=nginx")
	kubectl(t, "delete", "service", "after", "-n", e.namespace)

	if err := deploy("standalone"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the overlay of the tests comes back
		if err := undeploy("standalone"); err != nil {
			t.Fatal(err)
		}
	})
	scrape(t) // with the certificate that Portcullis makes itself
	e.makeClass(t)
	apply(t, e.namespace, asking("kept", e.class, 5432))
	if held := e.programmed(t); len(held) != 1 || held[5432] != "kept" {
		t.Errorf("after the installation the StreamIngresses are %v", held)
	}
	e.leadsTo(t, map[int]string{5432: e.namespace + "/web:80"}) // nobody asks for the other entry any more
	apply(t, "default", pool("e2e-uninstalled", addresses))
	balancedAt(t, e.namespace, "balanced", "198.51.100.9")
}
