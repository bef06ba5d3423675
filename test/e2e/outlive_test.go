package e2e

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// crowd are the pools that many Services are served from, and how many by each.
var crowd = map[string]struct {
	spec     string
	services int
}{
	"e2e-crowd-a": {"addresses: [198.18.0.0/24]", 90},
	"e2e-crowd-b": {"addresses: [198.18.1.0/24]", 70},
	"e2e-crowd-c": {"addresses: [198.18.2.0/27], sharing: Ports", 40},
}

// member is a Service of the crowd. Those that share addresses have one of four ports.
func member(name, pool string, i int) string {
	port := 80
	if strings.Contains(crowd[pool].spec, "sharing") {
		port += i % 4
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %s, annotations: {nginx-stream.jeffthecoder.xyz/address-pool: %s}}
spec:
  type: LoadBalancer
  loadBalancerClass: nginx-stream.jeffthecoder.xyz/portcullis
  allocateLoadBalancerNodePorts: false
  ports: [{port: %d}]
---`, name, pool, port)
}

// door is the point at which a Service is served.
type door struct {
	Metadata struct{ Name string }
	Spec     struct{ Ports []struct{ Port int } }
	loadBalancer
}

// doorsOf waits until so many Services of a namespace are served, and returns where.
func doorsOf(t *testing.T, namespace string, services int) map[string]string {
	t.Helper()
	at := map[string]string{}
	eventually(t, fmt.Sprintf("%d Services to be served", services), func() error {
		clear(at)
		found, err := list[door]("services", "-n", namespace)
		for _, d := range found {
			if ips := d.addresses(); len(ips) == 1 {
				at[d.Metadata.Name] = fmt.Sprintf("%s:%d", ips[0], d.Spec.Ports[0].Port)
			}
		}
		if err == nil && len(at) != services {
			err = fmt.Errorf("%d are", len(at))
		}
		return err
	})
	return at
}

// TestAddressesOutliveAnInstallation takes Portcullis away with all that it keeps, and installs it again, under 200 Services that were made
// from three pools in random order. Each stays where it is, whichever pool comes back first, and who is new is elsewhere.
func TestAddressesOutliveAnInstallation(t *testing.T) {
	needs(t, target.overlay != "", "what was deployed by somebody else stays")
	var members []string
	for pool, c := range crowd {
		lend(t, pool, c.spec)
		for i := range c.services {
			members = append(members, member(fmt.Sprintf("%s-%d", pool, i), pool, i))
		}
	}
	ns := newNamespace(t, "crowd")
	rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	admitted := func(manifests ...string) {
		t.Helper()
		eventually(t, "Services to be admitted", func() error { // a replica may learn of a pool a moment later
			_, err := tryKubectl(strings.Join(manifests, ""), "apply", "-n", ns, "-f", "-")
			return err
		})
	}
	admitted(members...)
	before := doorsOf(t, ns, len(members))
	for i := range 12 { // so that what is free lies between what is not
		kubectl(t, "delete", "service", "-n", ns, fmt.Sprintf("e2e-crowd-a-%d", 7*i), "--wait=false")
		delete(before, fmt.Sprintf("e2e-crowd-a-%d", 7*i))
	}

	t.Cleanup(func() { // if the test ends in between
		if err := deploy(target.overlay); err != nil {
			t.Fatal(err)
		}
	})
	if err := errors.Join(undeploy(target.overlay), deploy(target.overlay)); err != nil {
		t.Fatal(err)
	}
	began, late := time.Now(), 0
	pools := slices.Collect(maps.Keys(crowd)) // in any order
	for _, name := range pools {
		apply(t, "default", pool(name, crowd[name].spec))
		for range 5 {
			admitted(member(fmt.Sprintf("late-%d", late), name, 0))
			late++
		}
	}
	after := doorsOf(t, ns, len(before)+late)
	for name, at := range before {
		if after[name] != at {
			t.Errorf("%s was served at %s, and is at %s", name, at, after[name])
		}
	}
	served := map[string]string{}
	for name, at := range after {
		if other := served[at]; other != "" {
			t.Errorf("%s and %s are both served at %s", name, other, at)
		}
		served[at] = name
	}
	eventually(t, "all to be in the ledger", func() error {
		claims, err := tryKubectl("", "get", "edgeclaims", "--field-selector=spec.holder.namespace="+ns, "-o", "name")
		if n := strings.Count(claims, "\n"); err == nil && n != len(after) {
			err = fmt.Errorf("%d claims for %d Services", n, len(after))
		}
		return err
	})
	t.Logf("%d Services are where they were, and %d new ones elsewhere, %v after the first pool came back", len(before), late, time.Since(began).Round(time.Second))
}
