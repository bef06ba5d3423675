package integration

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// annotationField is the field of an annotation that asks.
func annotationField(name string) string { return "metadata.annotations[" + name + "]" }

// TestAddressRequests asks for pools and addresses, and for what can't be had.
func TestAddressRequests(t *testing.T) {
	t.Parallel()
	w := balancing(t)
	w.create(namespace("web"), namespace("team", "team=a"),
		addressPool("open", []string{"192.0.2.0/29"}, forAll),
		addressPool("asked", []string{"198.51.100.0/29"}, forAll, onRequest),
		addressPool("team", []string{"203.0.113.0/29"}, forAll, onRequest, forNamespaces("team=a")),
		addressPool("shared", []string{"203.0.113.64"}, forAll, onRequest, sharesPorts),
		addressPool("six", []string{"2001:db8::/64"}, forAll, onRequest),
	)
	auto := balancer("web/auto")
	named := balancer("web/named", inPool("asked"))
	exact := balancer("web/exact", wants("198.51.100.5"))
	older := balancer("web/older", func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "198.51.100.6" })
	mine := balancer("team/mine", inPool("team"))
	w.admitted(auto, named, exact, older, mine) // the pools were made a moment ago
	w.pointHeldBy("addr.198-51-100-5", "Service web/exact")
	w.balances(auto, "192.0.2.0 VIP TCP/80")
	w.balances(named, "198.51.100.0 VIP TCP/80")
	w.balances(exact, "198.51.100.5 VIP TCP/80")
	w.balances(older, "198.51.100.6 VIP TCP/80")
	w.balances(mine, "203.0.113.0 VIP TCP/80")

	addresses, pools, sharing := annotationField(v1beta1.AnnotationAddresses), annotationField(v1beta1.AnnotationAddressPool), annotationField(v1beta1.AnnotationSharing)
	for name, test := range map[string]struct {
		svc   *corev1.Service
		field string
		texts []string
	}{
		"no address":            {balancer("web/no", wants("here")), addresses, []string{"is not an IP address: write one, or one of each IP family"}},
		"nothing at all":        {balancer("web/no", annotated(v1beta1.AnnotationAddresses, " ")), addresses, []string{"is not an IP address"}},
		"two of one family":     {balancer("web/no", wants("198.51.100.2, 198.51.100.3")), addresses, []string{"at most one IPv4 address"}},
		"no sharing":            {balancer("web/no", annotated(v1beta1.AnnotationSharing, "Some")), sharing, []string{"supported values", "None", "Ports"}},
		"no pool of the name":   {balancer("web/no", inPool("nosuch")), pools, []string{"Not found", "there are the AddressPools asked, open, shared, six, team"}},
		"a pool for others":     {balancer("web/no", inPool("team")), pools, []string{`AddressPool team does not serve this Service: its namespaceSelector does not select namespace "web"`}},
		"an address for others": {balancer("web/no", wants("203.0.113.5")), addresses, []string{"AddressPool team, which has it, does not serve this Service"}},
		"an address of no pool": {balancer("web/no", wants("10.0.0.1")), addresses, []string{"is in no AddressPool", "asked has 198.51.100.0/29"}},
		"one of another pool":   {balancer("web/no", inPool("asked"), wants("192.0.2.3")), addresses, []string{"is not an address of AddressPool asked, which has 198.51.100.0/29"}},
		"of another family":     {balancer("web/no", wants("2001:db8::1"), dualStack(corev1.IPFamilyPolicySingleStack, corev1.IPv4Protocol)), addresses, []string{"the Service has no IPv6: its spec.ipFamilies are IPv4"}},
		"taken":                 {balancer("web/no", wants("198.51.100.5")), addresses, []string{"Duplicate value", "held by Service web/exact since", "free in AddressPool asked is 198.51.100."}},
		"sharing what is whole": {balancer("web/no", inPool("asked"), annotated(v1beta1.AnnotationSharing, "Ports")), sharing, []string{"AddressPool asked has the sharing None"}},
		"two fields, two answers": {balancer("web/no", wants("198.51.100.2"), func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "198.51.100.3" }),
			"spec.loadBalancerIP", []string{"leave this field out"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := w.refusedSaying(test.svc, append(test.texts, test.field+": ")...)
			if cause := w.refusal(err).ErrStatus.Details.Causes[0]; cause.Field != test.field {
				t.Errorf("it is about %s", cause.Field)
			}
		})
	}

	t.Log("a shared address: each port is held by one")
	dns := balancer("web/dns", inPool("shared"), ports(port("tcp", 53), port("udp", 53, UDP)))
	https := balancer("web/https", wants("203.0.113.64"), ports(port("", 443)))
	w.admitted(dns, https)
	w.balances(dns, "203.0.113.64 VIP TCP/53 UDP/53")
	w.balances(https, "203.0.113.64 VIP TCP/443")
	w.pointHeldBy("addr.203-0-113-64.udp.53", "Service web/dns")
	_ = w.refusedSaying(balancer("web/no", wants("203.0.113.64"), ports(port("a", 80), port("b", 53))),
		`spec.ports[1].port: Duplicate value: "TCP/53": held by Service web/dns since`)
	w.editRefusedSaying(https, ports(port("a", 443), port("b", 53, UDP)),
		`spec.ports[1].port: Duplicate value: "UDP/53": held by Service web/dns since`)
	edit(w, https, ports(port("a", 443), port("b", 80)))
	w.balances(https, "203.0.113.64 VIP TCP/443 TCP/80")
	edit(w, https, ports(port("a", 80)))
	w.balances(https, "203.0.113.64 VIP TCP/80")
	w.pointHeldBy("addr.203-0-113-64.tcp.443", "")

	t.Log("an address is changed for another: nobody gets the new one meanwhile, and the old one is free afterwards")
	edit(w, exact, wants("198.51.100.4"))
	w.balances(exact, "198.51.100.4 VIP TCP/80")
	w.pointHeldBy("addr.198-51-100-5", "")
	w.editRefusedSaying(exact, wants("198.51.100.6"), "held by Service web/older since")
	edit(w, exact, func(svc *corev1.Service) {
		inPool("open")(svc)
		wants("")(svc)
	})
	w.balances(exact, "192.0.2.1 VIP TCP/80")
	w.pointHeldBy("addr.198-51-100-4", "")

	t.Log("what does not ask for anything else passes, whatever it asks for")
	w.delete(addressPool("six", nil))
	edit(w, auto, annotated("note", "changed"))

	t.Log("what is promised and not stored is free again after the grace")
	promised := claim.New(claim.Address(netip.MustParseAddr("198.51.100.3")), claim.Claimant{
		Holder: claim.ServiceHolder("web", "stopped"), UID: "stopped"})
	// By a clock that is ahead, all of the grace is left for a while, however late the refusal comes.
	promised.Spec.Renewed = new(metav1.NewMicroTime(time.Now().Add(grace)))
	w.create(promised)
	_ = w.refusedSaying(balancer("web/late", wants("198.51.100.3")), "held for Service web/stopped, which is not stored",
		"it is free again in at most ", "s, try again then")
	w.eventually("it is free again", func() error { return w.try(balancer("web/late", wants("198.51.100.3"))) })
}

// TestAddressesRunOut has more Services than addresses.
func TestAddressesRunOut(t *testing.T) {
	t.Parallel()
	w := balancing(t)
	w.create(namespace("full"), addressPool("full", []string{"192.0.2.0/31"}, forAll))
	first, second, third := balancer("full/a"), balancer("full/b", classless), balancer("full/c")
	w.create(first)
	w.balances(first, "192.0.2.0 VIP TCP/80")
	w.create(second)
	w.balances(second, "192.0.2.1 VIP TCP/80")
	w.create(third)
	w.hasEvent(third, "Warning NoFreeAddress", "AddressPool full has no free address of IPv4 left")
	w.balances(third, "")
	w.delete(first)
	w.balances(third, "192.0.2.0 VIP TCP/80")
	w.hasEvent(third, "Normal AddressAssigned", "it is served at 192.0.2.0")
	if events := w.eventsOf(second); len(events) > 0 {
		t.Errorf("a first assignment is told: %q", events)
	}

	t.Log("the pool goes: what it gave is lost, and told; another one gives what it has")
	p := addressPool("full", []string{"192.0.2.0/31"})
	w.counts(p, "2 of 2, 0")
	w.delete(second, third)
	w.pointHeldBy("addr.192-0-2-0", "")
	w.pointHeldBy("addr.192-0-2-1", "")
	w.counts(p, "0 of 2, 2") // who gives addresses knows by now that both are free
	again := balancer("full/again")
	w.create(again)
	w.balances(again, "192.0.2.0 VIP TCP/80")
	w.create(addressPool("more", []string{"198.51.100.0/31"}, forAll))
	for _, r := range w.Replicas {
		_ = r.Kill()
	}
	w.delete(p) // nobody is there to refuse it
	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.balances(again, "198.51.100.0 VIP TCP/80")
	w.hasEvent(again, "Warning AddressLost", "no AddressPool gives 192.0.2.0 to this Service any longer; now it has 198.51.100.0")
	w.pointHeldBy("addr.192-0-2-0", "")
}

// TestPoolMadeAnewKeepsAddresses deletes a pool while nobody looks, and makes it again.
func TestPoolMadeAnewKeepsAddresses(t *testing.T) {
	t.Parallel()
	w := balancing(t)
	p := addressPool("again", []string{"192.0.2.0/29"}, forAll)
	w.create(namespace("again"), p)
	first, second := balancer("again/a"), balancer("again/b")
	w.create(first)
	w.balances(first, "192.0.2.0 VIP TCP/80")
	w.create(second)
	w.balances(second, "192.0.2.1 VIP TCP/80")
	for _, r := range w.Replicas {
		_ = r.Kill()
	}
	w.delete(p)
	w.unguarded(addressPool("again", []string{"192.0.2.1/32", "192.0.2.4/30"}, forAll, sharesPorts))
	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.balances(first, "192.0.2.4 VIP TCP/80")
	w.hasEvent(first, "AddressLost")
	w.balances(second, "192.0.2.1 VIP TCP/80")
	if events := w.eventsOf(second); len(events) > 0 {
		t.Errorf("it is told: %q", events)
	}
	t.Log("what was given whole stays whole")
	mustContain(t, w.refusal(w.try(balancer("again/c", wants("192.0.2.1"), ports(port("", 443))))).Error(), "held by Service again/b")
	c := balancer("again/c", ports(port("", 443)))
	w.create(c)
	w.balances(c, "192.0.2.4 VIP TCP/443")
}
