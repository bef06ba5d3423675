package integration

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// serviceHandsOverTo has a Service say to whom it hands over what it holds, nobody for "".
func (w *fixture) serviceHandsOverTo(svc *corev1.Service, heir string) {
	w.t.Helper()
	edit(w, svc, handsOverTo[*corev1.Service](heir))
}

// tellsHandedOverAddress waits until both sides of a hand-over have an event that says so.
func (w *fixture) tellsHandedOverAddress(giver, heir *corev1.Service, what string) {
	w.t.Helper()
	w.hasEvent(giver, "Normal "+v1beta1.ReasonHandedOver, what+" is handed over to Service "+client.ObjectKeyFromObject(heir).String())
	w.hasEvent(heir, "Normal "+v1beta1.ReasonTookOver, what+" is taken over from Service "+client.ObjectKeyFromObject(giver).String())
}

// TestHandOverAddress has Services hand addresses, and ports of shared ones, over to Services of other namespaces: no rival gets in between,
// and at no time is nobody listed there.
func TestHandOverAddress(t *testing.T) {
	w := shared(t)
	w.create(namespace("addr-a"), namespace("addr-b"), namespace("addr-c"),
		addressPool("addr-whole", []string{"198.18.77.0/30"}, forAll, onRequest),
		addressPool("addr-ports", []string{"198.18.77.8"}, forAll, onRequest, sharesPorts))

	t.Log("a whole address: who is not named is refused, and told how to get it")
	const whole = "198.18.77.0"
	giver := balancer("addr-a/old", inPool("addr-whole"))
	heir := balancer("addr-b/new", wants(whole))
	rival := balancer("addr-c/rival", wants(whole))
	w.admitted(giver)
	w.balances(giver, whole+" VIP TCP/80")
	history := listedBy(w, whole, giver, heir, rival)
	_ = w.refusedSaying(heir, "held by Service addr-a/old since", "; or have its holder hand it over, by the annotation "+v1beta1.AnnotationHandOverTo+": addr-b/new")
	w.editRefusedSaying(giver, func(svc *corev1.Service) { handsOverTo[*corev1.Service]("new")(svc) }, "hand-over-to]", "must be namespace/name of the Service")
	w.serviceHandsOverTo(giver, "addr-b/new")
	if err := w.Client.Create(t.Context(), heir.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("a dry run of who is named: %v", err)
	}
	_ = w.refusedSaying(rival, "held by Service addr-a/old since")
	w.pointHeldBy("addr.198-18-77-0", "Service addr-a/old")

	t.Log("who is named has it")
	w.create(heir)
	w.balances(heir, whole+" VIP TCP/80")
	w.pointHeldBy("addr.198-18-77-0", "Service addr-b/new")
	w.balances(giver, "")
	history.mustHold(w)
	w.tellsHandedOverAddress(giver, heir, whole+" of addr")
	w.hasEvent(giver, "Normal "+v1beta1.ReasonHandedOver, "remove the annotation to have it ask for an address again")

	t.Log("who has given asks for nothing, free as it may be, until it no longer says that it gives")
	w.delete(heir)
	w.pointHeldBy("addr.198-18-77-0", "")
	edit(w, giver, ports(port("", 81)))
	witness := balancer("addr-c/witness", wants(whole))
	w.eventually("the address to be free", func() error { return w.try(witness) })
	w.balances(witness, whole+" VIP TCP/80")
	w.balances(giver, "")
	w.serviceHandsOverTo(giver, "")
	w.balances(giver, "198.18.77.1 VIP TCP/81")

	t.Log("to one that waits in vain, by the annotation alone, in one namespace")
	waits := balancer("addr-c/waits", wants("198.18.77.2"))
	w.create(waits)
	w.balances(waits, "198.18.77.2 VIP TCP/80")
	edit(w, waits, ports(port("", 8080)))
	edit(w, witness, ports(port("", 8081)))
	w.serviceHandsOverTo(witness, "addr-c/waits")
	moves := listedBy(w, whole, witness, waits)
	edit(w, waits, wants(whole))
	w.balances(waits, whole+" VIP TCP/8080")
	w.balances(witness, "")
	moves.mustHold(w)
	w.pointHeldBy("addr.198-18-77-2", "")

	t.Log("a port of a shared address, to one that has another port there")
	const shares = "198.18.77.8"
	web := balancer("addr-a/web", inPool("addr-ports"), ports(port("http", 80)))
	mail := balancer("addr-b/mail", wants(shares), ports(port("smtp", 25)))
	w.admitted(web, mail)
	w.balances(web, shares+" VIP TCP/80")
	w.balances(mail, shares+" VIP TCP/25")
	door := listedBy(w, shares, web, mail)
	door.ofPort(80)
	both := ports(port("smtp", 25), port("http", 80))
	w.editRefusedSaying(mail, both, `"TCP/80": held by Service addr-a/web since`, v1beta1.AnnotationHandOverTo+": addr-b/mail")
	w.serviceHandsOverTo(web, "addr-b/mail")
	edit(w, mail, both)
	w.balances(mail, shares+" VIP TCP/25 TCP/80")
	w.pointHeldBy("addr.198-18-77-8.tcp.80", "Service addr-b/mail")
	w.balances(web, "")
	door.mustHold(w)
	w.tellsHandedOverAddress(web, mail, "TCP/80 of addr/"+shares)
}

// TestHandOverAddressToNobody has the one who is named be refused by a quota after it was promised the address: nothing has happened.
func TestHandOverAddressToNobody(t *testing.T) {
	w := shared(t)
	w.create(namespace("addr-d"), namespace("addr-e"), addressPool("addr-nobody", []string{"198.18.77.16"}, forAll, onRequest))
	w.without("addr-e", "services", func() error {
		w.setsQuota("addr-e")
		probe := service("addr-e/probe", port("", 1))
		defer func() { _ = w.Client.Delete(t.Context(), probe) }()
		return w.try(probe)
	})
	giver := balancer("addr-d/old", inPool("addr-nobody"))
	heir := balancer("addr-e/new", wants("198.18.77.16"))
	w.admitted(giver)
	w.balances(giver, "198.18.77.16 VIP TCP/80")
	w.serviceHandsOverTo(giver, "addr-e/new")
	w.eventually("the address to be promised to who is named", func() error {
		if err := w.try(heir.DeepCopy()); !apierrors.IsForbidden(err) {
			return fmt.Errorf("not refused by the quota: %w", err)
		}
		return nil
	})
	c := &v1beta1.EdgeClaim{}
	c.Name = "addr.198-18-77-16"
	w.eventually("the heir to be forgotten", func() error {
		w.get(c)
		if c.Spec.Heir != nil {
			return fmt.Errorf("it is %v", c.Spec.Heir)
		}
		return nil
	})
	w.pointHeldBy(c.Name, "Service addr-d/old")
	w.balances(giver, "198.18.77.16 VIP TCP/80")
	w.delete(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "addr-e", Name: "none"}})
	w.eventually("the one who is named to have it after all", func() error { return w.try(heir.DeepCopy()) })
	w.balances(heir, "198.18.77.16 VIP TCP/80")
	w.balances(giver, "")
}

// listings is the history of who is listed at an address.
type listings struct {
	*history
	moment *listing
}

// listing is which of some Services list an address, or a port of it.
type listing struct {
	ip   netip.Addr
	of   []types.NamespacedName
	port int32
	by   map[types.NamespacedName]bool
}

// listedBy starts a history of an address that one of some Services is listed at: in every version, one of them must be.
func listedBy(w *fixture, ip string, of ...*corev1.Service) *listings {
	w.t.Helper()
	l := &listings{moment: &listing{ip: netip.MustParseAddr(ip)}}
	for _, svc := range of {
		l.moment.of = append(l.moment.of, client.ObjectKeyFromObject(svc))
	}
	l.history = newHistory(w.t, w.Harness, func() moment {
		blank := *l.moment
		blank.by = map[types.NamespacedName]bool{}
		return &blank
	}, &corev1.ServiceList{})
	return l
}

// mustHold waits until the history has the Services as they are stored, whatever others do meanwhile, and fails the test if none of them was
// listed at any moment.
func (l *listings) mustHold(w *fixture) {
	w.t.Helper()
	w.eventually("the history to be complete", func() error {
		versions := map[types.NamespacedName]string{}
		for _, e := range l.sorted() {
			if key := client.ObjectKeyFromObject(e.stored); !e.gone {
				versions[key] = e.stored.GetResourceVersion()
			} else {
				delete(versions, key)
			}
		}
		for _, key := range l.moment.of {
			svc := &corev1.Service{}
			if err := w.Client.Get(w.t.Context(), key, svc); client.IgnoreNotFound(err) != nil {
				return err
			}
			if err := is(versions[key], svc.ResourceVersion); err != nil {
				return fmt.Errorf("the version of %s: %w", key, err)
			}
		}
		return nil
	})
	told, wrong := l.violations()
	for _, v := range wrong {
		w.t.Error(v)
	}
	w.t.Logf("%d changes", told)
}

// ofPort has only those count that list the port there, too.
func (l *listings) ofPort(port int32) { l.moment.port = port }

func (m *listing) apply(e happening) []types.NamespacedName {
	svc, is := e.stored.(*corev1.Service)
	key := client.ObjectKeyFromObject(e.stored)
	if !is || !slices.Contains(m.of, key) {
		return nil
	}
	m.by[key] = !e.gone && slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		return i.IP == m.ip.String() && (m.port == 0 || slices.ContainsFunc(i.Ports, func(p corev1.PortStatus) bool { return p.Port == m.port }))
	})
	return m.everybody()
}

func (m *listing) everybody() []types.NamespacedName {
	return []types.NamespacedName{{Name: m.ip.String()}}
}

func (m *listing) check(types.NamespacedName) error {
	for _, listed := range m.by {
		if listed {
			return nil
		}
	}
	return fmt.Errorf("none of %v is listed at %s", m.of, m.ip)
}

func (m *listing) around(events []happening, i int, _ types.NamespacedName) string {
	var lines string
	for _, e := range events[max(0, i-20) : i+1] {
		if svc, is := e.stored.(*corev1.Service); is && slices.Contains(m.of, client.ObjectKeyFromObject(svc)) {
			lines += fmt.Sprintf("\n%d %s: %s", e.version, client.ObjectKeyFromObject(svc), statusOf(svc))
		}
	}
	return lines
}
