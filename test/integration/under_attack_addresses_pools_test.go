package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestPoolsChangeUnseen changes pools while Portcullis is down: what is still valid stays, without a gap; the rest is told
// by event and given other addresses, as far as there are any.
func TestPoolsChangeUnseen(t *testing.T) {
	t.Parallel()
	o := raceOptions()
	o.Replicas, o.Flags = 1, append(o.Flags, "--leader-elect=false")
	h := start(t, o)
	l := &poolFixture{fixture: newFixture(t, h), history: addressHistory(t, h)}
	old := lending("old", "192.0.2.1-192.0.2.8")
	l.lendable(old)
	l.create(namespace("unseen"))
	var services []client.Object
	for i := range 8 {
		services = append(services, borrower(fmt.Sprintf("unseen/web-%d", i)))
	}
	l.create(services...)
	had := l.lends(8)

	t.Log("made again as it was")
	l.unseen(func() {
		l.delete(old)
		l.create(lending("old", "192.0.2.1-192.0.2.8"))
	})
	l.isExactly(had)
	l.neverMoved()

	t.Log("half of it is gone, and there is another with two addresses")
	l.unseen(func() {
		l.delete(old)
		l.create(lending("old", "192.0.2.1-192.0.2.4"), lending("new", "198.51.100.1-198.51.100.2"))
	})
	has := l.lends(6)
	moved := 0
	for key, was := range had {
		svc := borrower(key.String())
		last := was[strings.LastIndexByte(was, '.')+1:]
		if last <= "4" {
			if has[key] != was {
				t.Errorf("%s had %s, which is still valid, and has %q", key, was, has[key])
			}
			if l.everWithout(key) {
				t.Errorf("%s was without an address for a moment", key)
			}
			continue
		}
		l.hasEvent(svc, "Warning "+v1beta1.ReasonAddressLost, was)
		if has[key] == "" {
			l.hasEvent(svc, "Warning "+v1beta1.ReasonNoFreeAddress)
			continue
		}
		moved++
		if !strings.HasPrefix(has[key], "198.51.100.") {
			t.Errorf("%s had %s and has %s", key, was, has[key])
		}
	}
	if moved != 2 {
		t.Errorf("%d Services were given other addresses, want 2", moved)
	}

	t.Log("shared by ports from now on, while the Services have whole addresses")
	l.unseen(func() {
		l.delete(old)
		l.create(lending("old", "192.0.2.1-192.0.2.4", sharesPorts))
	})
	l.isExactly(has)

	t.Log("gone for good")
	l.unseen(func() { l.delete(old, lending("new", "")) })
	l.lends(0)
	for key := range has {
		l.hasEvent(borrower(key.String()), "Warning "+v1beta1.ReasonAddressLost, has[key])
		l.hasEvent(borrower(key.String()), "Warning "+v1beta1.ReasonNoAddressPool)
	}
	t.Log("and back")
	l.create(lending("old", "192.0.2.1-192.0.2.8"))
	l.lends(8)
	l.history.mustHold(l.fixture)
}

// unseen does something while nobody is there.
func (l *poolFixture) unseen(do func()) {
	l.t.Helper()
	must(l.fixture, l.Replicas[len(l.Replicas)-1].Kill())
	guard := l.unguard()
	do()
	guard()
	_, err := l.StartReplica(l.t.Context())
	must(l.fixture, err)
	l.guarded()
}

// everWithout says whether a Service was without an address after it had one.
func (l *poolFixture) everWithout(key types.NamespacedName) bool {
	had := false
	for _, e := range l.history.sorted() {
		svc, ok := e.stored.(*corev1.Service)
		if !ok || client.ObjectKeyFromObject(svc) != key {
			continue
		}
		if had && addressesOf(svc) == "" {
			return true
		}
		had = addressesOf(svc) != ""
	}
	return false
}

// TestForeignAddressesStay leaves alone what other controllers have written into the status of Services that are theirs,
// also where Portcullis takes those without a class, and where it comes later.
func TestForeignAddressesStay(t *testing.T) {
	t.Parallel()
	o := raceOptions()
	o.Replicas, o.Flags = 1, append(o.Flags, "--leader-elect=false", "--default-load-balancer")
	h := start(t, o)
	l := &poolFixture{fixture: newFixture(t, h), history: addressHistory(t, h)}
	l.lendable(lending("ours", "192.0.2.1-192.0.2.20"))
	l.create(namespace("foreign"))
	must(l.fixture, h.Replicas[0].Kill())
	wrote := map[string]string{"theirs": "192.0.2.1", "classless": "203.0.113.1", "host": "", "adopted": "192.0.2.2"}
	for name, class := range map[string]*string{"theirs": new("example.com/lb"), "classless": nil, "host": nil, "adopted": nil} {
		svc := borrower("foreign/"+name, func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = class })
		l.create(svc)
		entry := corev1.LoadBalancerIngress{IP: wrote[name]}
		if name == "host" {
			entry.Hostname = "lb.example.com"
		}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{entry}
		must(l.fixture, l.Client.Status().Update(t.Context(), svc, client.FieldOwner("another-controller")))
	}
	l.create(borrower("foreign/nobodys", classless))
	_, err := h.StartReplica(t.Context())
	must(l.fixture, err)

	read := func(name string) *corev1.Service {
		svc := borrower("foreign/" + name)
		l.get(svc)
		return svc
	}
	l.eventually("the Service of nobody to be served", func() error {
		return is(strings.HasPrefix(addressesOf(read("nobodys")), "192.0.2."), true)
	})
	l.hasEvent(read("classless"), v1beta1.ReasonForeignLoadBalancer)
	l.hasEvent(read("host"), v1beta1.ReasonForeignLoadBalancer)
	l.eventually("an address of ours to be adopted", func() error {
		svc := read("adopted")
		if addressesOf(svc) != "192.0.2.2" {
			t.Errorf("the adopted Service has %s", addressesOf(svc))
		}
		return is(len(svc.Status.LoadBalancer.Ingress[0].Ports), 1)
	})
	// Something to do for all of them: they are changed, Portcullis starts anew, and again without the flag.
	for _, flag := range []string{"--default-load-balancer=true", "--default-load-balancer=false"} {
		must(l.fixture, h.Replicas[len(h.Replicas)-1].Kill())
		_, err := h.StartReplica(t.Context(), flag)
		must(l.fixture, err)
		for name := range wrote {
			edit(l.fixture, read(name), func(svc *corev1.Service) { svc.Spec.Ports[0].Port++ })
		}
		time.Sleep(2 * time.Second)
		for name, ip := range wrote {
			got := read(name).Status.LoadBalancer.Ingress
			switch {
			case name == "adopted" && flag == "--default-load-balancer=false":
				continue // it is ours by now, and goes; see below
			case len(got) != 1 || got[0].IP != ip || (name == "host") != (got[0].Hostname == "lb.example.com"):
				t.Errorf("with %s, the status of %s has become %+v", flag, name, got)
			}
		}
	}
	l.eventually("what was ours to be given back", func() error {
		return is(addressesOf(read("nobodys"))+addressesOf(read("adopted")), "")
	})
	l.eventually("nobody to hold anything", func() error { return l.leftovers(nil) })
}
