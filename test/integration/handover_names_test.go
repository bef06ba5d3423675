package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// hearsOf waits until an event of a namespace says some texts.
func (w *fixture) hearsOf(namespace, kind, reason string, texts ...string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("an event %s in %s with %q", reason, namespace, texts), func() error {
		var list eventsv1.EventList
		must(w, w.Client.List(w.t.Context(), &list, client.InNamespace(namespace)))
		var notes []string
		for i := range list.Items {
			e := &list.Items[i]
			notes = append(notes, e.Type+" "+e.Regarding.Kind+" "+e.Regarding.Name+" "+e.Reason+": "+e.Note)
			if e.Type == kind && e.Reason == reason && saysAll(e.Regarding.Kind+" "+e.Regarding.Name+": "+e.Note, texts...) == nil {
				return nil
			}
		}
		return fmt.Errorf("there is %q", notes)
	})
}

// TestHandOverNames has namespaces hand over host names that are theirs, and paths of routes: to who is named by all objects that have
// them.
func TestHandOverNames(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	w.create(namespace("infra"), namespace("name-a"), namespace("name-b"), namespace("name-c"))
	edge := w.openGateway("infra/edge", routable("open", gatewayv1.HTTPProtocolType, 8080, gatewayv1.NamespacesFromAll))
	on, key := onListener(edge, "open"), client.ObjectKeyFromObject(edge)
	w.create(hostPolicy("own", []string{"*.own.test"}, ownsNames))
	w.policiesCount("the policy", unreadable("name-c/early"))
	const normal, warning = corev1.EventTypeNormal, corev1.EventTypeWarning

	t.Log("a name, from an Ingress to a route: a refusal tells how, nobody else gets it, and both are told")
	const www = "www.own.test"
	giver, heir := ingressOn("name-a/web", "/", www), httpRoute("name-b/web", on, www)
	w.create(giver)
	w.nameHeldBy(www, "Namespace name-a")
	w.refusedFor(w.toCreate(heir), "spec.hostnames[0]", "held by Namespace name-a", "or have it handed over: all objects of namespace name-a that "+
		"use it need the annotation nginx-stream.jeffthecoder.xyz/hand-over-to: name-b/web")
	edit(w, giver, handsOverTo[*networkingv1.Ingress]("name-b/web"))
	w.refusedFor(w.toCreate(httpRoute("name-b/other", on, www)), "spec.hostnames[0]", "held by Namespace name-a")
	w.refusedFor(w.toCreate(ingressOn("name-c/web", "/", www)), "spec.rules[0].host", "held by Namespace name-a")
	w.untilStored("a dry run of the one that is named", func() error {
		return w.Client.Create(t.Context(), heir.DeepCopy(), client.DryRunAll)
	})
	w.nameHeldBy(www, "Namespace name-a")
	w.untilStored("creating the one that is named", func() error { return w.try(heir) })
	w.nameHeldBy(www, "Namespace name-b")
	w.hearsOf("name-a", normal, v1beta1.ReasonHandedOver, "Namespace name-a", www+" of hostname is handed over to Namespace name-b")
	w.hearsOf("name-b", normal, v1beta1.ReasonTookOver, "Namespace name-b", www+" of hostname is taken over from Namespace name-a")
	w.hearsOf("name-a", normal, v1beta1.ReasonHandedOver, "Ingress web: ", www, "it was handed over", "delete this object")
	w.refusedFor(w.toCreate(ingressOn("name-a/again", "/", www)), "spec.rules[0].host", "held by Namespace name-b")
	w.create(httpRoute("name-b/other", on, www))

	t.Log("a name that several objects use, and the Service of an Ingress: all of them have to say so")
	const api = "api.own.test"
	svc, dns, next := asking("name-a/api", "host="+api), inDNS(service("name-a/dns", port("", 80)), api), asking("name-c/api", "host="+api)
	w.create(svc, dns)
	w.serves(svc, "Prefix api.own.test/ -> api:80")
	edit(w, svc, handsOverTo[*corev1.Service]("name-c/api"))
	w.refusedFor(w.toCreate(next), "metadata.annotations[ingress/http]", "held by Namespace name-a", "all objects of namespace name-a that use it")
	edit(w, dns, handsOverTo[*corev1.Service]("name-c/api"))
	w.eventually("the name to be handed over", func() error { return w.try(next) }) // once nothing else that was admitted can come to use it
	w.nameHeldBy(api, "Namespace name-c")
	w.serves(next, "Prefix api.own.test/ -> api:80")
	w.serves(svc, "")
	w.pathHeldBy(api, "/", "Service name-c/api")

	t.Log("one name of several of a Service, whose Ingress follows what it asks for of the others; who is refused another one is promised none")
	const one, other = "one.own.test", "other.own.test"
	several := asking("name-a/several", "host="+one+", host="+other)
	w.create(several)
	w.serves(several, "Prefix one.own.test/ -> several:80\nPrefix other.own.test/ -> several:80")
	edit(w, several, handsOverTo[*corev1.Service]("name-b/one"))
	w.refusedFor(w.toCreate(httpRoute("name-b/one", on, one, api)), "spec.hostnames[1]", "held by Namespace name-c")
	unpromised := &v1beta1.EdgeClaim{}
	must(w, w.Client.Get(t.Context(), client.ObjectKey{Name: claim.Hostname(one).Name()}, unpromised))
	if unpromised.Spec.Heir != nil {
		t.Errorf("by a request that was refused, %s is promised to %v", one, unpromised.Spec.Heir)
	}
	w.untilStored("creating the one that is named for one name", func() error { return w.try(httpRoute("name-b/one", on, one)) })
	w.nameHeldBy(one, "Namespace name-b")
	w.hearsOf("name-a", normal, v1beta1.ReasonHandedOver, "Service several: ", one, "it was handed over", "take that out of it")
	edit(w, several, func(svc *corev1.Service) {
		svc.Annotations["ingress/http"] = "host=" + one + ", host=" + other + ", path=/, path=/more"
	})
	w.serves(several, "Prefix one.own.test/ -> several:80\nPrefix other.own.test/ -> several:80\nPrefix other.own.test/more -> several:80")
	w.nameHeldBy(other, "Namespace name-a")
	if holder := w.pathHolder(one, "/more"); holder != "" {
		t.Errorf("on a name that it has handed over, a path more is held by %s", holder)
	}

	t.Log("within a namespace, a Service that hands over goes on with all that it has")
	inside := asking("name-a/inside", "host=inside.own.test")
	w.create(inside)
	w.serves(inside, "Prefix inside.own.test/ -> inside:80")
	edit(w, inside, handsOverTo[*corev1.Service]("name-a/next"))
	edit(w, inside, func(svc *corev1.Service) {
		svc.Annotations["ingress/http"] = "host=inside.own.test, path=/, path=/more"
	})
	w.serves(inside, "Prefix inside.own.test/ -> inside:80\nPrefix inside.own.test/more -> inside:80")

	t.Log("paths of routes, some of those that one has; a rival gets none")
	const host = "shared.test"
	pathHeldBy := func(path, want string) {
		t.Helper()
		w.pointHeldBy(claim.HTTP(host, path).OnGateway(key).Name(), want)
	}
	field := "spec.rules[0].matches[0].path"
	old, canary := routePaths(httpRoute("name-a/old", on, host), "/shop", "/stays"), routePaths(httpRoute("name-a/canary", on, host), "/shop")
	taker := routePaths(httpRoute("name-b/new", on, host), "/shop")
	w.create(old, canary)
	pathHeldBy("/stays", "Namespace name-a")
	w.refusedFor(w.toCreate(taker), field, "path /shop on host shared.test of Gateway infra/edge is held by Namespace name-a",
		"all objects of namespace name-a that serve it need the annotation nginx-stream.jeffthecoder.xyz/hand-over-to: name-b/new")
	edit(w, old, handsOverTo[*gatewayv1.HTTPRoute]("name-b/new"))
	w.refusedFor(w.toCreate(taker), field, "held by Namespace name-a") // the canary does not say so
	edit(w, canary, handsOverTo[*gatewayv1.HTTPRoute]("name-b/new"))
	w.refusedFor(w.toCreate(routePaths(httpRoute("name-c/new", on, host), "/shop")), field, "held by Namespace name-a")
	both := annotatedFor(taker.DeepCopy(), "name-c/x")
	w.refusedFor(w.toCreate(both), field, "this object can't take anything over while it has the annotation")
	w.untilStored("creating the one that is named", func() error { return w.try(taker) })
	pathHeldBy("/shop", "Namespace name-b")
	pathHeldBy("/stays", "Namespace name-a")
	w.hearsOf("name-a", normal, v1beta1.ReasonHandedOver, "HTTPRoute canary: ", "path /shop on host shared.test", "it was handed over")
	w.delete(canary)
	edit(w, old, func(r *gatewayv1.HTTPRoute) { routePaths(r, "/stays") })
	w.refusedFor(toEdit(w, old, func(r *gatewayv1.HTTPRoute) { routePaths(r, "/stays", "/shop") }), "spec.rules[1].matches[0].path", "held by Namespace name-b")

	t.Log("by a change, and back again")
	back := routePaths(httpRoute("name-a/back", on, host), "/back")
	w.create(back)
	edit(w, taker, handsOverTo[*gatewayv1.HTTPRoute]("name-a/back"))
	w.untilStored("changing the one that is named", toEdit(w, back, func(r *gatewayv1.HTTPRoute) { routePaths(r, "/back", "/shop") }))
	pathHeldBy("/shop", "Namespace name-a")
	w.delete(taker)
	pathHeldBy("/shop", "Namespace name-a")

	t.Log("who came past admission takes over once it is named, whichever comes first; who is not named is told")
	late, rival := routePaths(httpRoute("name-b/late", on, host), "/shop"), routePaths(httpRoute("name-c/late", on, host), "/shop")
	named := httpRoute("name-a/late", on, www) // which name-b has
	restore := w.withoutConfiguration("portcullis-guard", routePaths(httpRoute("name-c/probe", on, host), "/shop"), "held by Namespace name-a")
	w.create(late, rival, named)
	restore()
	w.hearsOf("name-c", warning, v1beta1.ReasonHostConflict, "HTTPRoute late: ", "held by Namespace name-a", "choose another host or path")
	edit(w, back, handsOverTo[*gatewayv1.HTTPRoute]("name-b/late"))
	pathHeldBy("/shop", "Namespace name-b")
	edit(w, heir, handsOverTo[*gatewayv1.HTTPRoute]("name-a/late"))
	w.nameHeldBy(www, "Namespace name-b") // of two objects there one says so
	edit(w, httpRoute("name-b/other", on, www), handsOverTo[*gatewayv1.HTTPRoute]("name-a/late"))
	w.nameHeldBy(www, "Namespace name-a")
	w.agreesAtLast()
}

// annotatedFor is an object that says to whom it hands over what it has.
func annotatedFor[T client.Object](obj T, heir string) T {
	handsOverTo[T](heir)(obj)
	return obj
}

// TestHandOverListeners has routes hand over what they have of listeners: all of one, or a host name there.
func TestHandOverListeners(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	w.create(namespace("infra"), namespace("door-a"), namespace("door-b"), namespace("door-c"))
	edge := w.openGateway("infra/edge", routable("tcp", gatewayv1.TCPProtocolType, 7000, gatewayv1.NamespacesFromAll),
		routable("tls", gatewayv1.TLSProtocolType, 7443, gatewayv1.NamespacesFromAll))
	of := func(listener string) claim.Section {
		return claim.Section{Kind: "Gateway", Namespace: "infra", Name: "edge", Listener: listener}
	}
	listener, host := claim.Route(of("tcp"), TCP).Name(), claim.HostRoute(of("tls"), "db.example.com").Name()
	const normal = corev1.EventTypeNormal

	t.Log("a listener, by a create; nobody else gets it")
	giver, heir := tcpRoute("door-a/db", onListener(edge, "tcp")), tcpRoute("door-b/db", onListener(edge, "tcp"))
	w.create(giver)
	w.pointHeldBy(listener, "TCPRoute door-a/db")
	w.refusedFor(w.toCreate(heir), "spec.parentRefs[0]", "held by TCPRoute door-a/db",
		"or have its holder hand it over, by the annotation nginx-stream.jeffthecoder.xyz/hand-over-to: door-b/db")
	edit(w, giver, handsOverTo[*gatewayv1.TCPRoute]("door-b/db"))
	w.refusedFor(w.toCreate(tcpRoute("door-c/db", onListener(edge, "tcp"))), "spec.parentRefs[0]", "held by TCPRoute door-a/db")
	w.refusedFor(w.toCreate(annotatedFor(heir.DeepCopy(), "door-c/db")), "spec.parentRefs[0]", "held by TCPRoute door-a/db")
	w.create(heir)
	w.pointHeldBy(listener, "TCPRoute door-b/db")
	w.hearsOf("door-a", normal, v1beta1.ReasonHandedOver, "TCPRoute db", "is handed over to TCPRoute door-b/db")
	w.hearsOf("door-b", normal, v1beta1.ReasonTookOver, "TCPRoute db", "is taken over from TCPRoute door-a/db")
	w.hearsOf("door-a", normal, v1beta1.ReasonHandedOver, "TCPRoute db", "the listener is held by TCPRoute door-b/db", "delete this route")
	w.delete(giver)
	w.pointHeldBy(listener, "TCPRoute door-b/db")

	t.Log("a host name, by a change; one that came past admission has it once it is named")
	tls := tlsRoute("door-a/tls", onListener(edge, "tls"), "db.example.com", "more.example.com")
	next := tlsRoute("door-b/tls", onListener(edge, "tls"), "other.example.com")
	w.create(tls, next)
	w.pointHeldBy(host, "TLSRoute door-a/tls")
	edit(w, tls, handsOverTo[*gatewayv1.TLSRoute]("door-b/tls"))
	edit(w, next, func(r *gatewayv1.TLSRoute) { r.Spec.Hostnames[0] = "db.example.com" })
	w.pointHeldBy(host, "TLSRoute door-b/tls")
	w.pointHeldBy(claim.HostRoute(of("tls"), "more.example.com").Name(), "TLSRoute door-a/tls")
	w.delete(tls)
	late := tlsRoute("door-c/tls", onListener(edge, "tls"), "db.example.com")
	restore := w.withoutConfiguration("portcullis-guard", tcpRoute("door-c/probe", onListener(edge, "tcp")), "held by TCPRoute door-b/db")
	w.create(late)
	restore()
	w.hearsOf("door-c", corev1.EventTypeWarning, v1beta1.ReasonRouteConflict, "TLSRoute tls", "held by TLSRoute door-b/tls")
	edit(w, next, handsOverTo[*gatewayv1.TLSRoute]("door-c/tls"))
	w.pointHeldBy(host, "TLSRoute door-c/tls")
	w.agreesAtLast()
}
