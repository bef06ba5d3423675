package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kernelClass makes a class without a proxy, its pool and the namespace of its Services. All go when the test ends, the class first.
func kernelClass(t *testing.T, name, addresses, more string) (class string) {
	t.Helper()
	lend(t, name, "addresses: ["+addresses+"]")
	namespace := newNamespace(t, name)
	apply(t, "default", fmt.Sprintf(`
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngressClass
metadata: {name: %s}
spec: {addressPool: {name: %s, namespace: %s}%s}
`, namespace, name, namespace, more))
	t.Cleanup(func() { kubectl(t, "delete", "streamingressclass", namespace, "--ignore-not-found") })
	kubectl(t, "wait", "--for=condition=Programmed", "streamingressclass/"+namespace, "--timeout="+patience.String())
	return namespace
}

// open makes a stream to what answers, in a namespace of pods or beside it.
func open(namespace, name, class, protocol string, port int, upstream string) error {
	_, err := tryKubectl(fmt.Sprintf(`
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: %s}
spec: {className: %s, protocol: %s, listen: %d, upstream: %s}
`, name, class, protocol, port, upstream), "apply", "-n", namespace, "-f", "-")
	return err
}

// echoes makes a Service of what answers.
func echoes(t *testing.T, namespace string) {
	t.Helper()
	apply(t, namespace, `
apiVersion: v1
kind: Service
metadata: {name: echo}
spec:
  selector: {app: echo}
  ports:
  - {name: tcp, protocol: TCP, port: 80, targetPort: 8080}
  - {name: udp, protocol: UDP, port: 80, targetPort: 8080}
`)
}

// closed waits until the client outside is not answered at an address.
func closed(t *testing.T, protocol, address string) {
	t.Helper()
	binary, err := echo()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, protocol+" "+address+" to be closed", func() error {
		if out, err := exec.Command(target.script, "client", binary, protocol, address).CombinedOutput(); err == nil {
			return fmt.Errorf("%s answers", out)
		}
		return nil
	})
}

// installGrants installs ReferenceGrants, of the version of the Gateway API that Portcullis is built with.
func installGrants(t *testing.T) {
	t.Helper()
	dir, err := sourcesOf(root, "sigs.k8s.io/gateway-api")
	if err != nil {
		t.Fatal(err)
	}
	crd := filepath.Join(dir, "config", "crd", "standard", "gateway.networking.k8s.io_referencegrants.yaml")
	kubectl(t, "apply", "--server-side", "-f", crd)
	kubectl(t, "wait", "--for=condition=Established", "crd/referencegrants.gateway.networking.k8s.io", "--timeout="+patience.String())
}

// TestStreamsWithoutAProxy sends traffic from outside through streams that the nodes forward.
func TestStreamsWithoutAProxy(t *testing.T) {
	const address = "10.77.0.210"
	ns := answering(t, "kernel", 2, "")
	echoes(t, ns)
	class := kernelClass(t, "e2e-kernel", address, "")
	atNode(t, 0, address)
	at := bothAnswer(t, ns, class, address)

	scaledAndBack(t, ns, at)

	t.Log("from another namespace: without its consent, and with it")
	installGrants(t)
	other := newNamespace(t, "kernel-guest")
	upstream := fmt.Sprintf("{namespace: %s, service: echo, port: 80}", ns)
	if err := open(other, "guest", class, "TCP", 7001, upstream); err == nil || !strings.Contains(err.Error(), "has not consented") {
		t.Fatalf("without consent: %v", err)
	}
	apply(t, ns, fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: guests}
spec:
  from: [{group: nginx-stream.jeffthecoder.xyz, kind: StreamIngress, namespace: %s}]
  to: [{group: "", kind: Service, name: echo}]
`, other))
	eventually(t, "the guest to be let in", func() error { return open(other, "guest", class, "TCP", 7001, upstream) })
	reachedBy(t, address+":7001", "tcp")
	kubectl(t, "delete", "referencegrant", "guests", "-n", ns)
	closed(t, "tcp", address+":7001")

	t.Log("deleted, and closed")
	kubectl(t, "delete", "streamingress", "tcp", "-n", ns)
	closed(t, "tcp", at)
	reachedBy(t, at, "udp")
	kubectl(t, "delete", "streamingress", "udp", "-n", ns)
	eventually(t, "nothing to be left", func() error {
		left, err := list[struct{ Metadata struct{ Name string } }]("services,endpointslices", "-n", class)
		names := []string{}
		for _, one := range left {
			names = append(names, one.Metadata.Name)
		}
		if len(names) > 0 {
			return fmt.Errorf("there are %v", names)
		}
		return err
	})
}

// TestStreamsKeepTheClientsAddress forwards only to the node's own pods.
func TestStreamsKeepTheClientsAddress(t *testing.T) {
	const address = "10.77.0.211"
	ns := answering(t, "kernel-local", 1, "kubernetes.io/hostname: node1")
	echoes(t, ns)
	class := kernelClass(t, "e2e-kernel-local", address, ", externalTrafficPolicy: Local")
	atNode(t, 1, address)
	if err := errors.Join(
		open(ns, "tcp", class, "TCP", 7000, "{service: echo, port: 80}"),
		open(ns, "udp", class, "UDP", 7000, "{service: echo, port: 80}"),
	); err != nil {
		t.Fatal(err)
	}
	_, clients := reachedBy(t, address+":7000", "tcp", "udp")
	if !slices.Equal(clients, []string{"10.77.0.100"}) {
		t.Errorf("the pods see %v, not the client outside", clients)
	}
}

// bothAnswer opens a TCP and a UDP stream of a class to what answers in a namespace, and waits until both of its pods are reached at an
// address. It returns the address with the port.
func bothAnswer(t *testing.T, ns, class, address string) (at string) {
	t.Helper()
	for _, protocol := range []string{"TCP", "UDP"} {
		if err := open(ns, strings.ToLower(protocol), class, protocol, 7000, "{service: echo, port: 80}"); err != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, "wait", "--for=condition=Programmed", "streamingress", "--all", "-n", ns, "--timeout="+patience.String())
	at = address + ":7000"
	eventually(t, "both pods to answer", func() error {
		if names, _ := reachedBy(t, at, "tcp", "udp"); len(names) != 2 {
			return fmt.Errorf("%v answer", names)
		}
		return nil
	})
	return at
}

// scaledAndBack takes all pods away, and has them come again.
func scaledAndBack(t *testing.T, ns, at string) {
	t.Helper()
	t.Log("scaled to nothing and back")
	kubectl(t, "scale", "deployment/echo", "-n", ns, "--replicas=0")
	closed(t, "tcp", at)
	kubectl(t, "scale", "deployment/echo", "-n", ns, "--replicas=2")
	reachedBy(t, at, "tcp", "udp")
}
