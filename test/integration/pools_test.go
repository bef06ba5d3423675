package integration

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// Every test that makes pools has networks of its own: no two pools of one cluster may overlap.

// poolOption changes a pool that is being built.
type poolOption func(*v1beta1.AddressPool)

// addressPool is a pool of addresses that serves only Services labeled with its name, so that tests beside each other do not
// draw from it.
func addressPool(name string, addresses []string, options ...poolOption) *v1beta1.AddressPool {
	p := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Addresses = addresses
	p.Spec.ServiceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}}
	for _, option := range options {
		option(p)
	}
	return p
}

// holding makes a Service that is labeled for a pool, and its claim on an address, as if it had been given that.
func (w *fixture) holding(key, pool, address string) *corev1.Service {
	w.t.Helper()
	svc := service(key, port("http", 80))
	svc.Labels = map[string]string{"pool": pool}
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	svc.Annotations = map[string]string{v1beta1.AnnotationAddresses: address}
	w.admitted(svc) // the pool may have been made a moment ago
	holder := claim.Claimant{
		Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID,
		Generation: claim.Version(svc.ResourceVersion),
	}
	if err := w.try(claim.New(claim.Address(netip.MustParseAddr(address)), holder)); client.IgnoreAlreadyExists(err) != nil {
		w.t.Fatal(err)
	}
	return svc
}

// poolHas waits until a pool's condition is as wanted. The pool is read anew.
func (w *fixture) poolHas(p *v1beta1.AddressPool, want string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("pool %s to be %s", p.Name, want), func() error {
		if err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("status is of generation %d, want %d", p.Status.ObservedGeneration, p.Generation)
		}
		return is(condition(p.Status.Conditions, v1beta1.ConditionAccepted), want)
	})
}

// counts waits until a pool counts its addresses as "assigned of total, free".
func (w *fixture) counts(p *v1beta1.AddressPool, want string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("pool %s to count %s", p.Name, want), func() error {
		if err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		s := p.Status
		if s.Total == nil || s.Assigned == nil || s.Free == nil {
			return is("nothing", want)
		}
		return is(fmt.Sprintf("%d of %d, %d", *s.Assigned, *s.Total, *s.Free), want)
	})
}

func TestPoolRefusals(t *testing.T) {
	w := shared(t)
	first := addressPool("refusals", []string{"198.51.100.0/28", "2001:db8:1::/64"})
	w.create(first)
	for name, test := range map[string]struct {
		addresses []string
		want      []string
	}{
		"what is no address": {[]string{"198.51.100.256"}, []string{`spec.addresses[0]: Invalid value: "198.51.100.256": is not an IP address: write a CIDR`}},
		"a range backwards":  {[]string{"198.51.100.200-198.51.100.100"}, []string{"the range ends before it begins: write 198.51.100.100-198.51.100.200"}},
		"host bits":          {[]string{"198.51.100.77/28"}, []string{"198.51.100.77 is in the midst of its network: write 198.51.100.64/28 for all of that"}},
		"loopback":           {[]string{"127.0.0.1"}, []string{"127.0.0.1 is loopback"}},
		"itself twice":       {[]string{"198.51.100.64/28", "198.51.100.70"}, []string{`spec.addresses[1]: Duplicate value: "198.51.100.70"`, "is in spec.addresses[0] (198.51.100.64/28), too"}},
		"another pool": {[]string{"198.51.100.64", "198.51.100.8-198.51.100.20"}, []string{
			`spec.addresses[1]: Duplicate value: "198.51.100.8-198.51.100.15": AddressPool refusals has these addresses already`}},
		"another pool, IPv6": {[]string{"2001:db8::/32"}, []string{"AddressPool refusals has these addresses already"}},
		"everything at once": {[]string{"all", "198.51.100.3"}, []string{"spec.addresses[0]: Invalid value", "spec.addresses[1]: Duplicate value"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := w.refusal(w.try(addressPool("refusals-2", test.addresses)))
			mustContain(t, err.Error(), test.want...)
		})
	}

	t.Log("what is apart is no conflict, and one that was made a moment ago is seen by every replica")
	for i := range 20 {
		second := addressPool("refusals-2", []string{"198.51.100.16/28"})
		w.create(second)
		mustContain(t, w.refusal(w.try(addressPool(fmt.Sprint("refusals-3-", i), []string{"198.51.100.31"}))).Error(), "AddressPool refusals-2 has")
		mustContain(t, w.refusal(tryEdit(w, first, func(p *v1beta1.AddressPool) {
			p.Spec.Addresses = []string{"198.51.100.0/27", "2001:db8:1::/64"}
		})).Error(), `spec.addresses[0]: Duplicate value: "198.51.100.16-198.51.100.31": AddressPool refusals-2 has`)
		w.delete(second)
		edit(w, first, func(p *v1beta1.AddressPool) { p.Spec.Addresses = []string{"198.51.100.0/27", "2001:db8:1::/64"} })
		edit(w, first, func(p *v1beta1.AddressPool) { p.Spec.Addresses = []string{"198.51.100.0/28", "2001:db8:1::/64"} })
	}
	w.delete(first)
}

func TestPoolInUse(t *testing.T) {
	w := shared(t)
	pool := addressPool("in-use", []string{"198.51.101.0/28"})
	w.create(namespace("in-use"), pool)
	first := w.holding("in-use/a", "in-use", "198.51.101.1")
	others := []*corev1.Service{
		w.holding("in-use/b", "in-use", "198.51.101.2"), w.holding("in-use/c", "in-use", "198.51.101.3"), w.holding("in-use/d", "in-use", "198.51.101.4"),
	}
	const all = "4 Service(s) would lose their address, among them in-use/a (198.51.101.1), in-use/b (198.51.101.2), in-use/c (198.51.101.3): move or delete them first"
	refused := func(field, text string, attempt func() error) {
		t.Helper()
		w.eventually("every replica to know of the claims", func() error {
			err := attempt()
			if found := causes(err); len(found) > 0 {
				return is(found[0].Field+": "+found[0].Message, field+": Forbidden: "+text)
			}
			return fmt.Errorf("want a refusal, got: %w", err) // or it passes, or its status was written meanwhile
		})
	}
	dry := func(change func(*v1beta1.AddressPool)) func() error {
		return func() error {
			w.get(pool)
			changed := pool.DeepCopy()
			change(changed)
			return w.Client.Update(t.Context(), changed, client.DryRunAll)
		}
	}
	remove := func() error { return w.Client.Delete(t.Context(), pool.DeepCopy(), client.DryRunAll) }
	for range 4 { // through either replica
		refused("spec.addresses", all, dry(func(p *v1beta1.AddressPool) { p.Spec.Addresses = []string{"198.51.101.8/29"} }))
		refused("spec.addresses", "1 Service(s) would lose their address, in-use/d (198.51.101.4): move or delete them first",
			dry(func(p *v1beta1.AddressPool) { p.Spec.Addresses = []string{"198.51.101.0/30"} }))
		refused("spec.serviceSelector", all, dry(func(p *v1beta1.AddressPool) { p.Spec.ServiceSelector.MatchLabels["pool"] = "another" }))
		refused("metadata.name", all, remove)
	}

	t.Log("what takes nothing away passes")
	edit(w, pool, func(p *v1beta1.AddressPool) {
		p.Spec.Addresses = []string{"198.51.101.1-198.51.101.4"}
		p.Spec.AutoAssign, p.Spec.Priority, p.Spec.AvoidBuggyIPs = new(false), 7, true
	})

	t.Log("without the Services, the pool may go at once")
	for _, svc := range others {
		w.delete(svc)
	}
	refused("metadata.name", "1 Service(s) would lose their address, in-use/a (198.51.101.1): move or delete them first", remove)
	w.delete(first)
	w.delete(pool)
}

func TestPoolStatus(t *testing.T) {
	w := shared(t)
	pool := addressPool("status", []string{"198.51.102.0/29", "2001:db8:2::/64"}, func(p *v1beta1.AddressPool) { p.Spec.AvoidBuggyIPs = true })
	w.create(namespace("status"), pool)
	w.poolHas(pool, "True Accepted")
	const ipv6 = math.MaxInt64
	w.counts(pool, fmt.Sprintf("0 of %d, %d", ipv6, ipv6))
	edit(w, pool, func(p *v1beta1.AddressPool) { p.Spec.Addresses = []string{"198.51.102.0/28", "2001:db8:2::/126"} })
	w.counts(pool, "0 of 18, 18")

	t.Log("what is claimed is assigned, and each family is told of when it runs out")
	var held []client.Object
	for i := 1; i <= 13; i++ {
		held = append(held, w.holding(fmt.Sprint("status/s", i), "status", fmt.Sprint("198.51.102.", i)))
	}
	w.counts(pool, "13 of 18, 5")
	w.told("AddressPool", "status", v1beta1.ReasonPoolNearlyEmpty, "1 of 14 IPv4 addresses are free")
	held = append(held, w.holding("status/s14", "status", "198.51.102.14"))
	w.counts(pool, "14 of 18, 4")
	w.told("AddressPool", "status", v1beta1.ReasonPoolEmpty, "none of 14 IPv4 addresses is free")
	w.measures(`portcullis_pool_addresses{pool="status",state="total"} 18`)
	w.measures(`portcullis_pool_addresses{pool="status",state="assigned"} 14`)

	t.Log("what people read")
	out := w.mustKubectl("", "get", "addresspools", "status", "--no-headers")
	if got := strings.Join(strings.Fields(out)[:6], " "); got != "status Addresses true 18 14 4" {
		t.Errorf("kubectl shows %s", out)
	}

	t.Log("what is released is free")
	w.delete(held[:12]...)
	w.counts(pool, "2 of 18, 16")

	t.Log("a status that somebody else has written is set right")
	w.eventually("the status to be written", func() error {
		w.get(pool)
		pool.Status.Assigned, pool.Status.Conditions = new(int64(7)), nil
		return w.Client.Status().Update(t.Context(), pool)
	})
	w.poolHas(pool, "True Accepted")
	w.counts(pool, "2 of 18, 16")
	w.delete(held[12:]...)
	w.counts(pool, "0 of 18, 18")
	w.delete(pool)
}

// TestPoolsPastAdmission: what was written while the webhooks were off meets the words that they would have said, and the
// older pool keeps what it has.
func TestPoolsPastAdmission(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, ControlPlane: controlplane.Options{Audit: true}}))
	first := addressPool("first", []string{"203.0.113.0/25"})
	large := addressPool("large-enough-to-have-what-others-want", []string{"2001:db8:77::/64"})
	w.create(namespace("past"), first, large)
	w.holding("past/a", "first", "203.0.113.1")
	w.poolHas(first, "True Accepted")
	w.counts(first, "1 of 128, 127")

	judged := map[string]struct {
		pool   *v1beta1.AddressPool
		reason string
	}{
		"overlapping": {addressPool("later", []string{"203.0.113.128/25", "203.0.113.7"}), v1beta1.ReasonPoolOverlap},
		"unreadable":  {addressPool("unreadable", []string{"203.0.113.200-"}), v1beta1.ReasonInvalid},
		"twice":       {addressPool("twice", []string{"203.0.114.0/24", "203.0.114.7"}), v1beta1.ReasonInvalid},
		"no selector": {addressPool("selector", []string{"203.0.115.0/24"}, func(p *v1beta1.AddressPool) {
			p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
		}), v1beta1.ReasonInvalid},
	}
	said := map[string]string{}
	for name, test := range judged {
		cause := causes(w.refusal(w.Client.Create(t.Context(), test.pool.DeepCopy(), client.DryRunAll)))[0]
		said[name] = cause.Field + ": " + cause.Message
	}
	w.eventually("the second to end in which the older pools were made: a creation is told to the second", func() error {
		return is(time.Since(large.CreationTimestamp.Time) > time.Second, true)
	})
	restore := w.withoutWebhooks()
	for name, test := range judged {
		w.create(test.pool)
		w.poolHas(test.pool, "False "+test.reason)
		if got := messageOf(test.pool.Status.Conditions, v1beta1.ConditionAccepted); got != said[name] {
			t.Errorf("%s: admission says\n%s\nand the status says\n%s", name, said[name], got)
		}
		if test.pool.Status.Total != nil {
			t.Errorf("%s: it counts %d addresses", name, *test.pool.Status.Total)
		}
	}
	w.told("AddressPool", "later", v1beta1.ReasonPoolOverlap, "AddressPool first has these addresses already")
	w.poolHas(first, "True Accepted")
	w.overlapsEverywhere(large)
	restore()

	t.Log("with the webhooks back, a refused pool can be changed in what makes it no worse, and can go")
	later := judged["overlapping"].pool
	edit(w, later, func(p *v1beta1.AddressPool) { p.Spec.Priority = 3 })
	w.poolHas(later, "False PoolOverlap")
	mustContain(t, w.refusal(tryEdit(w, later, func(p *v1beta1.AddressPool) {
		p.Spec.Addresses = append(p.Spec.Addresses, "203.0.113.8")
	})).Error(), "AddressPool first has")
	w.delete(judged["twice"].pool)

	t.Log("when the older pool lets go, the younger one has the addresses")
	edit(w, first, func(p *v1beta1.AddressPool) { p.Spec.Addresses = []string{"203.0.113.0-203.0.113.6"} })
	w.poolHas(later, "True Accepted")
	w.counts(later, "0 of 129, 129")
	w.counts(first, "1 of 7, 6")

	t.Log("a pool that is deleted past admission and made anew has what it had")
	restore = w.withoutWebhooks()
	w.delete(first)
	again := addressPool("first", []string{"203.0.113.0-203.0.113.6"})
	w.create(again)
	w.counts(again, "1 of 7, 6")
	restore()
	w.burst()
}

// overlapsEverywhere makes a pool with which more is wrong than its status has room for.
func (w *fixture) overlapsEverywhere(older *v1beta1.AddressPool) {
	w.t.Helper()
	var addresses []string
	for i := range 256 {
		addresses = append(addresses, fmt.Sprintf("2001:db8:77::%x:0/112", i+1))
	}
	crowded := addressPool("crowded", addresses)
	w.create(crowded)
	w.poolHas(crowded, "False PoolOverlap")
	w.told("AddressPool", crowded.Name, v1beta1.ReasonPoolOverlap, "AddressPool "+older.Name+" has these addresses already")
	w.delete(crowded, older)
}

// burst makes many Services at once: the status of their pool is written now and then, not for each of them.
func (w *fixture) burst() {
	w.t.Helper()
	const services = 120
	pool := addressPool("burst", []string{"203.0.116.0/24"})
	w.create(pool)
	w.counts(pool, "0 of 256, 256")
	writes := func() (n int) {
		for _, write := range w.writes() {
			if write.Resource == "addresspools."+v1beta1.GroupName+"/status" && write.Name == "burst" {
				n++
			}
		}
		return n
	}
	before, began := writes(), time.Now()
	for i := range services {
		w.holding(fmt.Sprint("past/burst-", i), "burst", fmt.Sprint("203.0.116.", i))
	}
	w.counts(pool, fmt.Sprintf("%d of 256, %d", services, 256-services))
	took := time.Since(began)
	if n, most := writes()-before, 2+int(took/(3*time.Second)); n < 1 || n > most {
		w.t.Errorf("the status was written %d times in %v, want 1 to %d", n, took, most)
	}
}
