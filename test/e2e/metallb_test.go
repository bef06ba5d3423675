package e2e

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	metalLB = "metallb-system"
	// announced are free addresses of the network of the nodes and the client. MetalLB elects the node that answers for an address by a hash
	// of both: node1, which may be lost, for each of these.
	announced        = "10.77.0.230-10.77.0.231"
	exampleAddresses = "192.0.2.128/25"
	samples          = root + "/config/samples/metallb"
)

// speakers installs MetalLB's speakers as docs/recipes.md does, from the sources of the pinned module, and takes them away in the end.
func speakers(t *testing.T) {
	t.Helper()
	module := filepath.Join(root, "test", "metallb")
	sources, err := sourcesOf(module, "go.universe.tf/metallb")
	if err != nil {
		t.Fatal(err)
	}
	if err := loadProgram(target.script, "localhost/metallb-speaker:e2e", "/speaker", module, "go.universe.tf/metallb/speaker"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kustomize(t, dir, fmt.Sprintf(`
resources: [%s]
components: [%s]
images: [{name: quay.io/metallb/speaker, newName: localhost/metallb-speaker, newTag: e2e}]
patches:
- target: {kind: DaemonSet} # on a busy machine, who answers late is not to be started again
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/livenessProbe/timeoutSeconds, value: 60}
    - {op: add, path: /spec/template/spec/containers/0/readinessProbe/timeoutSeconds, value: 60}
`, relativeTo(t, dir, filepath.Join(sources, "config", "native")), relativeTo(t, dir, samples)))
	kubectl(t, "create", "secret", "generic", "memberlist", "-n", metalLB, "--from-literal=secretkey="+rand.Text())
	kubectl(t, "wait", "--for=condition=Established", "crd/ipaddresspools.metallb.io", "crd/l2advertisements.metallb.io", "--timeout="+patience.String())
	awaitSpeakers(t)
}

// awaitSpeakers waits until there is a ready speaker of either kind on each node.
func awaitSpeakers(t *testing.T) {
	t.Helper()
	for _, name := range []string{"speaker", "speaker-streams"} {
		kubectl(t, "rollout", "status", "daemonset/"+name, "-n", metalLB, "--timeout="+patience.String())
	}
}

// hardware is the address of a network card, in what ip prints.
var hardware = regexp.MustCompile(`(?:link/ether|lladdr) ([0-9a-f:]{17})`)

// announcer is the node whose card the client outside takes for an address, by the last answer to its question.
func announcer(address string) (node string, err error) {
	card := func(args ...string) string {
		out, _ := exec.Command(target.script, args...).Output()
		if found := hardware.FindSubmatch(out); found != nil {
			return string(found[1])
		}
		return ""
	}
	taken := card("client", "ip", "neigh", "show", "to", address)
	for i := range 2 {
		if taken != "" && card("node", strconv.Itoa(i), "ip", "link", "show", "eth0") == taken {
			return fmt.Sprintf("node%d", i), nil
		}
	}
	return "", fmt.Errorf("nobody's card %q is taken for %s", taken, address)
}

// announcedBy waits until a node answers for addresses.
func announcedBy(t *testing.T, node string, addresses ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s to answer for %v", node, addresses), func() (errs error) {
		for _, address := range addresses {
			_, _ = ask("tcp", address+":7000") // for which the client has to know a card; nobody need listen there
			if by, err := announcer(address); by != node {
				errs = errors.Join(errs, fmt.Errorf("%s does for %s: %w", by, address, err))
			}
		}
		return errs
	})
}

// ask has the client outside ask once.
func ask(protocol, at string) (string, error) {
	binary, err := echo()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(target.script, "client", binary, protocol, at).CombinedOutput()
	return string(out), err
}

// firstAnswers says when the client outside was answered first, by a protocol at an address each ("tcp 192.0.2.1:80"), counted from a
// moment. It asks for each of them again and again, and an answer may take it two seconds.
func firstAnswers(t *testing.T, begin time.Time, doors ...string) {
	t.Helper()
	took := make([]time.Duration, len(doors))
	var asking sync.WaitGroup
	for i, door := range doors {
		asking.Go(func() {
			protocol, at, _ := strings.Cut(door, " ")
			for time.Since(begin) < patience {
				if _, err := ask(protocol, at); err == nil {
					took[i] = time.Since(begin)
					return
				}
			}
		})
	}
	asking.Wait()
	for i, door := range doors {
		if took[i] == 0 {
			t.Errorf("nobody answers %s", door)
			continue
		}
		t.Logf("%s is answered again after %v", door, took[i].Round(100*time.Millisecond))
	}
}

// unplug takes a node's link down. What runs there runs on, and reaches nobody. plug takes it up again; the kernel has forgotten the routes.
func unplug(t *testing.T, node string) (plug func()) {
	t.Helper()
	routes := filepath.Join(t.TempDir(), "routes")
	shell := func(script string) error { return command(target.script, "node", node, "sh", "-ec", script) }
	if err := shell("ip route save dev eth0 >" + routes + "; ip link set eth0 down"); err != nil {
		t.Fatal(err)
	}
	plug = sync.OnceFunc(func() {
		if err := shell("ip link set eth0 up; ip route restore <" + routes); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(plug)
	return plug
}

// TestMetalLBAnnounces has MetalLB's speakers answer for addresses that Portcullis has given, to a Service and to a class without a proxy. No
// node has them. The client outside finds the node that answers, and the next one when that node is cut off.
func TestMetalLBAnnounces(t *testing.T) {
	ns := answering(t, "metallb", 1, "kubernetes.io/hostname: node0") // not on the node that is cut off
	echoes(t, ns)
	speakers(t)
	lanAddresses(t)
	balance(t, ns, "web", "lan", "")
	balancedAt(t, ns, "web", "10.77.0.230")
	class := newNamespace(t, "metallb-class")
	apply(t, "default", fmt.Sprintf(`
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngressClass
metadata: {name: %s}
spec: {addressPool: {name: lan, namespace: %s}}
`, class, class))
	t.Cleanup(func() { kubectl(t, "delete", "streamingressclass", class, "--ignore-not-found") })
	kubectl(t, "wait", "--for=condition=Programmed", "streamingressclass/"+class, "--timeout="+patience.String())
	if err := open(ns, "tcp", class, "TCP", 7000, "{service: echo, port: 80}"); err != nil {
		t.Fatal(err)
	}

	pod := kubectl(t, "get", "pods", "-n", ns, "-l", "app=echo", "-o", "jsonpath={.items[*].metadata.name}")
	names := reached(t, "10.77.0.230")
	others, _ := reachedBy(t, "10.77.0.231:7000", "tcp")
	if !slices.Equal(names, []string{pod}) || !slices.Equal(others, names) {
		t.Errorf("%v and %v answer, want %s", names, others, pod)
	}
	announcedBy(t, "node1", "10.77.0.230", "10.77.0.231")

	t.Log("its link down")
	plug := unplug(t, "1")
	firstAnswers(t, time.Now(), "tcp 10.77.0.230:80", "udp 10.77.0.230:80", "tcp 10.77.0.231:7000")
	announcedBy(t, "node0", "10.77.0.230", "10.77.0.231")

	t.Log("and up")
	plug()
	kubectl(t, "wait", "--for=condition=Ready", "node/node1", "--timeout="+patience.String())
	awaitSpeakers(t)
	announcedBy(t, "node1", "10.77.0.230", "10.77.0.231")
	reached(t, "10.77.0.230")
	reachedBy(t, "10.77.0.231:7000", "tcp")
	replicas(t) // one of them was cut off, too
}

// lanAddresses applies the pools of the recipe, with addresses of this network.
func lanAddresses(t *testing.T) {
	t.Helper()
	sample, err := os.ReadFile(filepath.Join(samples, "addresses.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(sample), exampleAddresses) != 2 {
		t.Fatalf("the addresses %s are not in two pools", exampleAddresses)
	}
	pools := strings.ReplaceAll(string(sample), exampleAddresses, announced)
	t.Cleanup(func() {
		eventually(t, "the pools to go", func() error { // the addresses may have been somebody's a moment ago
			_, err := tryKubectl(pools, "delete", "--ignore-not-found", "-f", "-")
			return err
		})
	})
	if _, err := tryKubectl(pools, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}
