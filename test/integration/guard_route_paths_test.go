package integration

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// routePaths has an HTTPRoute serve some paths, as prefixes.
func routePaths(route *gatewayv1.HTTPRoute, paths ...string) *gatewayv1.HTTPRoute {
	route.Spec.Rules = nil
	for _, path := range paths {
		route.Spec.Rules = append(route.Spec.Rules, gatewayv1.HTTPRouteRule{Matches: []gatewayv1.HTTPRouteMatch{{
			Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: &path},
		}}})
	}
	return route
}

// calls has a GRPCRoute serve a method of a service.
func calls(route *gatewayv1.GRPCRoute, service, method string) *gatewayv1.GRPCRoute {
	route.Spec.Rules = []gatewayv1.GRPCRouteRule{{Matches: []gatewayv1.GRPCRouteMatch{{
		Method: &gatewayv1.GRPCMethodMatch{Service: &service, Method: &method},
	}}}}
	return route
}

// manyRoutePaths has an HTTPRoute serve so many paths.
func manyRoutePaths(route *gatewayv1.HTTPRoute, n int) *gatewayv1.HTTPRoute {
	route.Spec.Rules = make([]gatewayv1.HTTPRouteRule, (n+7)/8)
	for i := range n {
		rule := &route.Spec.Rules[i/8]
		rule.Matches = append(rule.Matches, gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Value: new(fmt.Sprintf("/%d", i))}})
	}
	return route
}

// routeDecisions is how often a replica has decided on an HTTPRoute.
func (w *fixture) routeDecisions() (sum float64) {
	for _, r := range w.Replicas {
		sum += float64(decisions(w, r, "HTTPRoute"))
	}
	return sum
}

// TestGuardRoutePaths leads a life of paths that namespaces share, by routes on Gateways.
func TestGuardRoutePaths(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	w.create(namespace("infra"), namespace("shop"), namespace("blog"))
	edge := w.openGateway("infra/edge", routable("open", gatewayv1.HTTPProtocolType, 8080, gatewayv1.NamespacesFromAll))
	inside := w.openGateway("infra/inside", routable("open", gatewayv1.HTTPProtocolType, 8080, gatewayv1.NamespacesFromAll))
	on, key := onListener(edge, "open"), client.ObjectKeyFromObject(edge)
	const host, field = "shared.paths.test", "spec.rules[0].matches[0].path"
	heldBy := func(host, path, want string) {
		t.Helper()
		w.pointHeldBy(claim.HTTP(host, path).OnGateway(key).Name(), want)
	}

	t.Log("a path is the namespace's that serves it first on a Gateway; another one on the host is anybody's, and so is each on another Gateway")
	web := routePaths(httpRoute("shop/web", on, host), "/login", "/logout")
	w.create(web)
	heldBy(host, "/login", "Namespace shop")
	held := "path /login on host " + host + " of Gateway infra/edge is held by Namespace shop since 20"
	w.refusedFor(w.toCreate(routePaths(httpRoute("blog/thief", on, host), "/login")), field, held, "choose another host or path")
	w.refusedFor(w.toCreate(routePaths(httpRoute("blog/thief", on, "mine.test", host), "/mine", "/login/")), "spec.rules[1].matches[0].path", held)
	own := routePaths(httpRoute("blog/own", on, host), "/blog")
	w.create(own, routePaths(httpRoute("blog/inside", onListener(inside, "open"), host), "/login"),
		routePaths(httpRoute("blog/elsewhere", onListener(edge, "web"), host), "/login")) // which does not let it attach
	w.refusedFor(toEdit(w, httpRoute("blog/own", on), func(r *gatewayv1.HTTPRoute) { routePaths(r, "/blog", "/logout") }),
		"spec.rules[1].matches[0].path", "path /logout on host "+host)
	w.create(calls(grpcRoute("shop/grpc", on, host), "shop.Carts", "Add"))
	heldBy(host, "/shop.Carts/Add", "Namespace shop")
	w.refusedFor(w.toCreate(calls(grpcRoute("blog/grpc", on, host), "shop.Carts", "Add")), "spec.rules[0].matches[0].method", "path /shop.Carts/Add on host")
	w.create(calls(grpcRoute("blog/grpc", on, host), "shop.Carts", "Remove"))
	w.create(manyRoutePaths(httpRoute("blog/many", on, "a.many.test", "b.many.test"), 100))
	var many []gatewayv1.Hostname
	for i := range 11 {
		many = append(many, gatewayv1.Hostname(fmt.Sprintf("%d.many.test", i)))
	}
	w.refusedFor(w.toCreate(manyRoutePaths(httpRoute("blog/more", on, many...), 100)),
		"spec.rules", "a route may have at most 1024 hosts and paths on all Gateways together")
	w.create(manyRoutePaths(httpRoute("blog/more", on, many[:3]...), 100))
	heldBy("2.many.test", "/99", "Namespace blog") // beyond those that are claimed when it is written

	t.Log("who only asks whether it could has nothing")
	must(w, w.Client.Create(t.Context(), routePaths(httpRoute("blog/dry", on, host), "/dry"), client.DryRunAll))
	if holder := w.pointHolder(claim.HTTP(host, "/dry").OnGateway(key).Name()); holder != "" {
		t.Errorf("a dry run has a path claimed for %s", holder)
	}

	t.Log("a change that leaves paths, names and Gateways alone is nobody's business")
	asked := w.routeDecisions()
	edit(w, httpRoute("blog/own", on), func(r *gatewayv1.HTTPRoute) {
		r.Spec.Rules[0].BackendRefs = []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
			BackendObjectReference: gatewayv1.BackendObjectReference{Name: "web", Port: new(gatewayv1.PortNumber(80))}, Weight: new(int32(3)),
		}}}
	})
	if now := w.routeDecisions(); now != asked {
		t.Errorf("%v decisions were made on a change of weights", now-asked)
	}

	t.Log("names that a route takes over from a listener, of a ListenerSet for instance, are served on its Gateway")
	set := listenerSet("shop/doors", edge, listen(gatewayv1.HTTPProtocolType, 9090, "set.paths.test"))
	set.Spec.Listeners[0].AllowedRoutes = routable("", "", 0, gatewayv1.NamespacesFromAll).AllowedRoutes
	w.create(set)
	w.create(routePaths(httpRoute("shop/inherits", onListener(set, "")), "/set"))
	heldBy("set.paths.test", "/set", "Namespace shop")
	w.refusedFor(w.toCreate(routePaths(httpRoute("blog/thief", on, "set.paths.test"), "/set")), field, "path /set on host set.paths.test of Gateway infra/edge")
	w.refusedFor(w.toCreate(routePaths(httpRoute("blog/thief", onListener(set, ""), "*.paths.test"), "/set")), field, "path /set on host set.paths.test")

	t.Log("in its own namespace nothing is refused, and it stays the namespace's when the first is gone")
	w.create(routePaths(httpRoute("shop/canary", on, host), "/login"))
	w.delete(web)
	heldBy(host, "/logout", "")
	w.refusedFor(w.toCreate(routePaths(httpRoute("blog/thief", on, host), "/login")), field, held)
	w.eventually("the path to be free for every replica", func() error {
		return tryEdit(w, httpRoute("blog/own", on), func(r *gatewayv1.HTTPRoute) { routePaths(r, "/blog", "/logout") })
	})
	heldBy(host, "/logout", "Namespace blog")

	t.Log("a path is free when no listener serves the routes any longer")
	w.delete(set)
	heldBy("set.paths.test", "/set", "")

	t.Log("a listener that comes later has paths served that nobody asked for: what is free is theirs, and who lost is told")
	late := routePaths(httpRoute("blog/late", onListener(edge, "late"), host), "/login", "/late")
	w.create(late)
	edit(w, edge, func(g *gatewayv1.Gateway) {
		g.Spec.Listeners = append(g.Spec.Listeners, routable("late", gatewayv1.HTTPProtocolType, 8081, gatewayv1.NamespacesFromAll))
	})
	w.told("HTTPRoute", "late", v1beta1.ReasonHostConflict, held, "choose another host or path")
	heldBy(host, "/late", "Namespace blog")
	edit(w, edge, func(g *gatewayv1.Gateway) { g.Spec.Listeners = g.Spec.Listeners[:2] })
	heldBy(host, "/late", "")
	w.eventually("nothing to be lost any longer", func() error { return is(w.metric(`portcullis_guard_conflicts{kind="HTTPRoute"}`), 0) })

	t.Log("what gets past is told, and is not refused what it has")
	past := routePaths(httpRoute("blog/past", on, host), "/login", "/past")
	restore := w.withoutConfiguration("portcullis-guard", routePaths(httpRoute("blog/probe", on, host), "/login"), "path /login on host")
	w.create(past)
	restore()
	w.told("HTTPRoute", "past", v1beta1.ReasonHostConflict, held, "choose another host or path")
	heldBy(host, "/past", "Namespace blog")
	edit(w, past, func(r *gatewayv1.HTTPRoute) { routePaths(r, "/past", "/login", "/more") })
	w.delete(past)

	t.Log("where a policy gives the name to one namespace, that alone counts")
	w.create(hostPolicy("own", []string{"*.own.test"}, ownsNames))
	w.policiesCount("the policy", unreadable("blog/early"))
	w.create(routePaths(httpRoute("shop/mine", on, "www.own.test"), "/"), routePaths(httpRoute("shop/mine-too", on, "www.own.test"), "/"))
	w.refusedFor(w.toCreate(routePaths(httpRoute("blog/thief", on, "www.own.test"), "/other")), "spec.hostnames[0]", "held by Namespace shop")
	w.agreesAtLast()
	if holder := w.pointHolder(claim.HTTP("www.own.test", "/").OnGateway(key).Name()); holder != "" { // it would have been entered by then
		t.Errorf("a path of a name that is one namespace's is held by %s", holder)
	}
}

// TestNoDoubleRoutePath has HTTPRoutes and GRPCRoutes of several namespaces race for one path, by creates and by edits, over two replicas.
func TestNoDoubleRoutePath(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("infra"))
	edge := w.openGateway("infra/edge", routable("open", gatewayv1.HTTPProtocolType, 8080, gatewayv1.NamespacesFromAll))
	on := onListener(edge, "open")
	users := w.creators("route-paths", rivals)
	w.race(*guardRaces, func(round int) kindRace {
		host := gatewayv1.Hostname(fmt.Sprintf("r%d.paths.test", round))
		at := claim.HTTP(string(host), "/shop.Carts/Add").OnGateway(client.ObjectKeyFromObject(edge))
		race := kindRace{points: []claim.Coordinate{at}}
		for i, c := range users {
			name := fmt.Sprintf("%s/round-%d", c.namespace, round)
			one := &rival{holder: claim.NamespaceHolder(c.namespace)}
			var obj client.Object
			switch (i + round) % 3 { // so that each kind begins ahead of the others at times
			case 0:
				obj, one.kind = routePaths(httpRoute(name, on, host), at.Path()), "HTTPRoute"
			case 1:
				obj, one.kind = calls(grpcRoute(name, on, host), "shop.Carts", "Add"), "GRPCRoute"
			default: // by an edit
				stored := routePaths(httpRoute(name, on, host), "/"+c.namespace)
				obj, one.kind = stored, "edited HTTPRoute"
				w.create(stored.DeepCopy())
				one.try = editing(c.Client, stored, func(r *gatewayv1.HTTPRoute) { routePaths(r, "/"+c.namespace, at.Path()) })
			}
			if one.try == nil {
				one.try = creating(c.Client, func() client.Object { return obj.DeepCopyObject().(client.Object) })
			}
			one.undo = func() { w.takesBack(obj.DeepCopyObject().(client.Object)) }
			race.rivals = append(race.rivals, one)
		}
		return race
	}, "HTTPRoute", "GRPCRoute", "edited HTTPRoute")
	w.noneLeft(claim.Coordinate.IsRoutePath)
	w.decidedBoth("HTTPRoute", "GRPCRoute")
}
