package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// guarded starts a control plane with the Gateway API, and Portcullis with the component config/guard.
func guarded(t *testing.T, o harness.Options) *fixture {
	t.Helper()
	o.Guard = true
	return gateways(t, o)
}

// openGateway makes a Gateway that lets every namespace attach ListenerSets, without a controller. It has a listener of its own, HTTP on
// port 80.
func (w *fixture) openGateway(key string, listeners ...gatewayv1.Listener) *gatewayv1.Gateway {
	w.t.Helper()
	ns, name, _ := strings.Cut(key, "/")
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "none",
		Listeners:        append([]gatewayv1.Listener{{Name: "web", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}, listeners...),
		AllowedListeners: &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}},
	}}
	w.create(g)
	return g
}

// listen is a listener of a ListenerSet; host may be empty.
func listen(protocol gatewayv1.ProtocolType, port int32, host string) gatewayv1.ListenerEntry {
	entry := gatewayv1.ListenerEntry{Name: gatewayv1.SectionName(fmt.Sprintf("p%d-%d", port, len(host))), Port: port, Protocol: protocol}
	if host != "" {
		entry.Hostname = ptr.To(gatewayv1.Hostname(host))
	}
	if protocol == gatewayv1.HTTPSProtocolType || protocol == gatewayv1.TLSProtocolType {
		entry.TLS = &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: "cert"}}}
	}
	return entry
}

// listenerSet is a ListenerSet of a Gateway.
func listenerSet(key string, of *gatewayv1.Gateway, listeners ...gatewayv1.ListenerEntry) *gatewayv1.ListenerSet {
	ns, name, _ := strings.Cut(key, "/")
	return &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: gatewayv1.ListenerSetSpec{
		ParentRef: gatewayv1.ParentGatewayReference{Namespace: ptr.To(gatewayv1.Namespace(of.Namespace)), Name: gatewayv1.ObjectName(of.Name)},
		Listeners: listeners,
	}}
}

// listens waits until the claim on a point of a Gateway is somebody's, "" for nobody's.
func (w *fixture) listens(at claim.Coordinate, want string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s to be held by %q", at, want), func() error {
		c := &v1beta1.EdgeClaim{}
		err := w.Client.Get(w.t.Context(), client.ObjectKey{Name: at.Name()}, c)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		return is(c.Spec.HeldBy, want)
	})
}

// refusedFor waits until what is attempted is refused for a field, with texts. The replica that answers may learn a moment after the API
// server that what holds a point is stored, and says until then that it is not.
func (w *fixture) refusedFor(attempt func() error, field string, texts ...string) {
	w.t.Helper()
	w.eventually("a refusal for "+field, func() error {
		err := attempt()
		if err == nil {
			w.t.Fatalf("want a refusal for %s, and nothing is refused", field)
		}
		status := &apierrors.StatusError{}
		if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
			return fmt.Errorf("want an Invalid refusal, got: %w", err)
		}
		if details := status.ErrStatus.Details; details == nil || len(details.Causes) == 0 || details.Causes[0].Field != field {
			w.t.Fatalf("refused as %+v, want a cause at %s", status.ErrStatus, field)
		}
		return saysAll(status.ErrStatus.Details.Causes[0].Message, texts...)
	})
}

// toCreate attempts to create an object. One that comes in unchecked is taken back.
func (w *fixture) toCreate(obj client.Object) func() error {
	w.t.Helper()
	k := w.warned()
	return func() error {
		created := obj.DeepCopyObject().(client.Object)
		err := k.Create(w.t.Context(), created)
		if err == nil && strings.Contains(k.said(), "could not check now") {
			w.takesBack(created)
			return errors.New(k.said())
		}
		return err
	}
}

// toEdit attempts to change an object.
func toEdit[T client.Object](w *fixture, obj T, change func(T)) func() error {
	return func() error { return tryEdit(w, obj, change) }
}

// TestGuard leads a life of listeners that others open on a Gateway.
func TestGuard(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("infra"), namespace("young"), namespace("old"))
	edge := w.openGateway("infra/edge")
	key := client.ObjectKeyFromObject(edge)
	tcpAt := func(port int32) claim.Coordinate { return claim.Listener(key, TCP, port) }
	w.listens(claim.HostListener(key, claim.HTTPListener, 80, claim.AllHosts), "Gateway infra/edge")

	t.Log("the older object takes no port by an edit")
	old := listenerSet("old/web", edge, listen("TCP", 7777, ""))
	w.create(old)
	young := listenerSet("young/web", edge, listen("TCP", 7500, ""))
	w.create(young)
	w.listens(tcpAt(7500), "ListenerSet young/web")
	takes := func(set *gatewayv1.ListenerSet) {
		set.Spec.Listeners = []gatewayv1.ListenerEntry{listen("TCP", 7500, "")}
	}
	w.refusedFor(toEdit(w, old, takes), "spec.listeners[0].port", "held by ListenerSet young/web since 20", `"TCP/7500"`,
		"Gateway infra/edge", `free for namespace "old" nearby: 7498, 7499, 7501`, "one of them first moves to a free port")
	w.refusedFor(toEdit(w, edge, func(g *gatewayv1.Gateway) {
		g.Spec.Listeners = append(g.Spec.Listeners, gatewayv1.Listener{Name: "db", Port: 7500, Protocol: gatewayv1.TCPProtocolType})
	}), "spec.listeners[1].port", "held by ListenerSet young/web since 20")
	w.get(old, edge)
	must(w, w.Client.Update(t.Context(), old)) // nothing changes
	w.listens(tcpAt(7777), "ListenerSet old/web")

	t.Log("names share a port, and nobody gets it whole beside them")
	a := listenerSet("young/a", edge, listen("HTTP", 8080, "a.example.com"), listen("HTTPS", 8443, "a.example.com"))
	b := listenerSet("old/b", edge, listen("HTTP", 8080, "b.example.com"), listen("HTTP", 8080, ""))
	w.create(a, b)
	for what, refused := range map[string]struct {
		entry gatewayv1.ListenerEntry
		field string
		holds string
	}{
		"a name":          {listen("HTTP", 8080, "a.example.com"), "spec.listeners[0].hostname", "held by ListenerSet young/a"},
		"all other names": {listen("HTTP", 8080, ""), "spec.listeners[0].port", "held by ListenerSet old/b"},
		"the same by TLS": {listen("TLS", 8443, "a.example.com"), "spec.listeners[0].hostname", "held by ListenerSet young/a"},
		"the whole port":  {listen("TCP", 8443, ""), "spec.listeners[0].port", "which shares the port by host name"},
	} {
		t.Log(what)
		w.refusedFor(w.toCreate(listenerSet("old/refused", edge, refused.entry)), refused.field, refused.holds)
	}
	w.refusedFor(w.toCreate(listenerSet("old/refused", edge, listen("TCP", 9000, ""), listen("HTTP", 9000, "c.example.com"))),
		"spec.listeners[0].port", "another listener of this object")
	w.refusedFor(w.toCreate(listenerSet("old/refused", edge, listen("HTTP", 7500, "c.example.com"))), "spec.listeners[0].port", "held by ListenerSet young/web")
	for _, port := range []int32{9000, 9001} { // all or nothing
		w.listens(tcpAt(port), "")
	}
	w.refusedFor(w.toCreate(listenerSet("old/refused", edge, listen("TCP", 9001, ""), listen("TCP", 7500, ""))), "spec.listeners[1].port", "7500")
	w.create(listenerSet("young/first", edge, listen("TCP", 9001, "")))

	t.Log("who is alone at a port may have it in another way, and what is given up is free at once")
	edit(w, a, func(set *gatewayv1.ListenerSet) {
		set.Spec.Listeners = []gatewayv1.ListenerEntry{listen("TCP", 8443, "")}
	})
	w.listens(tcpAt(8443), "ListenerSet young/a")
	w.listens(claim.HostListener(key, claim.TLSListener, 8443, "a.example.com"), "")
	w.delete(b)
	w.eventually("the port to be free", func() error { return w.try(listenerSet("young/whole", edge, listen("TCP", 8080, ""))) })
	w.listens(claim.Listener(key, claim.HTTPListener, 8080), "")

	t.Log("what only asks gets an answer and nothing else")
	w.refusedFor(func() error {
		return w.Client.Create(t.Context(), listenerSet("old/asks", edge, listen("TCP", 7500, "")), client.DryRunAll)
	}, "spec.listeners[0].port", "held by ListenerSet young/web")
	must(w, w.Client.Create(t.Context(), listenerSet("old/asks", edge, listen("UDP", 7500, "")), client.DryRunAll))
	w.listens(claim.Listener(key, UDP, 7500), "")

	t.Log("nothing is left of those who are gone")
	w.delete(old, young, a)
	for _, at := range []claim.Coordinate{tcpAt(7777), tcpAt(7500), tcpAt(8443)} {
		w.listens(at, "")
	}
	w.delete(edge)
	w.eventually("the ledger to be empty", func() error {
		var claims v1beta1.EdgeClaimList
		must(w, w.Client.List(t.Context(), &claims))
		return is(len(claims.Items), 0)
	})
}

// TestGuardBesideStreams has listeners of others and streams of a class want the same ports.
func TestGuardBesideStreams(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}})
	class := gatewayClass("shared", autoAssign(6000, 6001), reserved(22, 25))
	class.Spec.Allow = []v1beta1.PortAllowance{{From: 1000, To: 6999, MaxPerNamespace: 3}, {From: 8000, To: 8999}, {From: 80, To: 80}}
	w.create(class, namespace("team"), namespace("others"), service("team/web", port("http", 80)), service("others/web", port("http", 80)))
	g := w.newGateway(class, "192.0.2.16")
	edit(w, g.gateway, func(g *gatewayv1.Gateway) {
		g.Spec.AllowedListeners.Namespaces.From = ptr.To(gatewayv1.NamespacesFromAll)
	})
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	set := func(name string, ports ...int32) *gatewayv1.ListenerSet {
		var entries []gatewayv1.ListenerEntry
		for _, p := range ports {
			entries = append(entries, listen("TCP", p, ""))
		}
		return listenerSet(name, g.gateway, entries...)
	}

	t.Log("a class says of ListenerSets what it says of streams")
	w.refusedFor(w.toCreate(set("team/refused", 22)), "spec.listeners[0].port", `StreamIngressClass "shared", which names the Gateway, reserves this port`)
	w.refusedFor(w.toCreate(set("team/refused", 7000)), "spec.listeners[0].port", `no allow rule of StreamIngressClass "shared"`, "TCP/7000", "nearby: 6997, 6998, 6999")
	w.create(set("gw-shared/platform", 23)) // where the Gateway is, nobody is a tenant
	w.create(set("team/two", 5000, 5001))
	stream := sti("team/third", of("shared"), tcp(5002))
	w.create(stream)
	w.refusedFor(w.toCreate(set("team/refused", 5003)), "spec.listeners[0].port", "at most 3 port(s) of 1000-6999", "would have 4")
	w.eventually("a stream to be one too many", func() error {
		err := w.try(sti("team/fourth", of("shared"), tcp(5003)))
		if err == nil {
			t.Fatal("a namespace has more ports than it may")
		}
		return saysAll(err.Error(), "maxPerNamespace")
	})

	t.Log("neither takes a port of the other")
	w.refusedFor(w.toCreate(set("others/refused", 5002)), "spec.listeners[0].port", "held by StreamIngress team/third since 20", `of StreamIngressClass "shared"`)
	err := w.try(sti("others/refused", of("shared"), tcp(5000)))
	mustContain(t, fmt.Sprint(err), "held by ListenerSet team/two")
	mustContain(t, fmt.Sprint(w.try(sti("others/refused", of("shared"), tcp(80)))), "held by Gateway gw-shared/shared")
	w.create(set("others/auto", 6000))
	given := sti("others/given", of("shared"), auto(TCP))
	w.create(given)
	w.programmed(given, stream)
	if given.Status.Listen != 6001 {
		t.Errorf("a stream was given port %d, where somebody listens", given.Status.Listen)
	}
}

// TestGuardTellsOfWhatGotPast lets listeners come in while no replica answers.
func TestGuardTellsOfWhatGotPast(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("infra"), namespace("young"), namespace("old"))
	edge := w.openGateway("infra/edge")
	key := client.ObjectKeyFromObject(edge)
	old := listenerSet("old/web", edge, listen("TCP", 7777, ""))
	young := listenerSet("young/web", edge, listen("TCP", 7500, ""), listen("HTTP", 8080, "a.example.com"))
	w.create(old, young)
	w.listens(claim.Listener(key, TCP, 7500), "ListenerSet young/web")

	must(w, w.Replicas[0].Terminate())
	w.eventually("a listener to come in while nobody answers", func() error {
		return tryEdit(w, old, func(set *gatewayv1.ListenerSet) {
			set.Spec.Listeners = []gatewayv1.ListenerEntry{listen("TCP", 7500, ""), listen("TCP", 8080, ""), listen("TCP", 7600, "")}
		})
	})
	// An admission that ended between its claim and the look at what that can't be beside.
	unfinished := claim.Claimant{Holder: claim.ListenerSetHolder("old", "web"), UID: old.UID, Generation: old.Generation}
	w.create(claim.New(claim.Listener(key, TCP, 8080), unfinished))
	unknown := listenerSet("old/first", edge, listen("TCP", 7700, ""))
	w.create(unknown, listenerSet("young/second", edge, listen("TCP", 7700, "")))
	_, err := w.StartReplica(t.Context())
	must(w, err)
	back := time.Now()

	t.Log("what was claimed stays claimed, what was not goes to whom the Gateway serves, and who lost is told")
	w.told("ListenerSet", "web", v1beta1.ReasonPortConflict, "spec.listeners[0]: TCP/7500 on Gateway infra/edge is held by ListenerSet young/web since 20",
		"spec.listeners[1]: TCP/8080 on Gateway infra/edge is held by ListenerSet young/web since 20", "which has HTTP/a.example.com there", "by age and not by who had it")
	t.Logf("told %v after a replica was ready again", time.Since(back).Round(time.Millisecond))
	w.told("ListenerSet", "second", v1beta1.ReasonPortConflict, "TCP/7700 on Gateway infra/edge is held by ListenerSet old/first")
	w.listens(claim.Listener(key, TCP, 7500), "ListenerSet young/web")
	w.listens(claim.Listener(key, TCP, 7700), "ListenerSet old/first")
	w.listens(claim.Listener(key, TCP, 7600), "ListenerSet old/web")
	w.listens(claim.Listener(key, TCP, 8080), "")
	w.listens(claim.HostListener(key, claim.HTTPListener, 8080, "a.example.com"), "ListenerSet young/web")
	w.eventually("the conflicts to be counted", func() error { return is(w.metric(`portcullis_guard_conflicts{kind="ListenerSet"}`), 3) })
	must(w, tryEdit(w, old, func(set *gatewayv1.ListenerSet) { set.Labels = map[string]string{"a": "b"} })) // what stands is not refused

	t.Log("who gives way is nobody's loss any longer, and who waited has it")
	w.delete(unknown)
	w.listens(claim.Listener(key, TCP, 7700), "ListenerSet young/second")
	edit(w, old, func(set *gatewayv1.ListenerSet) {
		set.Spec.Listeners = []gatewayv1.ListenerEntry{listen("TCP", 7600, "")}
	})
	w.eventually("no conflict to be counted", func() error { return is(w.metric(`portcullis_guard_conflicts{kind="ListenerSet"}`), 0) })
}

// TestGuardOnASharedAddress has Gateways with one address, of which each listens where the other must not.
func TestGuardOnASharedAddress(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	w.create(namespace("infra"), namespace("young"), namespace("old"))
	first, second := w.openGateway("infra/first"), w.openGateway("infra/second")
	lists := func(g *gatewayv1.Gateway, ip string) {
		t.Helper()
		w.get(g)
		g.Status.Addresses = []gatewayv1.GatewayStatusAddress{{Type: ptr.To(gatewayv1.IPAddressType), Value: ip}}
		must(w, w.Client.Status().Update(t.Context(), g))
	}
	lists(first, "192.0.2.17")
	early, late := listenerSet("old/early", first, listen("TCP", 7500, "")), listenerSet("young/late", second, listen("TCP", 7500, ""), listen("TCP", 7501, ""))
	w.create(early, late)
	key, other := client.ObjectKeyFromObject(first), client.ObjectKeyFromObject(second)
	w.listens(claim.Listener(key, TCP, 7500), "ListenerSet old/early")
	w.listens(claim.Listener(other, TCP, 7500), "ListenerSet young/late")

	t.Log("when they come to have one in common, the first that was served has the point, and the other is told")
	lists(second, "192.0.2.17")
	w.told("ListenerSet", "late", v1beta1.ReasonPortConflict, "TCP/7500 on Gateway infra/first is held by ListenerSet old/early")
	w.told("Gateway", "second", v1beta1.ReasonPortConflict, "HTTP/* at port 80 on Gateway infra/first is held by Gateway infra/first")
	w.listens(claim.Listener(key, TCP, 7501), "ListenerSet young/late")
	w.refusedFor(w.toCreate(listenerSet("old/refused", first, listen("TCP", 7501, ""))), "spec.listeners[0].port", "held by ListenerSet young/late")
	w.refusedFor(w.toCreate(listenerSet("young/refused", second, listen("HTTP", 80, ""))), "spec.listeners[0].port", "held by Gateway infra/")

	t.Log("and when they no longer do, nothing is left of one on the other")
	lists(second, "192.0.2.18")
	w.listens(claim.Listener(key, TCP, 7501), "")
	w.listens(claim.Listener(other, TCP, 7501), "ListenerSet young/late")
	w.create(listenerSet("old/free", first, listen("TCP", 7501, "")))

	t.Log("what somebody takes out of the ledger by hand comes back, and the second reader agrees")
	must(w, w.Client.DeleteAllOf(t.Context(), &v1beta1.EdgeClaim{}))
	for at, holder := range map[claim.Coordinate]string{
		claim.Listener(key, TCP, 7500):                                  "ListenerSet old/early",
		claim.Listener(other, TCP, 7500):                                "ListenerSet young/late",
		claim.Listener(other, claim.HTTPListener, 80):                   "Gateway infra/second",
		claim.HostListener(key, claim.HTTPListener, 80, claim.AllHosts): "Gateway infra/first",
	} {
		w.listens(at, holder)
	}
	done := func() float64 { return w.metric(`portcullis_ledger_audits_total{result="done"}`) }
	looks := done()
	w.eventually("the second reader to look again", func() error {
		if done() < looks+3 {
			return fmt.Errorf("it has looked %v times, and had %v before", done(), looks)
		}
		return nil
	})
	w.disagree(0, 0)
}

// TestGuardWarns says what would be refused, and refuses nothing.
func TestGuardWarns(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String(), "--guard=all=Warn"}})
	w.create(namespace("infra"), namespace("young"), namespace("old"))
	edge := w.openGateway("infra/edge")
	young := listenerSet("young/web", edge, listen("TCP", 7500, ""))
	w.create(young)
	w.listens(claim.Listener(client.ObjectKeyFromObject(edge), TCP, 7500), "ListenerSet young/web")
	k := w.warned()
	must(w, k.Create(t.Context(), listenerSet("old/web", edge, listen("TCP", 7500, ""))))
	mustContain(t, k.said(), "portcullis would refuse this: spec.listeners[0].port", "held by ListenerSet young/web")
	w.told("ListenerSet", "web", v1beta1.ReasonPortConflict, "held by ListenerSet young/web")
	w.eventually("the warning to be counted", func() error {
		return is(w.metric(`portcullis_admission_decisions_total{decision="warned",kind="ListenerSet",operation="create",reason="PortConflict"}`), 1)
	})
}
