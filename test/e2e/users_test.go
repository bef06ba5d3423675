package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// team is a user with the role "edit" in one namespace, and nothing else.
type team struct {
	user, namespace string
}

func newTeam(t *testing.T, name, namespace string) team {
	t.Helper()
	one := team{user: "e2e-" + name, namespace: namespace}
	kubectl(t, "create", "rolebinding", name, "-n", namespace, "--clusterrole=edit", "--user="+one.user)
	eventually(t, one.user+" to be let in", func() error {
		_, err := one.try("", "get", "streamingresses")
		return err
	})
	return one
}

// try runs kubectl as the team, in its namespace.
func (u team) try(manifest string, args ...string) (string, error) {
	return tryKubectl(manifest, append([]string{"--as=" + u.user, "-n", u.namespace}, args...)...)
}

func (u team) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := u.try("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// told has a team try something until it is refused with these words, and fails the test when it is let. The replica that answers
// may learn of what stands a moment after the one that leads, and says until then that its holder is not stored.
func (u team) told(t *testing.T, want, manifest string, args ...string) {
	t.Helper()
	eventually(t, u.user+" to be told "+want, func() error {
		out, err := u.try(manifest, args...)
		if err == nil {
			t.Fatalf("kubectl %v by %s: %s, want %q", args, u.user, out, want)
		}
		if !strings.Contains(err.Error(), want) {
			return err
		}
		return nil
	})
}

// mayNot fails the test when the team may.
func (u team) mayNot(t *testing.T, args ...string) {
	t.Helper()
	if out, err := u.try("", args...); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("kubectl %v by %s: %s%v", args, u.user, out, err)
	}
}

// asking is a StreamIngress.
func asking(name, class string, listen int) string {
	return fmt.Sprintf(`
apiVersion: nginx-stream.jeffthecoder.xyz/v1beta1
kind: StreamIngress
metadata: {name: %s}
spec: {className: %s, listen: %d, upstream: {service: web, port: 80}}
`, name, class, listen)
}

func TestTeamsOpenPorts(t *testing.T) {
	t.Cleanup(bePatient(t)) // else, on a busy machine, the answer may be that there was none in time
	e := newEdge(t, "ports")
	rival := newTeam(t, "rival", newNamespace(t, "rival"))
	shop := newTeam(t, "shop", e.namespace)
	if _, err := shop.try(asking("postgres", e.class, 5432), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	e.programmed(t)
	e.leadsTo(t, map[int]string{5432: e.namespace + "/web:80"})
	if out := shop.kubectl(t, "get", "sti", "postgres", "--no-headers"); !strings.Contains(out, " 5432 ") {
		t.Errorf("the team sees %s", out)
	}

	rival.told(t, "held by StreamIngress "+e.namespace+"/postgres", asking("db", e.class, 5432), "apply", "-f", "-")
	rival.mayNot(t, "get", "sti", "-n", e.namespace)
	rival.mayNot(t, "delete", "sti", "postgres", "-n", e.namespace)
	rival.mayNot(t, "get", "edgeclaims")
	rival.mayNot(t, "get", "streamingressclasses")
	kubectl(t, "create", "clusterrolebinding", e.class, "--clusterrole=portcullis-ledger-view", "--user="+rival.user)
	t.Cleanup(func() { kubectl(t, "delete", "clusterrolebinding", e.class) })
	eventually(t, "the ledger to be shown", func() error {
		out, err := rival.try("", "get", "edgeclaims", "stream."+e.class+".tcp.5432")
		if err == nil && !strings.Contains(out, "StreamIngress "+e.namespace+"/postgres") {
			err = errors.New(out)
		}
		return err
	})
	shop.mayNot(t, "delete", "edgeclaim", "stream."+e.class+".tcp.5432")
	shop.mayNot(t, "patch", "sti", "postgres", "--subresource=status", "--type=merge", "-p", `{"status":{"listen":1}}`)

	begin := time.Now()
	shop.kubectl(t, "delete", "sti", "postgres")
	eventually(t, "the port to be free", func() error {
		_, err := rival.try(asking("db", e.class, 5432), "apply", "-f", "-")
		return err
	})
	t.Logf("the port was free %s after its holder was deleted", time.Since(begin).Round(100*time.Millisecond))
	rival.kubectl(t, "delete", "sti", "db")
}

func TestTeamsAskForIngresses(t *testing.T) {
	t.Cleanup(bePatient(t)) // a Service passes that nobody has judged in time
	ns := newNamespace(t, "hosts")
	shop := newTeam(t, "shop", ns)
	host := ns + ".example.com"
	shop.kubectl(t, "create", "service", "clusterip", "web", "--tcp=80:8080")
	shop.kubectl(t, "annotate", "service", "web", "ingress/http=class=nginx, host="+host)
	eventually(t, "the Ingress", func() error {
		out, err := shop.try("", "get", "ingress", "web", "-o", "jsonpath={.spec.ingressClassName} {.spec.rules[0].host} {.spec.rules[0].http.paths[0].backend.service}")
		if want := "nginx " + host; err == nil && !strings.HasPrefix(out, want) {
			err = fmt.Errorf("it is %s", out)
		}
		return err
	})
	shop.kubectl(t, "create", "service", "clusterip", "other", "--tcp=80:8080")
	shop.told(t, "held by Service "+ns+"/web", "", "annotate", "service", "other", "ingress/http=class=nginx, host="+host)
	shop.kubectl(t, "annotate", "service", "web", "ingress/http-")
	eventually(t, "the Ingress to go", func() error {
		if out, err := shop.try("", "get", "ingress", "-o", "name"); err != nil || out != "" {
			return fmt.Errorf("there is %s: %w", out, err)
		}
		return nil
	})
}

func TestTeamsAskForAddresses(t *testing.T) {
	t.Cleanup(bePatient(t)) // a Service passes that nobody has judged in time
	lend(t, "e2e-teams", "addresses: [198.51.100.7, 198.51.100.8]")
	shop, rival := newTeam(t, "shop", newNamespace(t, "shop")), newTeam(t, "rival", newNamespace(t, "rival"))
	if _, err := shop.try(balancing("web", "address-pool: e2e-teams"), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	var address string
	eventually(t, "an address", func() (err error) {
		address, err = shop.try("", "get", "service", "web", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
		if err == nil && address == "" {
			err = errors.New("it has none")
		}
		return err
	})
	rival.told(t, "held by Service "+shop.namespace+"/web", balancing("db", "addresses: "+address), "apply", "-f", "-")
	shop.mayNot(t, "patch", "service", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"loadBalancer":{"ingress":[{"ip":"198.51.100.8"}]}}}`)
	shop.mayNot(t, "get", "addresspools")
	shop.mayNot(t, "delete", "addresspool", "e2e-teams")
	if out, err := shop.try(pool("e2e-mine", "addresses: [198.51.100.9]"), "create", "-f", "-"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("a pool made by %s: %s%v", shop.user, out, err)
	}

	shop.kubectl(t, "delete", "service", "web")
	eventually(t, "the address to be free", func() error {
		_, err := rival.try(balancing("db", "addresses: "+address), "apply", "-f", "-")
		return err
	})
}

// balancing is a Service of type LoadBalancer that asks for something by an annotation.
func balancing(name, asks string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %s, annotations: {nginx-stream.jeffthecoder.xyz/%s}}
spec:
  type: LoadBalancer
  loadBalancerClass: nginx-stream.jeffthecoder.xyz/portcullis
  allocateLoadBalancerNodePorts: false
  ports: [{name: http, port: 80}]
`, name, asks)
}

func TestTeamsSeeTheirPodToIPs(t *testing.T) {
	ns := newNamespace(t, "addresses", podToIPLabel+"=enabled")
	shop := newTeam(t, "shop", ns)
	shop.kubectl(t, "run", "web", "--image="+target.pause)
	eventually(t, "the PodToIP", func() error {
		address, err := shop.try("", "get", "ptp", "web", "-o", "jsonpath={.spec.podAddress}")
		if err != nil {
			return err
		}
		if want := shop.kubectl(t, "get", "pod", "web", "-o", "jsonpath={.status.podIP}"); address != want {
			return fmt.Errorf("it says %s, the Pod %s", address, want)
		}
		return nil
	})
	shop.mayNot(t, "delete", "ptp", "web")
	shop.mayNot(t, "get", "ptp", "-A")
}
