package integration

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestNoAddressTwice is the promise of the pools: of many Services that want the same, one at a time has it, whichever
// replica answers or leads, and none of it is ever lost.
func TestNoAddressTwice(t *testing.T) {
	t.Parallel()
	h := start(t, raceOptions())
	history := addressHistory(t, h)
	for _, race := range []struct {
		name string
		run  func(*poolFixture)
	}{
		{"the last addresses", raceForTheLast},
		{"one address", raceForOne},
		{"ports of shared addresses", raceForSharedPorts},
		{"ports of the nodes", raceForNodePorts},
		{"past admission", raceUnguarded},
		{"while the sharing changes", raceForAllOrAPort},
		{"by Services that move all the time", raceOfMovers},
	} {
		t.Run(race.name, func(t *testing.T) {
			l := &poolFixture{fixture: newFixture(t, h), history: history}
			race.run(l)
			history.mustHold(l.fixture)
			l.clear()
		})
	}
}

// clear deletes all Services that have addresses or wait for some, and all pools.
func (l *poolFixture) clear() {
	l.t.Helper()
	list := &corev1.ServiceList{}
	if err := l.Client.List(l.t.Context(), list); err != nil {
		l.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.Type == corev1.ServiceTypeLoadBalancer {
			l.delete(&list.Items[i])
		}
	}
	l.lends(0)
	l.eventually("the pools to go", func() error { // a replica may not know yet that nobody has anything of them
		return l.Client.DeleteAllOf(l.t.Context(), &v1beta1.AddressPool{})
	})
}

// changeLeader kills the leader, and starts another replica in its place.
func (l *poolFixture) changeLeader() {
	l.t.Helper()
	var alive []*harness.Replica
	for _, r := range l.Replicas {
		if !hasEnded(r) {
			alive = append(alive, r)
		}
	}
	must(l.fixture, leader(l.fixture, alive...).Kill())
	_, err := l.StartReplica(l.t.Context())
	must(l.fixture, err)
}

// raceForTheLast lets a hundred Services want one of ten addresses. The leader dies while they are created, and again
// while half of those that were served go.
func raceForTheLast(l *poolFixture) {
	const services, addresses = 100, 10
	l.lendable(lending("last", "192.0.2.1-192.0.2.10"))
	users := l.creators("last", 20)
	for round := range 3 {
		var group sync.WaitGroup
		for i, c := range users {
			group.Go(func() {
				for n := i; n < services; n += len(users) {
					if err := c.Create(l.t.Context(), borrower(fmt.Sprintf("%s/round-%d-%d", c.namespace, round, n))); err != nil {
						l.t.Errorf("creating a Service: %v", err)
					}
				}
			})
		}
		if round > 0 {
			time.Sleep(rand.N(300 * time.Millisecond))
			l.changeLeader()
		}
		group.Wait()
		has := l.lends(addresses)
		for _, key := range slices.Collect(maps.Keys(has))[:addresses/2] {
			l.delete(borrower(key.String()))
		}
		if round == 1 {
			l.changeLeader()
		}
		l.eventually("those who waited to have what was given back", func() error {
			return is(len(l.borrowed()), addresses)
		})
		l.lends(addresses)
		for _, c := range users {
			must(l.fixture, c.DeleteAllOf(l.t.Context(), &corev1.Service{}, client.InNamespace(c.namespace)))
		}
	}
	l.lends(0)
}

// raceForOne lets twenty users ask for the same address, again and again, with other leaders in between. Who asks for
// something is told at once.
func raceForOne(l *poolFixture) {
	const rounds = 60
	l.lendable(lending("one", "198.51.100.0/24"))
	users := l.creators("one", 20)
	var y tally
	for round := range rounds {
		if round%(rounds/3) == rounds/6 {
			l.changeLeader()
		}
		address := fmt.Sprintf("198.51.100.%d", round)
		y.mustBeOne(l.fixture, round, all(users, func(_ int, c *creator) error {
			return c.Create(l.t.Context(), borrower(fmt.Sprintf("%s/round-%d", c.namespace, round), wants(address)))
		}))
	}
	y.report(l.fixture, false)
	has := l.lends(rounds)
	for key, address := range has {
		var round int
		if _, err := fmt.Sscanf(key.Name, "round-%d", &round); err != nil || address != fmt.Sprintf("198.51.100.%d", round) {
			l.t.Errorf("%s has %s", key, address)
		}
	}
}

// raceForSharedPorts lets three Services want each of 40 ports of two addresses: two of them can have it.
func raceForSharedPorts(l *poolFixture) {
	const points = 40
	l.lendable(lending("shared", "203.0.113.1-203.0.113.2", sharesPorts))
	users := l.creators("shared", 12)
	var group sync.WaitGroup
	for i, c := range users {
		group.Go(func() {
			for n := i; n < 3*points; n += len(users) {
				p := port("p", int32(1000+n%points/2))
				if n%2 == 1 {
					p.Protocol = corev1.ProtocolUDP
				}
				if err := c.Create(l.t.Context(), borrower(fmt.Sprintf("%s/share-%d", c.namespace, n), ports(p))); err != nil {
					l.t.Errorf("creating a Service: %v", err)
				}
			}
		})
	}
	group.Wait()
	l.lends(2 * points)
	l.changeLeader()
	l.lends(2 * points)
}

// raceForNodePorts lets sixteen users ask for the same port of the nodes, again and again.
func raceForNodePorts(l *poolFixture) {
	const rounds = 40
	nodes := []*corev1.Node{l.readyNode("race-0", "10.0.0.10"), l.readyNode("race-1", "10.0.0.11")}
	l.lendable(lending("nodes", ""))
	users := l.creators("nodes", 16)
	var y tally
	for round := range rounds {
		if round == rounds/2 {
			l.changeLeader()
		}
		y.mustBeOne(l.fixture, round, all(users, func(_ int, c *creator) error {
			return c.Create(l.t.Context(), borrower(fmt.Sprintf("%s/round-%d", c.namespace, round), ports(port("p", int32(8000+round)))))
		}))
	}
	y.report(l.fixture, false)
	for key, addresses := range l.lends(rounds) {
		if addresses != "10.0.0.10,10.0.0.11" {
			l.t.Errorf("%s has %s", key, addresses)
		}
	}
	for _, n := range nodes {
		l.delete(n)
	}
}

// raceUnguarded stores Services past admission that want the same address. Whoever has it keeps it; when it goes, another
// one gets it.
func raceUnguarded(l *poolFixture) {
	const rivals, address = 60, "192.0.2.1"
	l.lendable(lending("past", "192.0.2.1-192.0.2.20"))
	users := l.creators("past", 12)
	guard := l.unguard()
	got := all(users, func(i int, c *creator) error {
		for n := i; n < rivals; n += len(users) {
			if err := c.insist(l.t.Context(), borrower(fmt.Sprintf("%s/past-%d", c.namespace, n), wants(address))); err != nil {
				return err
			}
		}
		return nil
	})
	guard()
	if len(got.yes) != len(users) {
		l.t.Fatalf("creating Services: %v", got.unclear)
	}
	l.guarded()
	holder := func() (found types.NamespacedName) {
		for key, has := range l.borrowed() {
			if has == address {
				found = key
			}
		}
		return found
	}
	l.lends(1)
	had := holder()
	for range 3 {
		l.delete(borrower(had.String()))
		l.eventually("another one to have the address", func() error { return is(holder() != had && holder().Name != "", true) })
		l.lends(1)
		l.t.Logf("%s had the address, and %s has it", had, holder())
		had = holder()
	}
}

// raceForAllOrAPort lets users ask for the same address, again and again, while its pool is made anew: it gave the whole
// address, and gives single ports of it from then on, or the other way round. Whatever a replica takes for the truth at that
// moment, nobody may have a port of an address that is somebody's whole.
func raceForAllOrAPort(l *poolFixture) {
	const rounds, address = 40, "192.0.2.1"
	users := l.creators("forms", 12)
	forms := []*v1beta1.AddressPool{lending("forms", address), lending("forms", address, sharesPorts)}
	l.lendable(forms[0].DeepCopy())
	yes, changes := 0, 0
	for round := range rounds {
		var change sync.WaitGroup
		change.Go(func() {
			if l.Client.Delete(l.t.Context(), forms[changes%2].DeepCopy()) == nil { // else somebody was faster, and has something of it
				changes++
				if err := l.try(forms[changes%2].DeepCopy()); err != nil {
					l.t.Errorf("making the pool anew: %v", err)
				}
			}
		})
		ended := time.Now().Add(250 * time.Millisecond)
		got := all(users, func(i int, c *creator) (err error) {
			for n := 0; time.Now().Before(ended); n++ {
				svc := borrower(fmt.Sprintf("%s/form-%d-%d", c.namespace, round, n), wants(address), ports(port("p", int32(1000+i))))
				if err = c.Create(l.t.Context(), svc); err == nil {
					return nil
				}
			}
			return err
		})
		change.Wait()
		time.Sleep(200 * time.Millisecond) // for the statuses of those who were told yes
		yes += len(got.yes)
		for _, c := range users {
			must(l.fixture, c.DeleteAllOf(l.t.Context(), &corev1.Service{}, client.InNamespace(c.namespace)))
		}
		l.eventually("all of the address to be given back", func() error { return l.leftovers(nil) })
	}
	l.t.Logf("%d users were told yes in %d rounds, while the pool was made anew %d times", yes, rounds, changes)
	if changes == 0 { // how often it can be depends on who is faster
		l.t.Error("the pool was never made anew, so that nothing was tested")
	}
}
