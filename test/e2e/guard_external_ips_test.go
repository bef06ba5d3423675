package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// named is a Service for what answers in a namespace, at port 80 by TCP, which names an address as its own.
func named(address string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: named}
spec:
  selector: {app: echo}
  externalIPs: [%s]
  ports: [{name: door, port: 80, targetPort: 8080}]
`, address)
}

// TestGuardKeepsAnAddress has a tenant take the address of somebody else's load balancer, by naming it in spec.externalIPs, while that one's
// pod is asked from outside.
func TestGuardKeepsAnAddress(t *testing.T) {
	const taken, free = "10.77.0.204", "10.77.0.205"
	guardOn(t)
	young := newTeam(t, "named-young", answering(t, "named-young", 1, ""))
	old := newTeam(t, "named-old", answering(t, "named-old", 1, ""))
	lend(t, "e2e-named", "addresses: ["+taken+"-"+free+"], sharing: Ports")
	atNode(t, 0, taken)
	atNode(t, 0, free)
	home := young.opens(t, front("web", "addresses: "+taken, 80), taken+":80")
	t.Cleanup(func() {
		kubectl(t, "delete", "service", "web", "-n", young.namespace, "--wait=false")
		young.lets(t, "web")
	})

	t.Log("refused inline, and nobody else answers")
	held := "held by Service " + young.namespace + "/web"
	eventually(t, "the thief to be told "+held, func() error { // a replica may learn a moment later that the holder is stored
		_, err := old.try(named(taken), "apply", "-f", "-", "--dry-run=server")
		if err == nil {
			return errors.New("it passes")
		}
		if !strings.Contains(err.Error(), held) || !strings.Contains(err.Error(), "spec.externalIPs[0]") {
			return err
		}
		return nil
	})
	if out, err := old.try(named(taken), "apply", "-f", "-"); err == nil {
		t.Fatalf("the address is given away: %s", out)
	}
	for range 20 {
		if who, err := answerAt(taken + ":80"); err != nil || who != home {
			t.Errorf("%s answers in place of %s: %v", who, home, err)
		}
	}

	t.Log("an address that is free, and that a pool gives, is open to who names it")
	who := old.opens(t, named(free), free+":80")
	if who == home || !strings.HasPrefix(who, "echo-") {
		t.Errorf("%s answers at %s", who, free)
	}

	t.Log("it passes while nobody answers, and the thief is told when somebody does")
	back := nobodyAnswers(t)
	old.kubectl(t, "patch", "service", "named", "--type=merge", "-p", `{"spec":{"externalIPs":["`+taken+`"]}}`)
	back()
	begin := time.Now()
	eventually(t, "the thief to be told by an event", func() error {
		out, err := tryKubectl("", "get", "events", "-n", old.namespace, "--field-selector",
			"involvedObject.kind=Service,involvedObject.name=named,reason=AddressConflict", "-o", "jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(out, "port TCP/80 of "+taken+" is "+held) {
			err = fmt.Errorf("it is told %q", out)
		}
		return err
	})
	t.Logf("told %s after the replicas were ready", time.Since(begin).Round(100*time.Millisecond))
	if addresses, err := read[loadBalancer]("service", "web", "-n", young.namespace); err != nil || addresses.addresses()[0] != taken {
		t.Errorf("the load balancer has %v: %v", addresses.addresses(), err)
	}
	switch who, err := answerAt(taken + ":80"); {
	case err != nil:
		t.Log("meanwhile nobody answers there:", err)
	case who != home:
		t.Log("meanwhile the thief answers there")
	}

	keepsAName(t, young, old)

	t.Log("the thief gives way")
	old.kubectl(t, "delete", "service", "named")
	eventually(t, "the load balancer to answer alone", func() error {
		for range 10 {
			if who, err := answerAt(taken + ":80"); err != nil || who != home {
				return fmt.Errorf("%s answers: %w", who, err)
			}
		}
		return nil
	})
}

// keepsAName has tenants with the role edit ask for one host name, by the kinds that can.
func keepsAName(t *testing.T, home, rival team) {
	t.Helper()
	t.Log("a host name is the namespace's that has it first, in every kind")
	apply(t, "default", `
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: HostPolicy
metadata: {name: e2e-names}
spec: {hosts: ["*.e2e.test"], sharing: Namespace}
`)
	t.Cleanup(func() { kubectl(t, "delete", "hostpolicy", "e2e-names", "--ignore-not-found") })
	kubectl(t, "wait", "--for=condition=Accepted", "hostpolicy/e2e-names", "--timeout="+patience.String())
	home.mayNot(t, "delete", "hostpolicy", "e2e-names")
	const path = "http: {paths: [{path: %s, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}"
	ingress := func(name, at string) string {
		return fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: %s}\nspec:\n  rules:\n  - host: shop.e2e.test\n    "+path+"\n", name, at)
	}
	if _, err := home.try(ingress("shop", "/"), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	held := "held by Namespace " + home.namespace
	eventually(t, "all replicas to know the policy", func() error {
		for range 6 { // each answers some
			if _, err := rival.try(ingress("login", "/login"), "apply", "-f", "-", "--dry-run=server"); err == nil || !strings.Contains(err.Error(), held) {
				return fmt.Errorf("the rival is told %w", err)
			}
		}
		return nil
	})
	rival.told(t, held, ingress("login", "/login"), "apply", "-f", "-")
	rival.told(t, held, `
apiVersion: v1
kind: Service
metadata: {name: dns, annotations: {external-dns.alpha.kubernetes.io/hostname: shop.e2e.test}}
spec: {ports: [{port: 80}]}
`, "apply", "-f", "-")
	rival.told(t, held, `
apiVersion: v1
kind: Service
metadata: {name: exposed, annotations: {ingress/http: "host=shop.e2e.test, path=/login"}}
spec: {ports: [{port: 80}]}
`, "apply", "-f", "-")
	if _, err := home.try(ingress("cm-acme-http-solver-1", "/.well-known/acme-challenge/x"), "apply", "-f", "-"); err != nil {
		t.Errorf("a solver of the owner's is refused: %v", err)
	}
	home.kubectl(t, "delete", "ingress", "--all")
	eventually(t, "the name to be free", func() error {
		_, err := rival.try(ingress("login", "/login"), "apply", "-f", "-")
		return err
	})
	rival.kubectl(t, "delete", "ingress", "login")
}
