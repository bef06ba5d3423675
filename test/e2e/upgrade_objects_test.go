package e2e

import (
	"fmt"
	"testing"
)

// given is what a release of Portcullis has given away: some of everything that it gives.
type given struct {
	edge
	// pods is a namespace with pods that answer, which the addresses lead to.
	pods      string
	addresses []string
}

// shared are two addresses of the documentation, of which Services share the ports.
const shared = "198.51.100.20-198.51.100.21"

// giveAway asks for some of everything and waits until it is there.
func giveAway(t *testing.T) given {
	t.Helper()
	lend(t, "e2e-given-vip", "addresses: ["+vips+"]")
	lend(t, "e2e-given-shared", "addresses: ["+shared+"], sharing: Ports")
	lend(t, "e2e-given-nodes", "source: NodeIP")
	g := given{edge: newEdge(t, "given"), addresses: []string{"10.77.0.200", "10.77.0.1", "10.77.0.2"}}
	g.pods = answering(t, "given", 2, "")
	kubectl(t, "label", "namespace", g.pods, podToIPLabel+"=enabled")
	apply(t, g.namespace, g.streams())
	apply(t, g.pods, asking("neighbor", g.class, 5433))
	kubectl(t, "create", "service", "clusterip", "site", "--tcp=80:8080", "-n", g.namespace)
	kubectl(t, "annotate", "service", "site", "-n", g.namespace, "ingress/http=class=nginx, host="+g.namespace+".example.com")
	balance(t, g.pods, "vip", "e2e-given-vip", "")
	balance(t, g.pods, "nodes", "e2e-given-nodes", "")
	apply(t, g.pods, sharing("web", 80)+"---"+sharing("mail", 25))
	atNode(t, 0, "10.77.0.200")
	g.await(t)
	return g
}

// streams are StreamIngresses of every kind: with a port that was asked for and one that was not, by TCP and UDP, and with
// an upstream outside the cluster.
func (g given) streams() string {
	return fmt.Sprintf(`
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: fixed}
spec: {className: %[1]s, listen: 5432, upstream: {service: web, port: http}}
---
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: automatic}
spec: {className: %[1]s, upstream: {service: web, port: 80}, proxyProtocol: {send: true}}
---
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: datagrams}
spec: {className: %[1]s, protocol: UDP, listen: 5353, upstream: {service: web, port: 80}}
---
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: outside}
spec: {className: %[1]s, listen: 5434, is_service: false, upstream: {host: 203.0.113.7, port: 5432}}
`, g.class)
}

// sharing is a Service with a port of an address that others have, too.
func sharing(name string, port int) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: shared-%s, annotations: {nginx-stream.jeffthecoder.xyz/address-pool: e2e-given-shared}}
spec:
  type: LoadBalancer
  loadBalancerClass: nginx-stream.jeffthecoder.xyz/portcullis
  allocateLoadBalancerNodePorts: false
  ports: [{name: main, port: %d}]
`, name, port)
}

// await waits until everything is there.
func (g given) await(t *testing.T) {
	t.Helper()
	g.programmed(t)
	kubectl(t, "wait", "--for=condition=Programmed", "streamingress/neighbor", "-n", g.pods, "--timeout="+patience.String())
	kubectl(t, "wait", "--for=create", "ingress/site", "-n", g.namespace, "--timeout="+patience.String())
	matches(t, g.pods, 2)
	balancedAt(t, g.pods, "vip", "10.77.0.200")
	balancedAt(t, g.pods, "nodes", "10.77.0.1", "10.77.0.2")
	for _, name := range []string{"shared-web", "shared-mail"} {
		kubectl(t, "wait", "--for=jsonpath={.status.loadBalancer.ingress[0].ip}=198.51.100.20", "service/"+name, "-n", g.pods,
			"--timeout="+patience.String())
	}
	for _, address := range g.addresses {
		reached(t, address)
	}
}

// kept is what must stay of it: entries and ports of the proxy, addresses, Ingresses, what leads from addresses to Pods,
// and the claims to all of it.
func (g given) kept() []kept {
	const ours = "/apis/nginx-stream.jeffthecoder.xyz/v1beta1/"
	edge, pods := "namespaces/"+g.namespace+"/", "namespaces/"+g.pods+"/"
	stream := []string{"metadata.uid", "spec", "status.listen", "status.addresses", "status.conditions"}
	return []kept{
		{path: "/api/v1/" + edge + "configmaps", fields: []string{"data"}},
		{path: "/api/v1/" + edge + "services", fields: []string{"spec.ports"}},
		{path: "/api/v1/" + pods + "services", fields: []string{"spec.ports", "status.loadBalancer.ingress"}},
		{path: "/apis/networking.k8s.io/v1/" + edge + "ingresses", fields: []string{"metadata.uid", "spec"}},
		{path: ours + edge + "streamingresses", fields: stream},
		{path: ours + pods + "streamingresses", fields: stream},
		{path: ours + pods + "podtoips", fields: []string{"metadata.uid", "spec"}},
		{path: ours + "streamingressclasses", fields: []string{"metadata.uid", "spec", "status.conditions"}},
		{path: ours + "addresspools", fields: []string{"metadata.uid", "spec", "status.conditions"}},
		// But for those on hosts: later releases claim a host for its class, and the claim of the first one goes then.
		{path: ours + "edgeclaims", fields: []string{"metadata.uid", "spec.holder"}, except: "http."},
	}
}
