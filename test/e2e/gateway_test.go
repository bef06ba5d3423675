package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// newGateway makes a Gateway "edge" of a real implementation, with an address of a pool, which lets ListenerSets attach of the namespaces
// that allowed names. It goes when the test ends, with its pool and its namespace.
func newGateway(t *testing.T, name, address, allowed string) (namespace string) {
	t.Helper()
	needs(t, target.script != "", "only a cluster that CLUSTER makes has an implementation of the Gateway API")
	if err := command(target.script, "gateway"); err != nil { // which waits a minute for its operator
		t.Log(err)
		if err := command(target.script, "gateway"); err != nil {
			t.Fatal(err)
		}
	}
	kubectl(t, "wait", "--for=condition=Accepted", "gatewayclass/cilium", "--timeout="+patience.String())
	lend(t, name, "addresses: ["+address+"]")
	namespace = newNamespace(t, name)
	apply(t, namespace, fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  gatewayClassName: cilium
  infrastructure: {annotations: {nginx-stream.jeffthecoder.xyz/address-pool: %s}}
  allowedListeners: {namespaces: {from: %s}}
  listeners: [{name: own, port: 9, protocol: TCP, allowedRoutes: {namespaces: {from: Same}}}]
`, name, allowed))
	t.Cleanup(func() {
		kubectl(t, "delete", "gateway", "edge", "-n", namespace)
		eventually(t, "the Service of the Gateway to go", func() error {
			left, err := list[struct{ Metadata struct{ Name string } }]("services", "-n", namespace)
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("%d are left", len(left))
			}
			return err
		})
	})
	return namespace
}

// gatewayClass makes a Gateway and a class in front of it. Both go when the test ends, the class first.
func gatewayClass(t *testing.T, name, address string) (class string) {
	t.Helper()
	class = newGateway(t, name, address, "Same")
	apply(t, "default", fmt.Sprintf(`
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngressClass
metadata: {name: %s}
spec: {gateway: {namespace: %s, name: edge}}
`, class, class))
	t.Cleanup(func() { kubectl(t, "delete", "streamingressclass", class, "--ignore-not-found") })
	kubectl(t, "wait", "--for=condition=Programmed", "streamingressclass/"+class, "--timeout="+patience.String())
	return class
}

// TestStreamsBehindAGateway sends traffic from outside through streams of a class with a Gateway of a real implementation.
func TestStreamsBehindAGateway(t *testing.T) {
	const address = "10.77.0.214"
	ns := answering(t, "gateway", 2, "")
	echoes(t, ns)
	class := gatewayClass(t, "e2e-gateway", address)
	atNode(t, 0, address)
	at := bothAnswer(t, ns, class, address)

	t.Log("refused as ever: what is taken, and what is the Gateway's own")
	for port, holder := range map[int]string{7000: "held by StreamIngress " + ns + "/tcp", 9: "held by Gateway " + class + "/edge"} {
		eventually(t, "a rival to be told "+holder, func() error { // a replica may learn a moment later that the holder is stored
			err := open(ns, "rival", class, "TCP", port, "{service: echo, port: 80}")
			if err == nil {
				t.Fatalf("port %d of %s is given away", port, holder)
			}
			if !strings.Contains(err.Error(), holder) {
				return err
			}
			return nil
		})
	}

	scaledAndBack(t, ns, at)

	t.Log("from another namespace, with its consent")
	installGrants(t)
	other := newNamespace(t, "gateway-guest")
	apply(t, ns, fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: guests}
spec:
  from: [{group: nginx-stream.jeffthecoder.xyz, kind: StreamIngress, namespace: %s}]
  to: [{group: "", kind: Service, name: echo}]
`, other))
	upstream := fmt.Sprintf("{namespace: %s, service: echo, port: 80}", ns)
	eventually(t, "the guest to be let in", func() error { return open(other, "guest", class, "TCP", 7001, upstream) })
	reachedBy(t, address+":7001", "tcp")

	t.Log("deleted, and closed")
	kubectl(t, "delete", "streamingress", "--all", "-n", other)
	closed(t, "tcp", address+":7001")
	kubectl(t, "delete", "streamingress", "tcp", "-n", ns)
	closed(t, "tcp", at)
	reachedBy(t, at, "udp")
	kubectl(t, "delete", "streamingress", "udp", "-n", ns)
	eventually(t, "nothing to be left", func() error {
		left, err := list[struct{ Metadata struct{ Name string } }]("listenersets,tcproutes,udproutes", "-A")
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

// TestStreamsMoveToAGateway moves streams from a class without a proxy to one in front of a Gateway and back, while clients connect to
// the door that they have: as TestStreamsMove.
func TestStreamsMoveToAGateway(t *testing.T) {
	const here, there = "10.77.0.215", "10.77.0.216"
	ns := answering(t, "gateway-moves", 2, "")
	echoes(t, ns)
	classes := map[string]string{here: kernelClass(t, "e2e-from-pool", here, ""), there: gatewayClass(t, "e2e-to-gateway", there)}
	movesUnderVisits(t, ns, classes, here, there)
}
