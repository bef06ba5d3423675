package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// guardConfiguration is the webhook configuration, the role and its binding that the component config/guard brings.
const guardConfiguration = "portcullis-guard"

// guardOn adds the component config/guard to what is installed, and takes it out again when the test ends.
func guardOn(t *testing.T) {
	t.Helper()
	needs(t, target.overlay != "", "what was deployed by somebody else stays as it is")
	manifests := guardManifests(t)
	t.Cleanup(func() {
		if err := deploy(target.overlay); err != nil {
			t.Error(err)
		}
		for _, kind := range []string{"validatingwebhookconfiguration", "clusterrolebinding", "clusterrole"} {
			kubectl(t, "delete", kind, guardConfiguration, "--ignore-not-found")
		}
	})
	if _, err := tryKubectl(manifests, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	// Else, on a busy machine, what is to be refused passes, as nobody has judged it in time.
	webhooks := len(strings.Fields(kubectl(t, "get", "validatingwebhookconfiguration", guardConfiguration, "-o", "jsonpath={.webhooks[*].name}")))
	for i := range webhooks {
		kubectl(t, "patch", "validatingwebhookconfiguration", guardConfiguration, "--type=json", "-p",
			fmt.Sprintf(`[{"op":"replace","path":"/webhooks/%d/timeoutSeconds","value":%d}]`, i, long))
	}
	rollOut(t)
	replicas(t) // those that know nothing of the guard are gone
	leader(t)
	eventually(t, "the API server to trust the guard", func() error {
		authorities := kubectl(t, "get", "validatingwebhookconfiguration", guardConfiguration, "-o", "jsonpath={.webhooks[*].clientConfig.caBundle}")
		if n := len(strings.Fields(authorities)); n != webhooks {
			return fmt.Errorf("%d of %d webhooks have an authority", n, webhooks)
		}
		return nil
	})
}

// guardManifests renders the overlay that is installed, with the component and the image that runs.
func guardManifests(t *testing.T) string {
	t.Helper()
	image := kubectl(t, "get", "deployment", "portcullis", "-n", system, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
	dir := t.TempDir()
	config, err := filepath.Abs(filepath.Join(root, "config"))
	if err == nil {
		config, err = filepath.Rel(dir, config)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil, `
resources: [%[1]s/overlays/%[2]s]
components: [%[1]s/guard]
patches:
- target: {kind: Deployment, name: portcullis}
  patch: '[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": %[3]q}]'
`, config, target.overlay, image), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := exec.Command("go", "tool", "-modfile="+filepath.Join(root, "tools", "go.mod"), "kustomize", "build", dir).Output()
	if err != nil {
		t.Fatalf("rendering %s with the guard: %v", target.overlay, err)
	}
	return string(manifests)
}

// tenant has a ListenerSet "web" on a Gateway "edge", and a pod that answers behind it.
type tenant struct {
	namespace, gateway, pod string
}

// newTenant runs a pod that answers, in a namespace of its own.
func newTenant(t *testing.T, name, gateway string) tenant {
	t.Helper()
	ns := answering(t, name, 1, "")
	echoes(t, ns)
	return tenant{namespace: ns, gateway: gateway, pod: kubectl(t, "get", "pods", "-n", ns, "-l", "app=echo", "-o", "jsonpath={.items[0].metadata.name}")}
}

// listen has the tenant ask for a port: it applies a ListenerSet with that one, and a route from there to its pod.
func (n tenant) listen(port int, args ...string) error {
	_, err := tryKubectl(fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: web}
spec:
  parentRef: {namespace: %s, name: edge}
  listeners: [{name: door, port: %d, protocol: TCP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: web}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: ListenerSet, name: web, sectionName: door}]
  rules: [{backendRefs: [{name: echo, port: 80}]}]
`, n.gateway, port), slices.Concat([]string{"apply", "-n", n.namespace, "-f", "-"}, args)...)
	return err
}

// answers waits until the client outside is answered at an address by the tenant's pod, and by no other.
func (n tenant) answers(t *testing.T, at string) {
	t.Helper()
	eventually(t, n.namespace+" to answer at "+at, func() error {
		if names, _ := reachedBy(t, at, "tcp"); !slices.Equal(names, []string{n.pod}) {
			return fmt.Errorf("%v answer, not %s", names, n.pod)
		}
		return nil
	})
}

// stillAnswers fails the test when anybody else answers.
func (n tenant) stillAnswers(t *testing.T, at string) {
	t.Helper()
	if names, _ := reachedBy(t, at, "tcp"); !slices.Equal(names, []string{n.pod}) {
		t.Errorf("%v answer at %s, not %s", names, at, n.pod)
	}
}

// holds waits until the ledger says that a port of the Gateway is the tenant's.
func (n tenant) holds(t *testing.T, point string) {
	t.Helper()
	eventually(t, point+" to be "+n.namespace+"'s in the ledger", func() error {
		claims, err := list[struct {
			Spec struct{ Scope, Point, HeldBy string }
		}]("edgeclaims")
		var holders []string
		for _, c := range claims {
			if c.Spec.Scope == "gateway/"+n.gateway+"/edge" && c.Spec.Point == point {
				holders = append(holders, c.Spec.HeldBy)
			}
		}
		if err != nil || !slices.Equal(holders, []string{"ListenerSet " + n.namespace + "/web"}) {
			return fmt.Errorf("it is held by %q: %w", holders, err)
		}
		return nil
	})
}

// hears waits until an event tells the tenant of its ListenerSet what is wanted.
func (n tenant) hears(t *testing.T, want string) {
	t.Helper()
	eventually(t, n.namespace+" to be told "+want, func() error {
		out, err := tryKubectl("", "get", "events", "-n", n.namespace, "--field-selector",
			"involvedObject.kind=ListenerSet,involvedObject.name=web,reason=PortConflict", "-o", "jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(out, want) {
			err = fmt.Errorf("it is told %q", out)
		}
		return err
	})
}

// nobodyAnswers ends all replicas, so that no admission request is answered until they are back, at the latest when the test ends.
func nobodyAnswers(t *testing.T) (back func()) {
	t.Helper()
	back = func() {
		t.Helper()
		kubectl(t, "scale", "deployment/portcullis", "-n", system, "--replicas=2")
		rollOut(t)
		if err := awaitAdmission(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(back)
	kubectl(t, "scale", "deployment/portcullis", "-n", system, "--replicas=0")
	// Those that drain would answer for ten seconds more.
	kubectl(t, "delete", "pods", "-n", system, "-l", "app.kubernetes.io/component=manager", "--grace-period=1", "--ignore-not-found")
	eventually(t, "all replicas to be gone", func() error {
		left, err := list[replica]("pods", "-n", system, "-l", "app.kubernetes.io/component=manager")
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d are left", len(left))
		}
		return err
	})
	return back
}

// TestGuardKeepsAPort has the owner of an older ListenerSet take, by an edit, the port of a younger one, while the younger one's pod is
// asked from outside. The Gateway API gives the port to the older object; with the guard it stays with who had it.
func TestGuardKeepsAPort(t *testing.T) {
	const address, point = "10.77.0.217", "TCP/7500"
	const home, coveted = address + ":7777", address + ":7500"
	guardOn(t)
	gateway := newGateway(t, "e2e-guard", address, "All")
	atNode(t, 0, address)
	old, young := newTenant(t, "guard-old", gateway), newTenant(t, "guard-young", gateway)
	if err := errors.Join(old.listen(7777), young.listen(7500)); err != nil {
		t.Fatal(err)
	}
	old.answers(t, home)
	young.answers(t, coveted)
	young.holds(t, point)

	t.Log("refused to whoever asks for it: another ListenerSet, and the Gateway itself")
	held := "held by ListenerSet " + young.namespace + "/web"
	isRefused := func(try func() error) {
		t.Helper()
		eventually(t, "somebody to be told "+held, func() error { // a replica may learn a moment later that the holder is stored
			err := try()
			if err == nil {
				t.Fatalf("%s is given away", point)
			}
			if !strings.Contains(err.Error(), held) || !strings.Contains(err.Error(), point) {
				return err
			}
			return nil
		})
	}
	eventually(t, "the guard to be asked", func() error {
		if old.listen(7500, "--dry-run=server") == nil {
			return errors.New("it passes")
		}
		return nil
	})
	isRefused(func() error { return old.listen(7500) })
	isRefused(func() error {
		_, err := tryKubectl("", "patch", "gateway", "edge", "-n", gateway, "--type=json", "-p",
			`[{"op": "add", "path": "/spec/listeners/-", "value": {"name": "mine", "port": 7500, "protocol": "TCP"}}]`)
		return err
	})
	young.stillAnswers(t, coveted)
	old.stillAnswers(t, home)

	t.Log("it passes while nobody answers, and who stands where somebody else has the port is told when somebody does")
	back := nobodyAnswers(t)
	if err := old.listen(7500); err != nil {
		t.Fatal(err)
	}
	back()
	begin := time.Now()
	old.hears(t, point+" on Gateway "+gateway+"/edge is "+held)
	t.Logf("told %s after the replicas were ready", time.Since(begin).Round(100*time.Millisecond))
	young.holds(t, point)
	// Cilium could not change the ports of the Gateway's Service while nobody answered, and lets ever more time pass before it tries again.
	kubectl(t, "label", "gateway", "edge", "-n", gateway, "e2e=look")
	old.answers(t, coveted) // so says the Gateway API, by age

	t.Log("back at its own port, which gives the other to who holds it")
	if err := old.listen(7777); err != nil {
		t.Fatal(err)
	}
	young.answers(t, coveted)
	old.answers(t, home)
}
