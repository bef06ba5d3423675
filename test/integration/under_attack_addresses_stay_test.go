package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// poolsRest is how long nothing is written when all is done: longer than the status of a pool is held back.
const poolsRest = 5 * time.Second

// TestAddressesStay lets nothing that happens to Portcullis move an address: not a rolling update, not the death of a
// leader or of all replicas, and not a status that somebody has erased.
func TestAddressesStay(t *testing.T) {
	t.Parallel()
	o := raceOptions()
	o.ControlPlane.Audit = true
	h := start(t, o)
	l := &poolFixture{fixture: newFixture(t, h), history: addressHistory(t, h)}
	want := l.settled()

	quiet := func(what string, disturb func()) {
		l.counted(want)
		l.settles(poolsRest)
		before := len(l.writes())
		disturb()
		l.counted(want)
		l.settles(poolsRest)
		l.isExactly(want)
		for _, w := range l.writes()[before:] {
			t.Errorf("%s: %s %s %s/%s", what, w.Verb, w.Resource, w.Namespace, w.Name)
		}
	}
	quiet("rolling update", func() {
		for _, r := range h.Replicas {
			_, err := h.StartReplica(t.Context())
			must(l.fixture, err)
			must(l.fixture, r.Retire(t.Context()))
		}
		leader(l.fixture, h.Replicas[len(h.Replicas)-2:]...)
	})
	quiet("the leader dies", l.changeLeader)
	quiet("all replicas die", func() {
		for _, r := range h.Replicas {
			must(l.fixture, r.Kill())
		}
		for range 2 {
			_, err := h.StartReplica(t.Context())
			must(l.fixture, err)
		}
		leader(l.fixture, h.Replicas[len(h.Replicas)-2:]...)
	})
	l.neverMoved()

	erase := func() {
		for key := range want {
			svc := borrower(key.String())
			must(l.fixture, l.Client.Status().Patch(t.Context(), svc, client.RawPatch(types.MergePatchType, []byte(`{"status":{"loadBalancer":null}}`))))
		}
	}
	erase()
	l.isExactly(want)
	for _, r := range h.Replicas {
		must(l.fixture, r.Kill())
	}
	erase()
	_, err := h.StartReplica(t.Context())
	must(l.fixture, err)
	l.isExactly(want)
	l.neverMoved()
	l.history.mustHold(l.fixture)
}

// settled makes Services of every kind, and returns what they have.
func (l *poolFixture) settled() map[types.NamespacedName]string {
	l.t.Helper()
	l.readyNode("stay-0", "10.0.0.10")
	l.readyNode("stay-1", "10.0.0.11")
	l.lendable(
		lending("plain", "192.0.2.0/24,2001:db8::/64"), lending("shared", "203.0.113.1-203.0.113.4", sharesPorts, onRequest),
		lending("nodes", "", onRequest), source("own", v1beta1.SourceClusterIP, forAll, onRequest),
	)
	l.create(namespace("stay"))
	var all []client.Object
	add := func(kind string, n int, options ...balancerOption) {
		for i := range n {
			all = append(all, borrower(fmt.Sprintf("stay/%s-%d", kind, i), append(options, func(svc *corev1.Service) {
				if kind == "nodes" || kind == "shared" {
					svc.Spec.Ports = []corev1.ServicePort{port("a", int32(8000+i)), port("b", int32(8000+i), UDP)}
				}
			})...))
		}
	}
	add("any", 20)
	add("dual", 5, func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) })
	add("six", 5, func(svc *corev1.Service) { svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} })
	add("shared", 10, inPool("shared"))
	add("nodes", 5, inPool("nodes"))
	add("own", 5, inPool("own"))
	all = append(all, borrower("stay/asked", wants("192.0.2.200")))
	l.create(all...)
	has := l.lends(len(all))
	for key, want := range map[string]string{"asked": "192.0.2.200", "nodes-0": "10.0.0.10,10.0.0.11"} {
		if got := has[types.NamespacedName{Namespace: "stay", Name: key}]; got != want {
			l.t.Errorf("%s has %s, want %s", key, got, want)
		}
	}
	for key, got := range has {
		if strings.HasPrefix(key.Name, "dual") != (strings.HasPrefix(got, "192.0.2.") && strings.Contains(got, ",2001:db8::")) {
			l.t.Errorf("%s has %s", key, got)
		}
	}
	return has
}

// counted waits until the pools count the addresses that Services have. While this machine stands still nothing is written
// either, and what is held back comes later.
func (l *poolFixture) counted(has map[types.NamespacedName]string) {
	l.t.Helper()
	distinct := map[string]bool{}
	for _, addresses := range has {
		for address := range strings.SplitSeq(addresses, ",") {
			distinct[address] = true
		}
	}
	for name, prefixes := range map[string][]string{"plain": {"192.0.2.", "2001:db8::"}, "shared": {"203.0.113."}} {
		var n int64
		for address := range distinct {
			if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(address, prefix) }) {
				n++
			}
		}
		pool := addressPool(name, nil)
		l.eventually(fmt.Sprintf("pool %s to count %d addresses", name, n), func() error {
			if err := l.Client.Get(l.t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
				return err
			}
			if pool.Status.Assigned == nil {
				return errors.New("it counts none")
			}
			return is(*pool.Status.Assigned, n)
		})
	}
}

// TestAddressesOfTheKilled kills the manager at random moments while Services come and go.
func TestAddressesOfTheKilled(t *testing.T) {
	t.Parallel()
	const services = 600
	o := raceOptions()
	o.Replicas, o.Flags = 1, append(o.Flags, "--leader-elect=false")
	h := start(t, o)
	l := &poolFixture{fixture: newFixture(t, h), history: addressHistory(t, h)}
	l.lendable(lending("killed", "10.0.0.0/8"))
	users := l.creators("killed", 8)
	var created atomic.Int64
	stop := killing(l.fixture, &created)
	var group sync.WaitGroup
	for i, c := range users {
		group.Go(func() {
			for n := i; n < services; n += len(users) {
				svc := borrower(fmt.Sprintf("%s/killed-%d", c.namespace, n))
				if n%5 == 1 {
					wants(fmt.Sprintf("10.1.%d.%d", n/250, n%250))(svc)
				}
				if err := c.Create(t.Context(), svc); err != nil {
					t.Errorf("creating a Service: %v", err)
				} else {
					created.Add(1)
				}
				if n%3 == 2 {
					time.Sleep(20 * time.Millisecond)
					if err := c.Delete(t.Context(), svc); err != nil {
						t.Errorf("deleting a Service: %v", err)
					}
				}
			}
		})
	}
	group.Wait()
	kills := stop()
	has := l.lends(services - services/3)
	for key, address := range has {
		var n int
		if _, err := fmt.Sscanf(key.Name, "killed-%d", &n); err != nil || n%5 == 1 && address != fmt.Sprintf("10.1.%d.%d", n/250, n%250) {
			t.Errorf("%s has %s", key, address)
		}
	}
	t.Logf("%d Services have their addresses after %d kills", len(has), kills)
	l.neverMoved()
	l.history.mustHold(l.fixture)
}

// TestManyAddresses gives a crowd of Services addresses of a pool with millions, and counts what Portcullis writes.
func TestManyAddresses(t *testing.T) {
	t.Parallel()
	const services, clients = 2000, 32
	h := start(t, harness.Options{Replicas: 2, ControlPlane: controlplane.Options{Audit: true}})
	l := &poolFixture{fixture: newFixture(t, h), history: addressHistory(t, h)}
	l.lendable(lending("many", "10.0.0.0/8"))
	users := l.creators("many", clients)
	l.settles(poolsRest)
	before := len(l.writes())
	began := time.Now()
	got := all(users, func(i int, c *creator) error {
		for n := i; n < services; n += clients {
			if err := c.insist(t.Context(), borrower(fmt.Sprintf("%s/many-%d", c.namespace, n))); err != nil {
				return err
			}
		}
		return nil
	})
	created := time.Since(began)
	if len(got.yes) != clients {
		t.Fatalf("creating Services: %d were refused; %v", got.no, errors.Join(got.unclear...))
	}
	l.lends(services)
	t.Logf("%d Services created in %v, all have addresses after %v", services, created.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	l.settles(poolsRest)
	counts := map[string]int{}
	for _, w := range l.writes()[before:] {
		resource, subresource, _ := strings.Cut(w.Resource, "/")
		counts[fmt.Sprintf("%s/%s %s %d", resource, subresource, w.Verb, w.Code/100*100)]++
		if w.Code < 400 {
			counts["all"]++
		}
	}
	t.Logf("writes: %v", counts)
	if perService := float64(counts["all"]) / services; perService > 2.5 {
		t.Errorf("%.2f writes for a Service, want 2.5 at most", perService)
	}
	l.neverMoved()
	l.history.mustHold(l.fixture)
}
