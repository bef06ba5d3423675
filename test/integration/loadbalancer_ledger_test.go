package integration

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// ledgerless is a Portcullis that loses its ledger.
type ledgerless struct {
	*fixture
	// whole gives whole addresses, shared ports of them, nodes ports of the nodes; going is deleted.
	whole, shared, nodes, going *v1beta1.AddressPool
	// services are served by each, by the name of the pool.
	services map[string][]*corev1.Service
}

// fromPools are how many Services each pool serves.
type fromPools struct{ whole, shared, nodes, going int }

// serving starts a Portcullis that serves Services from each of its pools, which are created in no order. One of eight goes again, so that
// what is free lies between what is not.
func serving(t *testing.T, n fromPools) *ledgerless {
	t.Helper()
	l := &ledgerless{
		fixture: newFixture(t, start(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}})),
		whole:   addressPool("whole", []string{"192.0.2.0/24"}), shared: addressPool("shared", []string{"198.51.100.0/29"}, sharesPorts),
		nodes: source("nodes", v1beta1.SourceNodeIP), going: addressPool("going", []string{"203.0.113.0/28"}),
		services: map[string][]*corev1.Service{},
	}
	l.create(namespace("ledger"), l.whole, l.shared, l.nodes, l.going)
	l.node("a", "198.51.100.129")
	l.node("b", "198.51.100.130")
	var all []*corev1.Service
	for pool, n := range map[*v1beta1.AddressPool]int{l.whole: n.whole, l.shared: n.shared, l.nodes: n.nodes, l.going: n.going} {
		for i := range n {
			number := int32(80)
			if pool == l.shared || pool == l.nodes {
				number += int32(i % 7)
			}
			all = append(all, balancer(fmt.Sprintf("ledger/%s-%d", pool.Name, i), from(pool.Name), ports(port("", number))))
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, svc := range all {
		l.admitted(svc)
	}
	l.eventually("all to be served", func() error {
		var errs []error
		for _, svc := range all {
			want := 1
			if svc.Labels["pool"] == l.nodes.Name {
				want = 2 // also the node that comes late: the status is to be what it is when the ledger is lost
			}
			errs = append(errs, l.Client.Get(t.Context(), client.ObjectKeyFromObject(svc), svc), is(len(loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)), want))
		}
		return errors.Join(errs...)
	})
	for i, svc := range all {
		if i%8 == 0 {
			l.delete(svc)
		} else {
			pool := svc.Labels["pool"]
			l.services[pool] = append(l.services[pool], svc)
		}
	}
	for _, services := range l.services {
		slices.SortFunc(services, func(a, b *corev1.Service) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
		})
	}
	return l
}

// end ends all replicas.
func (l *ledgerless) end() {
	l.t.Helper()
	for _, r := range l.Replicas {
		must(l.fixture, r.Terminate())
	}
}

// lose ends all replicas, and takes all claims on addresses and on the nodes.
func (l *ledgerless) lose() {
	l.t.Helper()
	l.end()
	var claims v1beta1.EdgeClaimList
	must(l.fixture, l.Client.List(l.t.Context(), &claims))
	for i := range claims.Items {
		if at, err := claim.Of(&claims.Items[i]); err == nil && (at.IsAddress() || at.IsNode()) {
			l.delete(&claims.Items[i])
		}
	}
}

// entered waits until a Service holds what its status lists, and fails the test if that was written.
func (l *ledgerless) entered(svc *corev1.Service) {
	l.t.Helper()
	listed := loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)
	points := []claim.Coordinate{claim.Address(listed[0])}
	switch svc.Labels["pool"] {
	case l.shared.Name:
		points = loadbalancer.ExternalPoints(svc, listed[0])
	case l.nodes.Name:
		points = []claim.Coordinate{claim.NodePort("TCP", svc.Spec.Ports[0].Port)}
	}
	for _, at := range points {
		l.pointHeldBy(at.Name(), "Service ledger/"+svc.Name)
	}
	l.untouched(svc)
}

// untouched fails the test if a Service was written.
func (l *ledgerless) untouched(svc *corev1.Service) {
	l.t.Helper()
	now := svc.DeepCopy()
	l.get(now)
	if now.ResourceVersion != svc.ResourceVersion {
		l.t.Errorf("%s was served at %q, and is at %q, or was elsewhere meanwhile", svc.Name, statusOf(svc), statusOf(now))
	}
}

// addressOf is the first address of a Service.
func addressOf(svc *corev1.Service) string { return svc.Status.LoadBalancer.Ingress[0].IP }

// TestAddressesOutliveTheLedger takes the ledger away, and a pool, while no replica runs. When they run again, each Service stays where it is,
// and nobody else comes there: neither who was created meanwhile, nor who asks for it.
func TestAddressesOutliveTheLedger(t *testing.T) {
	t.Parallel()
	l := serving(t, fromPools{whole: 20, shared: 14, nodes: 2, going: 6})
	guard := l.unguard()
	l.lose()
	l.delete(l.going)
	elder, younger := l.services["whole"][0], l.services["whole"][1]
	staying := slices.Concat(l.services["whole"][:1], l.services["whole"][2:], l.services["shared"], l.services["nodes"])
	gone := l.services["going"]
	l.get(younger)
	l.gives(younger, addressOf(elder))
	asks, asksGone := balancer("ledger/asks", from("whole"), wants(addressOf(elder))), balancer("ledger/asks-gone", from("going"), wants(addressOf(gone[0])))
	fresh := []*corev1.Service{
		balancer("ledger/fresh-0", from("whole")), balancer("ledger/fresh-1", from("whole")), balancer("ledger/fresh-2", from("shared"), ports(port("a", 80), port("b", 81))),
	}
	l.create(asks, asksGone)
	for _, svc := range fresh {
		l.create(svc)
	}
	guard()
	l.restart(2)

	t.Log("each stays where it is, and is in the ledger")
	for _, svc := range staying {
		l.entered(svc)
	}
	for _, svc := range gone {
		l.hasEvent(svc, "Warning AddressNotInPool no AddressPool gives it "+addressOf(svc), "to have another address, ask for it")
		l.untouched(svc)
	}
	t.Log("of two at one address the older one stays")
	l.hasEvent(younger, "Warning AddressLost "+addressOf(elder)+" ", "Service ledger/"+elder.Name, "now it has ")
	taken := map[string]string{}
	for _, svc := range slices.Concat(staying, gone) {
		if svc.Labels["pool"] != "nodes" {
			taken[addressOf(svc)] += svc.Name + fmt.Sprint(" ", svc.Spec.Ports[0].Port) + " "
		}
	}
	t.Log("who comes late is elsewhere")
	for _, svc := range append(fresh, younger) {
		l.eventually(svc.Name+" to be served elsewhere", func() error {
			l.get(svc)
			if len(svc.Status.LoadBalancer.Ingress) == 0 {
				return errors.New("it is not served")
			}
			return is(svc.Name == younger.Name && addressOf(svc) == addressOf(elder), false)
		})
		others := taken[addressOf(svc)]
		if svc.Labels["pool"] == "whole" && others != "" || strings.Contains(others, " 80 ") || svc.Name == "fresh-2" && strings.Contains(others, " 81 ") {
			t.Errorf("%s is served at %s, which was that of %s", svc.Name, addressOf(svc), others)
		}
	}
	l.hasEvent(asks, "Warning AddressConflict", "held by Service ledger/"+elder.Name)
	l.hasEvent(asksGone, "Warning AddressNotInPool")
	l.balances(asks, "")
	l.balances(asksGone, "")

	l.othersKeepOff(gone)
	t.Log("the pool is back: what is listed is claimed, and told")
	l.going.ResourceVersion, l.going.UID = "", ""
	l.eventually("the pool to be made again", func() error { return l.try(l.going) })
	for _, svc := range gone {
		l.entered(svc)
		l.hasEvent(svc, "Normal AddressAssigned it is served at "+addressOf(svc))
	}
	l.balances(asksGone, "")
	for _, svc := range staying {
		l.untouched(svc)
	}
}

// restart starts replicas at once.
func (l *ledgerless) restart(replicas int) {
	l.t.Helper()
	var started []*harness.Replica
	for range replicas {
		r, err := l.SpawnReplica()
		must(l.fixture, err)
		started = append(started, r)
	}
	for _, r := range started {
		must(l.fixture, r.AwaitReady(l.t.Context()))
	}
}

// othersKeepOff has a pool give the addresses that Services list, and no pool gives them, to others: these get none of them.
func (l *ledgerless) othersKeepOff(gone []*corev1.Service) {
	l.t.Helper()
	theirs := addressPool("theirs", l.going.Spec.Addresses)
	l.eventually("the pool of others to be made", func() error { return l.try(theirs) })
	_ = l.refusedSaying(balancer("ledger/theirs-asking", from("theirs"), wants(addressOf(gone[0]))), "held by Service ledger/"+gone[0].Name)
	var drawn []*corev1.Service
	for i := range 16 - len(gone) {
		svc := balancer(fmt.Sprintf("ledger/theirs-%d", i), from("theirs"))
		l.admitted(svc)
		drawn = append(drawn, svc)
	}
	last := balancer("ledger/theirs-last", from("theirs"))
	l.create(last)
	for _, svc := range drawn {
		l.eventually(svc.Name+" to be served", func() error {
			l.get(svc)
			return is(len(svc.Status.LoadBalancer.Ingress), 1)
		})
		if slices.ContainsFunc(gone, func(other *corev1.Service) bool { return addressOf(other) == addressOf(svc) }) {
			l.t.Errorf("%s is served at %s, where another is", svc.Name, addressOf(svc))
		}
	}
	l.hasEvent(last, "Warning NoFreeAddress")
	l.delete(last)
	for _, svc := range drawn {
		l.delete(svc)
		l.pointHeldBy("addr."+strings.ReplaceAll(addressOf(svc), ".", "-"), "")
	}
	l.eventually("the pool of others to be deleted", func() error { return client.IgnoreNotFound(l.Client.Delete(l.t.Context(), theirs)) })
	for _, svc := range gone {
		l.untouched(svc)
	}
}
