package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Tenants have the role "edit" in one namespace, and mean harm. What they try is tried with traffic: a door is open when
// somebody answers behind it.

// front is a Service for what answers in a namespace, at one port by TCP, which goes on living when it is deleted.
func front(name, asks string, port int) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata:
  name: %s
  annotations: {nginx-stream.jeffthecoder.xyz/%s}
  finalizers: [tenant.example.com/mine]
spec:
  type: LoadBalancer
  loadBalancerClass: nginx-stream.jeffthecoder.xyz/portcullis
  allocateLoadBalancerNodePorts: false
  selector: {app: echo}
  ports: [{name: door, port: %d, targetPort: 8080}]
`, name, asks, port)
}

// opens has a team make a Service, and returns when somebody answers there.
func (u team) opens(t *testing.T, manifest, at string) (who string) {
	t.Helper()
	eventually(t, "a Service to be let", func() error { // the pool may have been made a moment ago
		_, err := u.try(manifest, "apply", "-f", "-")
		return err
	})
	eventually(t, "somebody to answer at "+at, func() (err error) {
		who, err = answerAt(at)
		return err
	})
	return who
}

// answerAt is who answers outside at an address and port, by TCP.
func answerAt(at string) (who string, err error) {
	binary, err := echo()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(target.script, "client", binary, "ask", "tcp", at).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// goes deletes a Service that does not go.
func (u team) goes(t *testing.T, name string) {
	t.Helper()
	u.kubectl(t, "delete", "service", name, "--wait=false")
	t.Cleanup(func() { u.lets(t, name) })
}

// lets takes the finalizers off a Service.
func (u team) lets(t *testing.T, name string) {
	t.Helper()
	_, err := u.try("", "patch", "service", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if err != nil && !strings.Contains(err.Error(), "NotFound") {
		t.Error(err)
	}
}

// TestADoorThatIsBeingDeleted has a tenant take the doors of others by Services that are being deleted.
func TestADoorThatIsBeingDeleted(t *testing.T) {
	t.Cleanup(bePatient(t)) // else, on a busy machine, the answer may be that there was none in time
	victim := newTeam(t, "victim", answering(t, "victim", 1, ""))
	thief := newTeam(t, "thief", answering(t, "thief", 1, ""))
	lend(t, "e2e-doors", "addresses: [10.77.0.201], sharing: Ports")
	lend(t, "e2e-kubelet", "source: NodeIP")
	atNode(t, 0, "10.77.0.201")
	home := victim.opens(t, front("web", "address-pool: e2e-doors", 443), "10.77.0.201:443")
	thief.opens(t, front("shared", "address-pool: e2e-doors", 8443), "10.77.0.201:8443")
	thief.opens(t, front("nodes", "address-pool: e2e-kubelet", 8444), "10.77.0.1:8444")
	t.Cleanup(func() {
		kubectl(t, "delete", "service", "web", "-n", victim.namespace, "--wait=false")
		victim.lets(t, "web")
	})
	for name, port := range map[string]int{"shared": 443, "nodes": 10250} {
		thief.goes(t, name)
		_, err := thief.try("", "patch", "service", name, "--type=json", "-p",
			fmt.Sprintf(`[{"op": "replace", "path": "/spec/ports/0/port", "value": %d}]`, port))
		if err == nil || !strings.Contains(err.Error(), "is being deleted") {
			t.Errorf("port %d of a Service that is being deleted: %v", port, err)
		}
	}
	for range 20 {
		if who, err := answerAt("10.77.0.201:443"); err != nil || who != home {
			t.Errorf("%s answers in place of %s: %v", who, home, err)
		}
	}
	if who, err := answerAt("10.77.0.1:10250"); err == nil && strings.HasPrefix(who, "echo-") {
		t.Errorf("%s answers at the kubelet's port", who)
	}
}

// TestADisownedDoor has a tenant make the API server forget who wrote the status of its Service, so that its address seems to
// be free.
func TestADisownedDoor(t *testing.T) {
	t.Cleanup(bePatient(t)) // a Service passes that nobody has judged in time
	old := newTeam(t, "old", answering(t, "old", 1, ""))
	next := newTeam(t, "next", answering(t, "next", 1, ""))
	lend(t, "e2e-disowned", "addresses: [10.77.0.202]")
	atNode(t, 0, "10.77.0.202")
	home := old.opens(t, front("web", "addresses: 10.77.0.202", 80), "10.77.0.202:80")
	old.goes(t, "web")
	old.kubectl(t, "patch", "service", "web", "--type=merge", "-p", `{"metadata":{"managedFields":[{}]}}`)
	for range 20 {
		if out, err := next.try(front("web", "addresses: 10.77.0.202", 80), "create", "-f", "-"); err == nil {
			t.Fatalf("the address is given away: %s", out)
		}
		if who, err := answerAt("10.77.0.202:80"); err != nil || who != home {
			t.Errorf("%s answers in place of %s: %v", who, home, err)
		}
	}
	old.lets(t, "web")
	t.Cleanup(func() { next.kubectl(t, "delete", "service", "web", "--wait=false"); next.lets(t, "web") })
	var heir string
	eventually(t, "the address to be had", func() error {
		_, err := next.try(front("web", "addresses: 10.77.0.202", 80), "apply", "-f", "-")
		return err
	})
	eventually(t, "another one to answer", func() (err error) {
		if heir, err = answerAt("10.77.0.202:80"); err == nil && heir == home {
			err = errors.New("it is " + heir)
		}
		return err
	})
}

// TestTheProxysDoor has a tenant take a port of the address that a proxy shares with it, and a stream ask for that port.
func TestTheProxysDoor(t *testing.T) {
	tenant := newTeam(t, "tenant", answering(t, "tenant", 1, ""))
	lend(t, "e2e-front", "addresses: [10.77.0.203], sharing: Ports")
	atNode(t, 0, "10.77.0.203")
	proxy := fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: e2e-front}
spec:
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: echo, image: "%s", imagePullPolicy: IfNotPresent, command: [/echo]}]
---%s---
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngressClass
metadata: {name: e2e-front}
spec:
  tcpConfigMap: {namespace: kube-system, name: e2e-front-tcp}
  service: {namespace: kube-system, name: e2e-front}
`, echoImage, strings.Replace(front("e2e-front", "address-pool: e2e-front", 443), "  finalizers: [tenant.example.com/mine]\n", "", 1))
	apply(t, "kube-system", proxy)
	t.Cleanup(func() {
		kubectl(t, "delete", "streamingressclass/e2e-front", "--ignore-not-found")
		kubectl(t, "delete", "-n", "kube-system", "deployment/e2e-front", "service/e2e-front", "configmap/e2e-front-tcp", "--ignore-not-found")
	})
	eventually(t, "the proxy to answer", func() error {
		_, err := answerAt("10.77.0.203:443")
		return err
	})
	tenant.opens(t, front("mine", "address-pool: e2e-front", 6999), "10.77.0.203:6999")
	t.Cleanup(func() { tenant.kubectl(t, "delete", "service", "mine", "--wait=false"); tenant.lets(t, "mine") })
	want := "held by Service " + tenant.namespace + "/mine"
	eventually(t, "the address to be known as the proxy's", func() error {
		out, err := tenant.try(asking("taken", "e2e-front", 6999), "apply", "--dry-run=server", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("%s: %w", out, err)
		}
		return nil
	})
	tenant.told(t, want, asking("taken", "e2e-front", 6999), "apply", "-f", "-")
	if _, err := tenant.try(asking("free", "e2e-front", 7000), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the port of a stream to be open", func() error {
		out, err := tryKubectl("", "get", "service", "e2e-front", "-n", "kube-system", "-o", "jsonpath={.status.loadBalancer.ingress[0].ports[*].port}")
		if err == nil && !strings.Contains(out, "7000") {
			err = errors.New(out)
		}
		return err
	})
	for range 10 {
		if _, err := answerAt("10.77.0.203:443"); err != nil {
			t.Errorf("the proxy has lost its address: %v", err)
		}
	}
}
