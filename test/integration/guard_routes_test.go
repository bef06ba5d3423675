package integration

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// routable is a listener of a Gateway to which routes of some namespaces attach.
func routable(name string, protocol gatewayv1.ProtocolType, port int32, from gatewayv1.FromNamespaces) gatewayv1.Listener {
	l := gatewayv1.Listener{Name: gatewayv1.SectionName(name), Protocol: protocol, Port: port}
	l.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &from}}
	if protocol == gatewayv1.TLSProtocolType {
		l.TLS, l.Hostname = &gatewayv1.ListenerTLSConfig{Mode: ptr.To(gatewayv1.TLSModePassthrough)}, ptr.To(gatewayv1.Hostname("*.example.com"))
	}
	return l
}

// onListener is a reference to a listener, to all that a route attaches to for "".
func onListener(of client.Object, listener string) gatewayv1.ParentReference {
	ref := gatewayv1.ParentReference{Namespace: ptr.To(gatewayv1.Namespace(of.GetNamespace())), Name: gatewayv1.ObjectName(of.GetName())}
	if _, is := of.(*gatewayv1.ListenerSet); is {
		ref.Kind = ptr.To(gatewayv1.Kind("ListenerSet"))
	}
	if listener != "" {
		ref.SectionName = ptr.To(gatewayv1.SectionName(listener))
	}
	return ref
}

func routeMeta(key string) metav1.ObjectMeta {
	ns, name, _ := strings.Cut(key, "/")
	return metav1.ObjectMeta{Namespace: ns, Name: name}
}

var routedTo = []gatewayv1.BackendRef{{BackendObjectReference: gatewayv1.BackendObjectReference{Name: "web", Port: ptr.To(int32(80))}}}

func tcpRoute(key string, refs ...gatewayv1.ParentReference) *gatewayv1.TCPRoute {
	return &gatewayv1.TCPRoute{ObjectMeta: routeMeta(key), Spec: gatewayv1.TCPRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: refs}, Rules: []gatewayv1.TCPRouteRule{{BackendRefs: routedTo}},
	}}
}

func udpRoute(key string, refs ...gatewayv1.ParentReference) *gatewayv1.UDPRoute {
	return &gatewayv1.UDPRoute{ObjectMeta: routeMeta(key), Spec: gatewayv1.UDPRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: refs}, Rules: []gatewayv1.UDPRouteRule{{BackendRefs: routedTo}},
	}}
}

func tlsRoute(key string, on gatewayv1.ParentReference, hosts ...gatewayv1.Hostname) *gatewayv1.TLSRoute {
	return &gatewayv1.TLSRoute{ObjectMeta: routeMeta(key), Spec: gatewayv1.TLSRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{on}}, Hostnames: hosts,
		Rules: []gatewayv1.TLSRouteRule{{BackendRefs: routedTo}},
	}}
}

// TestGuardRoutes leads a life of routes on listeners that serve one.
func TestGuardRoutes(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	w.create(namespace("infra"), namespace("young"), namespace("old"))
	edge := w.openGateway("infra/edge",
		routable("sql", gatewayv1.TCPProtocolType, 7000, gatewayv1.NamespacesFromAll), routable("more", gatewayv1.TCPProtocolType, 7001, gatewayv1.NamespacesFromAll),
		routable("dns", gatewayv1.UDPProtocolType, 7000, gatewayv1.NamespacesFromAll), routable("own", gatewayv1.TCPProtocolType, 7002, gatewayv1.NamespacesFromSame),
		routable("tls", gatewayv1.TLSProtocolType, 7443, gatewayv1.NamespacesFromAll))
	at := func(listener string) claim.Coordinate {
		return claim.Route(claim.Section{Kind: "Gateway", Namespace: "infra", Name: "edge", Listener: listener}, TCP)
	}
	tlsAt := func(host string) claim.Coordinate {
		return claim.HostRoute(claim.Section{Kind: "Gateway", Namespace: "infra", Name: "edge", Listener: "tls"}, host)
	}

	t.Log("a listener of TCP or UDP serves one route, and an older object takes none by an edit")
	old, young := tcpRoute("old/db", onListener(edge, "more")), tcpRoute("young/db", onListener(edge, "sql"))
	w.create(old)
	w.create(young, udpRoute("young/dns", onListener(edge, "dns")))
	w.listens(at("sql"), "TCPRoute young/db")
	w.refusedFor(w.toCreate(tcpRoute("old/second", onListener(edge, "sql"))), "spec.parentRefs[0]", "held by TCPRoute young/db since 20",
		"on listener sql of Gateway infra/edge; it serves one route", "have all backends in that one")
	w.refusedFor(toEdit(w, old, func(r *gatewayv1.TCPRoute) { r.Spec.ParentRefs[0] = onListener(edge, "sql") }), "spec.parentRefs[0]", "held by TCPRoute young/db")
	w.refusedFor(w.toCreate(udpRoute("old/dns", onListener(edge, "dns"))), "spec.parentRefs[0]", "held by UDPRoute young/dns")
	edit(w, young, func(r *gatewayv1.TCPRoute) { r.Spec.Rules[0].BackendRefs[0].Name = "other" })

	t.Log("a reference to no listener in particular is one to all that let the route attach")
	w.refusedFor(w.toCreate(tcpRoute("old/all", onListener(edge, ""))), "spec.parentRefs[0]", "held by TCPRoute")
	w.create(tcpRoute("old/stranger", onListener(edge, "own")), tcpRoute("old/nowhere", onListener(edge, "none")))
	w.create(tcpRoute("infra/own", onListener(edge, "own")))
	w.listens(at("own"), "TCPRoute infra/own")

	t.Log("host names are told apart, as far as the listener has them")
	w.create(tlsRoute("young/tls", onListener(edge, "tls"), "a.example.com", "a.example.org"))
	w.listens(tlsAt("a.example.com"), "TLSRoute young/tls")
	w.create(tlsRoute("old/wild", onListener(edge, "tls"), "*.example.com"), tlsRoute("old/b", onListener(edge, "tls"), "b.example.com", "a.example.org"))
	w.refusedFor(w.toCreate(tlsRoute("old/tls", onListener(edge, "tls"), "c.example.com", "a.example.com")), "spec.hostnames[1]",
		"held by TLSRoute young/tls since 20", "it serves one route for a.example.com")
	w.listens(tlsAt("c.example.com"), "")

	t.Log("what is left is free, also where the listener goes")
	w.delete(young)
	w.listens(at("sql"), "")
	edit(w, old, func(r *gatewayv1.TCPRoute) { r.Spec.ParentRefs[0] = onListener(edge, "sql") })
	w.listens(at("sql"), "TCPRoute old/db")
	w.listens(at("more"), "")
	edit(w, edge, func(g *gatewayv1.Gateway) {
		for i := range g.Spec.Listeners {
			if g.Spec.Listeners[i].Name == "sql" {
				g.Spec.Listeners[i].AllowedRoutes.Namespaces.From = ptr.To(gatewayv1.NamespacesFromSame)
			}
		}
	})
	w.listens(at("sql"), "")
	w.create(tcpRoute("infra/sql", onListener(edge, "sql")))
	w.listens(at("sql"), "TCPRoute infra/sql")

	t.Log("routes on ListenerSets, which come before or after them")
	early := tcpRoute("young/early", gatewayv1.ParentReference{Kind: ptr.To(gatewayv1.Kind("ListenerSet")), Name: "set", SectionName: ptr.To(gatewayv1.SectionName("p7600-0"))})
	w.create(early)
	set := listenerSet("young/set", edge, listen("TCP", 7600, ""))
	w.create(set)
	w.listens(claim.Route(claim.Section{Kind: "ListenerSet", Namespace: "young", Name: "set", Listener: "p7600-0"}, TCP), "TCPRoute young/early")
	w.refusedFor(w.toCreate(tcpRoute("young/late", onListener(set, "p7600-0"))), "spec.parentRefs[0]", "on listener p7600-0 of ListenerSet young/set")
	w.agreesAtLast()
}

// TestGuardTellsOfRoutes lets routes come in while no replica answers.
func TestGuardTellsOfRoutes(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("infra"), namespace("young"), namespace("old"))
	edge := w.openGateway("infra/edge", routable("sql", gatewayv1.TCPProtocolType, 7000, gatewayv1.NamespacesFromAll),
		routable("more", gatewayv1.TCPProtocolType, 7001, gatewayv1.NamespacesFromAll), routable("tls", gatewayv1.TLSProtocolType, 7443, gatewayv1.NamespacesFromAll))
	at := func(listener string) claim.Coordinate {
		return claim.Route(claim.Section{Kind: "Gateway", Namespace: "infra", Name: "edge", Listener: listener}, TCP)
	}
	old := tcpRoute("old/db", onListener(edge, "more"))
	w.create(old)
	w.create(tcpRoute("young/db", onListener(edge, "sql")), tlsRoute("young/tls", onListener(edge, "tls"), "a.example.com"))
	w.listens(at("sql"), "TCPRoute young/db")

	must(w, w.Replicas[0].Terminate())
	w.eventually("a route to come in while nobody answers", func() error {
		return tryEdit(w, old, func(r *gatewayv1.TCPRoute) { r.Spec.ParentRefs[0] = onListener(edge, "sql") })
	})
	w.create(tlsRoute("old/tls", onListener(edge, "tls"), "a.example.com"))
	first := tcpRoute("old/first", onListener(edge, "more"))
	w.create(first)
	time.Sleep(time.Second) // so that it is older, by the API server's clock
	w.create(tcpRoute("young/second", onListener(edge, "more")))
	_, err := w.StartReplica(t.Context())
	must(w, err)
	back := time.Now()
	w.told("TCPRoute", "db", v1beta1.ReasonRouteConflict, "spec.parentRefs[0]: the listener is held by TCPRoute young/db since 20", "by age and not by who had it")
	w.told("TLSRoute", "tls", v1beta1.ReasonRouteConflict, "spec.hostnames[0]: a.example.com is held by TLSRoute young/tls since 20")
	t.Logf("told %v after a replica was ready again", time.Since(back).Round(time.Millisecond))
	w.listens(at("sql"), "TCPRoute young/db")
	w.told("TCPRoute", "second", v1beta1.ReasonRouteConflict, "held by TCPRoute old/first")
	w.listens(at("more"), "TCPRoute old/first")
	w.eventually("the conflicts to be counted", func() error { return is(w.metric(`portcullis_guard_conflicts{kind="TCPRoute"}`), 2) })

	t.Log("who gives way is nobody's loss any longer, and who waited has it")
	w.delete(first)
	w.listens(at("more"), "TCPRoute young/second")
	w.eventually("the conflict to be gone", func() error { return is(w.metric(`portcullis_guard_conflicts{kind="TCPRoute"}`), 1) })
}

// TestGuardWarnsOfRoutes says what would be refused, refuses nothing, and has nothing to do with kinds that are not named.
func TestGuardWarnsOfRoutes(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String(), "--guard=TCPRoute=Warn"}})
	w.create(namespace("infra"), namespace("young"), namespace("old"))
	edge := w.openGateway("infra/edge", routable("sql", gatewayv1.TCPProtocolType, 7000, gatewayv1.NamespacesFromAll),
		routable("dns", gatewayv1.UDPProtocolType, 7000, gatewayv1.NamespacesFromAll))
	section := claim.Section{Kind: "Gateway", Namespace: "infra", Name: "edge", Listener: "sql"}
	w.create(tcpRoute("young/db", onListener(edge, "sql")), udpRoute("young/dns", onListener(edge, "dns")))
	w.listens(claim.Route(section, TCP), "TCPRoute young/db")
	k := w.warned()
	must(w, k.Create(t.Context(), tcpRoute("old/db", onListener(edge, "sql"))))
	mustContain(t, k.said(), "portcullis would refuse this: spec.parentRefs[0]", "held by TCPRoute young/db")
	w.told("TCPRoute", "db", v1beta1.ReasonRouteConflict, "held by TCPRoute young/db")
	w.create(udpRoute("old/dns", onListener(edge, "dns")))
	section.Listener = "dns"
	w.listens(claim.Route(section, UDP), "")
}

// TestGuardKeepsRoutesOfStreams has a tenant attach a route of its own to the listener of its stream.
func TestGuardKeepsRoutesOfStreams(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	class := gatewayClass("shared")
	w.create(class, namespace("team"), namespace("others"), service("team/web", port("http", 80)))
	w.newGateway(class, "192.0.2.19")
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	s := sti("team/web", of("shared"), tcp(5000))
	w.create(s)
	w.programmed(s)
	var sets gatewayv1.ListenerSetList
	must(w, w.Client.List(t.Context(), &sets, client.InNamespace("gw-shared")))
	if len(sets.Items) != 1 || len(sets.Items[0].Spec.Listeners) != 1 {
		t.Fatalf("the class has %d ListenerSets", len(sets.Items))
	}
	set := &sets.Items[0]
	w.refusedFor(w.toCreate(tcpRoute("team/mine", onListener(set, string(set.Spec.Listeners[0].Name)))), "spec.parentRefs[0]",
		"held by StreamIngress team/web since 20", `on the listener that Portcullis has made of StreamIngressClass "shared"`)
	w.create(tcpRoute("others/stranger", onListener(set, ""))) // which the listener does not let attach
	w.delete(s)
	w.eventually("the stream's claim to be gone", func() error { return is(w.pointHolder("stream.shared.tcp.5000"), "") })
	w.noneLeft(claim.Coordinate.IsRoute)
}

// TestGuardNoticesKindsLater installs a kind of routes while Portcullis runs.
func TestGuardNoticesKindsLater(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 0})
	kind := &unstructured.Unstructured{}
	kind.SetAPIVersion("apiextensions.k8s.io/v1")
	kind.SetKind("CustomResourceDefinition")
	kind.SetName("tlsroutes." + gatewayv1.GroupName)
	must(w, w.Client.Delete(t.Context(), kind))
	w.eventually("the kind to be gone", func() error {
		err := w.Client.List(t.Context(), &gatewayv1.TLSRouteList{})
		return is(meta.IsNoMatchError(err) || apierrors.IsNotFound(err), true)
	})
	_, err := w.StartReplica(t.Context())
	must(w, err)
	w.create(namespace("infra"), namespace("young"), namespace("old"))
	edge := w.openGateway("infra/edge", routable("sql", gatewayv1.TCPProtocolType, 7000, gatewayv1.NamespacesFromAll),
		routable("tls", gatewayv1.TLSProtocolType, 7443, gatewayv1.NamespacesFromAll))
	w.create(tcpRoute("young/db", onListener(edge, "sql")))
	w.refusedFor(w.toCreate(tcpRoute("old/db", onListener(edge, "sql"))), "spec.parentRefs[0]", "held by TCPRoute young/db")

	must(w, w.InstallGatewayKinds(t.Context(), "tlsroutes"))
	w.eventually("a TLSRoute to be stored", func() error {
		return w.try(tlsRoute("young/tls", onListener(edge, "tls"), "a.example.com"))
	})
	w.listens(claim.HostRoute(claim.Section{Kind: "Gateway", Namespace: "infra", Name: "edge", Listener: "tls"}, "a.example.com"), "TLSRoute young/tls")
	w.refusedFor(w.toCreate(tlsRoute("old/tls", onListener(edge, "tls"), "a.example.com")), "spec.hostnames[0]", "held by TLSRoute young/tls")
}
