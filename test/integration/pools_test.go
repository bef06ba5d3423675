package integration

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
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
func (w *world) holding(key, pool, address string) *corev1.Service {
	w.t.Helper()
	svc := service(key, port("http", 80))
	svc.Labels = map[string]string{"pool": pool}
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	svc.Annotations = map[string]string{v1beta1.AnnotationAddresses: address}
	w.create(svc)
	holder := claim.Claimant{
		Holder: claim.ServiceHolder(v1beta1.ObjectReference{Namespace: svc.Namespace, Name: svc.Name}), UID: svc.UID,
		Generation: claim.Version(svc.ResourceVersion),
	}
	if err := w.try(claim.New(claim.Address(netip.MustParseAddr(address)), holder)); client.IgnoreAlreadyExists(err) != nil {
		w.t.Fatal(err)
	}
	return svc
}

// poolHas waits until a pool's condition is as wanted. The pool is read anew.
func (w *world) poolHas(p *v1beta1.AddressPool, want string) {
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
func (w *world) counts(p *v1beta1.AddressPool, want string) {
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
			if err == nil {
				t.Fatal("it passes")
			}
			return is(causes(err)[0].Field+": "+causes(err)[0].Message, field+": Forbidden: "+text)
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
