package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// policyOption changes a HostPolicy.
type policyOption func(*v1beta1.HostPolicy)

// hostPolicy is a HostPolicy of some hosts.
func hostPolicy(name string, hosts []string, options ...policyOption) *v1beta1.HostPolicy {
	p := &v1beta1.HostPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.HostPolicySpec{Hosts: hosts}}
	for _, option := range options {
		option(p)
	}
	return p
}

// ownsNames gives each name to one namespace.
func ownsNames(p *v1beta1.HostPolicy) { p.Spec.Sharing = v1beta1.ShareNamespace }

// selects selects namespaces by a label, key=value.
func selects(label string) policyOption {
	key, value, _ := strings.Cut(label, "=")
	return func(p *v1beta1.HostPolicy) {
		p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
}

// ingressOn is an Ingress that serves a path of some hosts.
func ingressOn(key, path string, hosts ...string) *networkingv1.Ingress {
	ing := foreignIngress(key, "", path)
	rule := ing.Spec.Rules[0]
	ing.Spec.Rules = nil
	for _, host := range hosts {
		rule.Host = host
		ing.Spec.Rules = append(ing.Spec.Rules, *rule.DeepCopy())
	}
	return ing
}

func httpRoute(key string, on gatewayv1.ParentReference, hosts ...gatewayv1.Hostname) *gatewayv1.HTTPRoute {
	return &gatewayv1.HTTPRoute{ObjectMeta: routeMeta(key), Spec: gatewayv1.HTTPRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{on}}, Hostnames: hosts,
	}}
}

func grpcRoute(key string, on gatewayv1.ParentReference, hosts ...gatewayv1.Hostname) *gatewayv1.GRPCRoute {
	return &gatewayv1.GRPCRoute{ObjectMeta: routeMeta(key), Spec: gatewayv1.GRPCRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{on}}, Hostnames: hosts,
	}}
}

// unreadable is an Ingress that may serve any name.
func unreadable(key string) *networkingv1.Ingress {
	ing := ingressOn(key, "/", "mine.test")
	ing.Annotations = map[string]string{v1beta1.AnnotationServerAlias: `~^www\d*\.own\.test$`}
	return ing
}

// inDNS has external-dns make names lead to an object.
func inDNS[T client.Object](obj T, names string) T {
	obj.SetAnnotations(map[string]string{v1beta1.AnnotationExternalDNS: names})
	return obj
}

// nameHeldBy waits until a host name is held as wanted; with "" until nobody holds it.
func (w *fixture) nameHeldBy(host, want string) {
	w.t.Helper()
	w.pointHeldBy(claim.Hostname(host).Name(), want)
}

// policiesCount waits until both replicas know of policies, by which an object is refused. The API server asks either of them.
func (w *fixture) policiesCount(what string, refused client.Object) {
	w.t.Helper()
	w.eventually(what+" to count for both replicas", func() error {
		for range 12 {
			err := w.Client.Create(w.t.Context(), refused.DeepCopyObject().(client.Object), client.DryRunAll)
			if !apierrors.IsInvalid(err) {
				return fmt.Errorf("%s is not refused: %w", client.ObjectKeyFromObject(refused), err)
			}
		}
		return nil
	})
}

// TestGuardHosts leads a life of host names that belong to namespaces, in all kinds of objects.
func TestGuardHosts(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	w.create(namespace("infra"), namespace("shop", "team=shop"), namespace("blog", "team=blog"))
	edge := w.openGateway("infra/edge",
		routable("tls", gatewayv1.TLSProtocolType, 7443, gatewayv1.NamespacesFromAll),
		gatewayv1.Listener{Name: "named", Protocol: gatewayv1.HTTPProtocolType, Port: 8080, Hostname: new(gatewayv1.Hostname("listener.own.test")),
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromAll)}}})
	w.create(hostPolicy("own", []string{"*.own.test", "own.test"}, ownsNames), hostPolicy("shop", []string{"*.shop.own.test"}, ownsNames, selects("team=shop")),
		hostPolicy("shared", []string{"*.shared.test"}, selects("team=blog")))
	w.policiesCount("the policies", ingressOn("shop/early", "/", "early.shared.test"))

	t.Log("who has a name first has all of it, by whatever kind")
	web := ingressOn("shop/web", "/", "www.own.test")
	w.create(web)
	w.nameHeldBy("www.own.test", "Namespace shop")
	login := "held by Namespace shop since 20"
	for name, obj := range map[string]client.Object{
		"spec.rules[0].host": ingressOn("blog/thief", "/login", "www.own.test"),
		"spec.hostnames[0]":  httpRoute("blog/thief", onListener(edge, "web"), "www.own.test"),
		"spec.hostnames[1]":  grpcRoute("blog/thief", onListener(edge, "web"), "mine.test", "www.own.test"),
		"metadata.annotations[external-dns.alpha.kubernetes.io/hostname]": inDNS(service("blog/thief", port("", 80)), "mine.test, WWW.own.test."),
		"metadata.annotations[ingress/http]":                              asking("blog/thief", "host=www.own.test, path=/login"),
	} {
		w.refusedFor(w.toCreate(obj), name, login, "by HostPolicy own a name is one namespace's", "use a name that nobody has")
	}
	w.refusedFor(w.toCreate(inDNS(httpRoute("blog/thief", onListener(edge, "web"), "mine.test"), "www.own.test")),
		"metadata.annotations[external-dns.alpha.kubernetes.io/hostname]", login)
	w.refusedFor(w.toCreate(inDNS(tcpRoute("blog/thief", onListener(edge, "web")), "www.own.test")),
		"metadata.annotations[external-dns.alpha.kubernetes.io/hostname]", login)
	alias := unreadable("blog/thief")
	alias.Annotations = map[string]string{v1beta1.AnnotationServerAlias: "www.own.test"}
	w.refusedFor(w.toCreate(alias), "metadata.annotations[nginx.ingress.kubernetes.io/server-alias]", login)
	w.refusedFor(w.toCreate(unreadable("blog/thief")), "metadata.annotations[nginx.ingress.kubernetes.io/server-alias]", "is a regular expression", "list the names")
	w.told("HostPolicy", "own", v1beta1.ReasonHostConflict, "blog/thief asked for a name in vain", "Namespace shop") // as the first refusal said it, which may have come before the replica knew of the holder

	t.Log("in its own namespace nothing is refused: a solver, a canary, another route, and the DNS")
	solver := ingressOn("shop/cm-acme-http-solver-x", "/.well-known/acme-challenge/x", "www.own.test")
	w.create(solver, ingressOn("shop/canary", "/", "www.own.test"), httpRoute("shop/api", onListener(edge, "web"), "www.own.test"),
		inDNS(service("shop/lb", port("", 80)), "www.own.test"))
	w.refusedFor(w.toCreate(ingressOn("blog/solver", "/.well-known/acme-challenge/x", "www.own.test")), "spec.rules[0].host", login)

	t.Log("a wildcard and the names below it are one namespace's, unless another policy is about them")
	w.refusedFor(w.toCreate(ingressOn("blog/all", "/", "*.own.test")), "spec.rules[0].host", "www.own.test, which overlaps, is held by Namespace shop")
	w.create(ingressOn("blog/deep", "/", "*.deep.own.test"))
	w.refusedFor(w.toCreate(httpRoute("shop/deep", onListener(edge, "web"), "a.b.deep.own.test")), "spec.hostnames[0]",
		"*.deep.own.test, which overlaps, is held by Namespace blog")
	w.create(ingressOn("shop/nested", "/", "a.shop.own.test"))
	w.refusedFor(w.toCreate(ingressOn("blog/nested", "/", "b.shop.own.test")), "spec.rules[0].host",
		`HostPolicy shop gives this name to other namespaces than "blog"`)

	t.Log("an Ingress of more hosts than can be kept in mind does not come in where names belong to namespaces")
	w.refusedFor(w.toCreate(func() client.Object {
		ing := ingressOn("blog/many", "/")
		for i := range exposure.MostEntries + 1 {
			ing.Spec.Rules = append(ing.Spec.Rules, networkingv1.IngressRule{Host: fmt.Sprintf("h%d.free.test", i)})
		}
		return ing
	}()), "spec.rules", "has more than 1024 hosts")

	t.Log("names that namespaces share are for those that the policy selects")
	w.create(ingressOn("blog/shared", "/", "a.shared.test"), ingressOn("shop/free", "/", "a.free.test"))
	w.refusedFor(w.toCreate(ingressOn("shop/shared", "/", "a.shared.test")), "spec.rules[0].host", `HostPolicy shared gives this name to other namespaces than "shop"`)
	w.nameHeldBy("a.shared.test", "")

	t.Log("a route without names has those of its listeners")
	w.create(httpRoute("blog/inherits", onListener(edge, "named")))
	w.nameHeldBy("listener.own.test", "Namespace blog")
	w.refusedFor(w.toCreate(httpRoute("shop/inherits", onListener(edge, "named"))), "spec.parentRefs[0]", "held by Namespace blog since 20")
	w.refusedFor(w.toCreate(httpRoute("shop/wide", onListener(edge, "named"), "*.test")), "spec.parentRefs[0]", "held by Namespace blog since 20")
	late := httpRoute("shop/late", onListener(edge, "late"))
	w.create(late, ingressOn("blog/late", "/", "late.own.test"))
	edit(w, edge, func(g *gatewayv1.Gateway) {
		l := *g.Spec.Listeners[2].DeepCopy()
		l.Name, l.Hostname = "late", new(gatewayv1.Hostname("late.own.test"))
		g.Spec.Listeners = append(g.Spec.Listeners, l)
	})
	w.told("HTTPRoute", "late", v1beta1.ReasonHostConflict, "spec.parentRefs[0]: late.own.test is held by Namespace blog")
	edit(w, edge, func(g *gatewayv1.Gateway) { g.Spec.Listeners[3].Hostname = new(gatewayv1.Hostname("later.own.test")) })
	w.nameHeldBy("later.own.test", "Namespace shop")
	edit(w, edge, func(g *gatewayv1.Gateway) { g.Spec.Listeners = g.Spec.Listeners[:3] })
	w.nameHeldBy("later.own.test", "")

	t.Log("what the annotation ingress/http asks for is the namespace's as well, and its Ingress comes in")
	svc := asking("shop/exposed", "host=exposed.own.test")
	w.create(svc)
	w.serves(svc, "Prefix exposed.own.test/ -> exposed:80")
	w.nameHeldBy("exposed.own.test", "Namespace shop")

	t.Log("a name is free when nothing in the namespace uses it any longer")
	w.refusedFor(toEdit(w, ingressOn("blog/deep", "/"), func(ing *networkingv1.Ingress) { ing.Spec.Rules[0].Host = "exposed.own.test" }),
		"spec.rules[0].host", "held by Namespace shop")
	w.delete(svc)
	w.nameHeldBy("exposed.own.test", "")
	edit(w, ingressOn("blog/deep", "/"), func(ing *networkingv1.Ingress) { ing.Spec.Rules[0].Host = "exposed.own.test" })
	w.nameHeldBy("exposed.own.test", "Namespace blog")
	w.nameHeldBy("*.deep.own.test", "")
	claimed := &v1beta1.EdgeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.Hostname("www.own.test").Name()}}
	w.get(claimed)
	w.delete(web) // the others use it
	again := claimed.UID

	t.Log("two policies don't have the same host")
	w.refusedFor(w.toCreate(hostPolicy("again", []string{"new.test", "*.own.test"})), "spec.hosts[1]", "HostPolicy own has it since 20")
	w.agreesAtLast()
	w.get(claimed)
	if claimed.UID != again {
		t.Error("a name that others use was given up in between")
	}
}

// TestGuardLimitsHosts asks for more names than a policy gives to one namespace, one after the other and at once.
func TestGuardLimitsHosts(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	w.create(namespace("blog"))
	few := hostPolicy("few", []string{"*.few.test"}, ownsNames, func(p *v1beta1.HostPolicy) { p.Spec.MaxPerNamespace = new(int32(2)) })
	w.create(few)
	w.policiesCount("the policy", ingressOn("blog/many", "/", "a.few.test", "b.few.test", "c.few.test"))
	w.create(ingressOn("blog/one", "/", "a.few.test", "b.few.test"), ingressOn("blog/same", "/x", "a.few.test"))
	w.refusedFor(w.toCreate(ingressOn("blog/two", "/", "c.few.test")), "spec.rules[0].host",
		`HostPolicy few gives at most 2 name(s) to one namespace (spec.maxPerNamespace), and namespace "blog" has 2`)
	w.isAccepted(few)
	var asking []*rival
	tenant := w.creators("burst", 1)[0]
	for i := range 12 {
		web := ingressOn(fmt.Sprintf("%s/web-%d", tenant.namespace, i), "/", fmt.Sprintf("burst-%d.few.test", i/2))
		asking = append(asking, &rival{try: creating(tenant.Client, web.DeepCopy), undo: func() { w.takesBack(web) }})
	}
	w.isBelow(2, tenant.namespace, asking, tryAll(t.Context(), asking, -1))
	w.eventually("all of a share to be given, one after the other", func() error { // what was promised in vain is free after the grace
		for _, one := range asking {
			w.isBelow(2, tenant.namespace, []*rival{one}, []guardAnswer{one.ask(t.Context())})
		}
		return is(w.isBelow(2, tenant.namespace, nil, nil), 2)
	})
	w.agreesAtLast()
}

// isBelow fails the test if Ingresses of a namespace have more host names than it may have, without those that came in unchecked, and
// returns how many they have.
func (w *fixture) isBelow(most int, namespace string, asked []*rival, answers []guardAnswer) int {
	w.t.Helper()
	for i, a := range answers {
		if a.err == nil && a.undecided {
			asked[i].undo()
		}
	}
	var stored networkingv1.IngressList
	must(w, w.Client.List(w.t.Context(), &stored, client.InNamespace(namespace)))
	names := sets.New[string]()
	for i := range stored.Items {
		names.Insert(stored.Items[i].Spec.Rules[0].Host)
	}
	if names.Len() > most {
		w.t.Fatalf("a namespace has %v, of %d names", sets.List(names), most)
	}
	return names.Len()
}

// isAccepted waits until the status of a policy says that it counts.
func (w *fixture) isAccepted(p *v1beta1.HostPolicy) {
	w.t.Helper()
	w.eventually("the policy to be accepted", func() error {
		w.get(p)
		return is(meta.IsStatusConditionTrue(p.Status.Conditions, v1beta1.ConditionAccepted), true)
	})
}

// TestGuardTellsOfHosts lets objects with the host names of others come in while no replica answers.
func TestGuardTellsOfHosts(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(namespace("young"), namespace("old"), hostPolicy("own", []string{"*.own.test"}, ownsNames))
	w.create(ingressOn("young/web", "/", "a.own.test"))
	w.nameHeldBy("a.own.test", "Namespace young")

	must(w, w.Replicas[0].Terminate())
	thief := ingressOn("old/thief", "/login", "a.own.test", "b.own.test")
	w.eventually("an Ingress to come in while nobody answers", func() error { return w.try(thief) })
	time.Sleep(time.Second) // so that it is older, by the API server's clock
	asks := asking("young/asks", "host=a.own.test, path=/asks")
	w.create(inDNS(service("young/second", port("", 80)), "b.own.test"), asking("old/asks", "host=a.own.test, path=/other"), asks)
	_, err := w.StartReplica(t.Context())
	must(w, err)
	back := time.Now()
	w.told("Ingress", "thief", v1beta1.ReasonHostConflict, "spec.rules[0].host: a.own.test is held by Namespace young since 20")
	t.Logf("told %v after a replica was ready again", time.Since(back).Round(time.Millisecond))
	w.told("Service", "second", v1beta1.ReasonHostConflict, "b.own.test is held by Namespace old")
	w.told("Service", "asks", v1beta1.ReasonHostConflict, "a.own.test", "held by Namespace young since 20")
	w.serves(asks, "Prefix a.own.test/asks -> asks:80")
	if ing := w.ingressOf(service("old/asks")); ing != nil {
		t.Errorf("an Ingress was made for a host of another namespace: %v", ing.Spec)
	}
	w.eventually("the conflicts to be counted", func() error {
		return is([2]float64{w.metric(`portcullis_guard_conflicts{kind="Ingress"}`), w.metric(`portcullis_guard_conflicts{kind="ExternalDNS"}`)}, [2]float64{1, 1})
	})

	t.Log("who gives way is nobody's loss any longer, and who waited has the name")
	w.delete(thief)
	w.nameHeldBy("b.own.test", "Namespace young")
	w.eventually("no conflict to be counted", func() error { return is(w.metric(`portcullis_guard_conflicts{kind="ExternalDNS"}`), 0) })

	t.Log("without the policy no name is anybody's")
	w.delete(hostPolicy("own", nil))
	w.nameHeldBy("a.own.test", "")
	w.nameHeldBy("b.own.test", "")
}

// TestGuardWarnsOfHosts says what would be refused, and refuses nothing; and turns a policy on over what stands.
func TestGuardWarnsOfHosts(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String(), "--guard=Ingress=Warn"}})
	w.create(namespace("young"), namespace("old"))
	w.create(ingressOn("old/web", "/", "a.own.test"))
	time.Sleep(time.Second) // so that it is older, by the API server's clock
	w.create(ingressOn("young/web", "/x", "a.own.test"), inDNS(service("young/dns", port("", 80)), "a.own.test"))
	w.create(hostPolicy("own", []string{"*.own.test"}, ownsNames))
	w.nameHeldBy("a.own.test", "Namespace old")
	w.told("Ingress", "web", v1beta1.ReasonHostConflict, "a.own.test is held by Namespace old")
	k := w.warned()
	must(w, k.Create(t.Context(), ingressOn("young/late", "/y", "a.own.test")))
	mustContain(t, k.said(), "portcullis would refuse this: spec.rules[0].host", "held by Namespace old")
	edit(w, ingressOn("young/web", "/"), func(ing *networkingv1.Ingress) { ing.Labels = map[string]string{"a": "b"} })
	w.eventually("what stands to be counted", func() error { return is(w.metric(`portcullis_guard_conflicts{kind="Ingress"}`), 2) })
}
