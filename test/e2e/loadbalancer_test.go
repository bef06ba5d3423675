package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	echoImage = "localhost/echo:e2e"
	// vips are addresses of the network of the nodes and the client that nobody has.
	vips = "10.77.0.200-10.77.0.203"
)

// loadBalancer is what the tests read of Services.
type loadBalancer struct {
	Status struct {
		LoadBalancer struct {
			Ingress []struct {
				IP, IPMode string
				Ports      []struct {
					Port     int
					Protocol string
					Error    string
				}
			}
		}
	}
}

// addresses are the addresses in the status.
func (l loadBalancer) addresses() (ips []string) {
	for _, ingress := range l.Status.LoadBalancer.Ingress {
		ips = append(ips, ingress.IP)
	}
	slices.Sort(ips)
	return ips
}

// echo is the program that answers and asks, in an image on all nodes. Only the script's cluster has a client outside.
var echo = sync.OnceValues(func() (binary string, err error) {
	binary, err = filepath.Abs(filepath.Join(root, "bin", "echo"))
	if err != nil {
		return "", err
	}
	return binary, inOrder(
		func() error { return command("go", "build", "-o", binary, "./echo") },
		func() error { return load(target.script, echoImage, binary, "/echo") },
	)
})

// answering runs some pods that answer in a namespace of its own; they are spread over the nodes.
func answering(t *testing.T, name string, replicas int, nodes string) (namespace string) {
	t.Helper()
	needs(t, target.script != "", "only a cluster that CLUSTER makes has a client outside")
	if _, err := echo(); err != nil {
		t.Fatal(err)
	}
	namespace = newNamespace(t, name)
	apply(t, namespace, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo}
spec:
  replicas: %d
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {%s}
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: echo}}}
      containers: [{name: echo, image: "%s", imagePullPolicy: IfNotPresent, command: [/echo]}]
`, replicas, nodes, echoImage))
	kubectl(t, "rollout", "status", "deployment/echo", "-n", namespace, "--timeout="+patience.String())
	return namespace
}

// lend makes a pool, and deletes it when the test ends.
func lend(t *testing.T, name, spec string) {
	t.Helper()
	apply(t, "default", pool(name, spec))
	t.Cleanup(func() {
		eventually(t, "pool "+name+" to go", func() error {
			_, err := tryKubectl("", "delete", "addresspool", name, "--ignore-not-found")
			return err
		})
	})
}

// pool is an AddressPool that serves only who asks for it.
func pool(name, spec string) string {
	return fmt.Sprintf(`
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: AddressPool
metadata: {name: %s}
spec: {autoAssign: false, %s}
`, name, spec)
}

// balance makes a Service for what answers, with port 80 by TCP and UDP, from a pool. It goes before the pool does.
func balance(t *testing.T, namespace, name, pool, more string) {
	t.Helper()
	balanceAs(t, namespace, name, "address-pool", pool, more)
}

// balanceAs is the same for a Service that asks by any annotation of Portcullis'.
func balanceAs(t *testing.T, namespace, name, annotation, value, more string) {
	t.Helper()
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %s, annotations: {nginx-stream.jeffthecoder.xyz/%s: "%s"}}
spec:
  type: LoadBalancer
  loadBalancerClass: nginx-stream.jeffthecoder.xyz/portcullis
  allocateLoadBalancerNodePorts: false
  selector: {app: echo}
  ports:
  - {name: tcp, protocol: TCP, port: 80, targetPort: 8080}
  - {name: udp, protocol: UDP, port: 80, targetPort: 8080}
%s`, name, annotation, value, more)
	eventually(t, "Service "+name+" to be let", func() error { // who had the ports before may have gone a moment ago
		_, err := tryKubectl(manifest, "apply", "-n", namespace, "-f", "-")
		return err
	})
	t.Cleanup(func() { kubectl(t, "delete", "service", name, "-n", namespace, "--ignore-not-found") })
}

// balancedAt waits until a Service has some addresses.
func balancedAt(t *testing.T, namespace, name string, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s to have the addresses %v", name, want), func() error {
		found, err := read[loadBalancer]("service", name, "-n", namespace)
		if err != nil || !slices.Equal(found.addresses(), want) {
			return fmt.Errorf("it has %v: %w", found.addresses(), err)
		}
		for _, ingress := range found.Status.LoadBalancer.Ingress {
			if ingress.IPMode != "VIP" || len(ingress.Ports) != 2 || ingress.Ports[0].Error+ingress.Ports[1].Error != "" {
				return fmt.Errorf("it has %+v", ingress)
			}
		}
		return nil
	})
}

// reached waits until the client outside is answered at an address, by TCP and UDP, again and again, and returns who
// answered.
func reached(t *testing.T, address string) []string {
	t.Helper()
	names, _ := reachedBy(t, address+":80", "tcp", "udp")
	return names
}

// reachedBy does the same for an address with a port, and some protocols. It also returns who asked, as far as the pods saw.
func reachedBy(t *testing.T, address string, protocols ...string) (names, clients []string) {
	t.Helper()
	binary, err := echo()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client to be answered at "+address, func() error {
		names, clients = nil, nil
		for _, protocol := range protocols {
			for range 8 {
				out, err := exec.Command(target.script, "client", binary, protocol, address).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%s: %w: %s", protocol, err, out)
				}
				name, client, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
				names, clients = append(names, name), append(clients, client)
			}
		}
		return nil
	})
	slices.Sort(names)
	slices.Sort(clients)
	return slices.Compact(names), slices.Compact(clients)
}

// TestPoolAddress sends traffic from outside to a pod, through an address of a pool that a node has.
func TestPoolAddress(t *testing.T) {
	ns := answering(t, "vip", 2, "")
	lend(t, "e2e-vip", "addresses: ["+vips+"]")
	balance(t, ns, "web", "e2e-vip", "")
	balancedAt(t, ns, "web", "10.77.0.200")
	atNode(t, 0, "10.77.0.200")
	names := reached(t, "10.77.0.200")
	t.Logf("%v answered", names)
	if len(names) == 0 || !strings.HasPrefix(names[0], "echo-") {
		t.Errorf("%v answered", names)
	}
}

// atNode gives a node an address.
func atNode(t *testing.T, node int, address string) {
	t.Helper()
	ip := func(verb string) error {
		return command(target.script, "node", fmt.Sprint(node), "ip", "addr", verb, address+"/32", "dev", "eth0")
	}
	if err := ip("add"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ip("del"); err != nil {
			t.Error(err)
		}
	})
}

// TestNodeAddresses sends traffic from outside to pods through the addresses of the nodes: all of them, or only those with
// a pod where the client's address is to be kept.
func TestNodeAddresses(t *testing.T) {
	t.Cleanup(bePatient(t)) // a Service passes that nobody has judged in time
	lend(t, "e2e-nodes", "source: NodeIP")
	everywhere := answering(t, "nodes", 2, "")
	balance(t, everywhere, "web", "e2e-nodes", "")
	balancedAt(t, everywhere, "web", "10.77.0.1", "10.77.0.2")
	t.Logf("%v answered", append(reached(t, "10.77.0.1"), reached(t, "10.77.0.2")...))
	rival := `
apiVersion: v1
kind: Service
metadata: {name: rival, annotations: {nginx-stream.jeffthecoder.xyz/address-pool: e2e-nodes}}
spec: {type: LoadBalancer, loadBalancerClass: nginx-stream.jeffthecoder.xyz/portcullis, ports: [{port: 80}]}
`
	eventually(t, "a rival for port 80 to be told who has it", func() error {
		out, err := tryKubectl(rival, "apply", "-n", everywhere, "-f", "-")
		if err == nil {
			t.Fatalf("a rival for port 80 is told %s", out)
		}
		if !strings.Contains(err.Error(), "held by Service "+everywhere+"/web") {
			return err
		}
		return nil
	})
	kubectl(t, "delete", "service", "web", "-n", everywhere)

	one := answering(t, "local", 1, "kubernetes.io/hostname: node1")
	balance(t, one, "web", "e2e-nodes", "  externalTrafficPolicy: Local\n")
	balancedAt(t, one, "web", "10.77.0.2")
	reached(t, "10.77.0.2")

	kubectl(t, "label", "node", "node1", "node.kubernetes.io/exclude-from-external-load-balancers=")
	t.Cleanup(func() {
		if _, err := tryKubectl("", "label", "node", "node1", "node.kubernetes.io/exclude-from-external-load-balancers-"); err != nil {
			t.Error(err)
		}
	})
	balancedAt(t, one, "web")
	kubectl(t, "label", "node", "node1", "node.kubernetes.io/exclude-from-external-load-balancers-")
	balancedAt(t, one, "web", "10.77.0.2")
	reached(t, "10.77.0.2")
}

// balancedOverNodes serves pods on both nodes at the addresses of both. The function that it returns says whether they
// outlive node1.
func balancedOverNodes(t *testing.T) (outlive func()) {
	t.Helper()
	ns := answering(t, "outlive", 2, "")
	lend(t, "e2e-outlive", "source: NodeIP")
	balance(t, ns, "web", "e2e-outlive", "")
	balancedAt(t, ns, "web", "10.77.0.1", "10.77.0.2")
	reached(t, "10.77.0.2")
	return func() {
		t.Helper()
		balancedAt(t, ns, "web", "10.77.0.1")
		t.Logf("%v answered", reached(t, "10.77.0.1"))
	}
}
