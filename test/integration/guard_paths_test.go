package integration

import (
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestGuardPaths leads a life of hosts and paths that namespaces share, by Ingresses that people write and by annotated Services.
func TestGuardPaths(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--audit-interval=1s"}})
	w.create(namespace("shop"), namespace("blog"), ingressClass("internal", false))
	const host, field = "shared.paths.test", "spec.rules[0].http.paths[0].path"

	t.Log("a path is the namespace's that serves it first; another one on the host is anybody's")
	web := ingressOn("shop/web", "/login", host)
	w.create(web)
	w.pathHeldBy(host, "/login", "Ingress shop/web")
	held := []string{"path /login on host " + host + " is held", "Ingress shop/web"}
	w.refusedFor(w.toCreate(ingressOn("blog/thief", "/login", host)), field, held...)
	w.create(ingressOn("blog/own", "/blog", host), ofClass(ingressOn("blog/inside", "/login", host), "internal"))
	w.refusedFor(w.toCreate(asking("blog/late", "host="+host+", path=/login")), "metadata.annotations[ingress/http]", held...)
	own := &networkingv1.Ingress{}
	own.Namespace, own.Name = "blog", "own"
	w.refusedFor(toEdit(w, own, func(ing *networkingv1.Ingress) { ing.Spec.Rules[0].HTTP.Paths[0].Path = "/login" }), field, held...)
	large := manyPaths("blog/large", 100, host)
	large.Spec.Rules[0].HTTP.Paths[7].Path = "/login"
	w.refusedFor(w.toCreate(large), "spec.rules[0].http.paths[7].path", held...)
	w.refusedFor(w.toCreate(manyPaths("blog/large", 1025, "many.paths.test")), "spec.rules", "at most 1024 hosts and paths at a time")

	t.Log("one of many paths has claims on all of them until every replica sees that it serves them, and then on its host")
	large = manyPaths("blog/large", 100, "large.paths.test")
	w.create(large)
	w.pathHeldBy("large.paths.test", "/7", "Ingress blog/large")
	w.pathHeldBy("large.paths.test", "/7", "")
	w.refusedFor(w.toCreate(ingressOn("shop/thief", "/7", "large.paths.test")), field, "path /7 on host large.paths.test is held by Ingress blog/large")
	w.create(ingressOn("shop/beside", "/beside", "large.paths.test"))

	t.Log("Services have theirs, too")
	w.create(asking("shop/api", "host="+host+", path=/api"))
	w.refusedFor(w.toCreate(ingressOn("blog/thief", "/api", host)), field, "Service shop/api")

	t.Log("in its own namespace nothing is refused, and it stays the namespace's when the first is gone")
	w.create(ingressOn("shop/canary", "/login", host), ingressOn("shop/api-by-hand", "/api", host))
	w.delete(web)
	w.refusedFor(w.toCreate(ingressOn("blog/thief", "/login", host)), field, "path /login on host "+host+" is held")
	w.pathHeldBy(host, "/login", "Ingress shop/canary")

	t.Log("one beside two others, at more paths than may be promised at a time")
	first, second, both := manyPaths("shop/first", 60, "a.many.test"), manyPaths("shop/second", 60, "b.many.test"), manyPaths("shop/both", 60, "a.many.test", "b.many.test")
	w.create(first, second, both)

	t.Log("nobody comes to a path of a class by changing one thing after the other")
	w.create(ofClass(ingressOn("shop/inside", "/inside", host), "internal"))
	sneak := ingressOn("blog/sneak", "/inside", host)
	sneak.Annotations = map[string]string{v1beta1.AnnotationIngressClass: ""}
	w.create(sneak)
	w.refusedFor(toEdit(w, sneak, func(ing *networkingv1.Ingress) { ing.Spec.IngressClassName = new("internal") }),
		"metadata.annotations[kubernetes.io/ingress.class]", "names another class than spec.ingressClassName", "take the annotation out")
	w.refusedFor(toEdit(w, sneak, func(ing *networkingv1.Ingress) {
		delete(ing.Annotations, v1beta1.AnnotationIngressClass)
		ing.Spec.IngressClassName = new("internal")
	}), field, "of class internal is held by Ingress shop/inside")
	w.refusedFor(toEdit(w, sneak, func(ing *networkingv1.Ingress) { ing.Annotations[v1beta1.AnnotationIngressClass] = "internal" }),
		field, "of class internal is held by Ingress shop/inside")

	t.Log("what gets past is told")
	past := ingressOn("blog/past", "/login", host)
	restore := w.withoutConfiguration("portcullis-guard", ingressOn("blog/probe", "/login", host), held[0])
	w.create(past)
	restore()
	w.told("Ingress", "past", v1beta1.ReasonHostConflict, host+"/login is held by Ingress shop/canary", "choose another host or path")
	w.delete(past)

	t.Log("where a policy gives the name to one namespace, that alone counts")
	w.create(hostPolicy("own", []string{"*.own.test"}, ownsNames))
	w.policiesCount("the policy", unreadable("blog/early"))
	w.create(ingressOn("shop/mine", "/", "www.own.test"), ingressOn("shop/mine-too", "/", "www.own.test"))
	w.refusedFor(w.toCreate(ingressOn("blog/thief", "/other", "www.own.test")), "spec.rules[0].host", "held by Namespace shop")
}

// TestPathsThatAreNeverServed has a tenant without quota ask for paths that it never comes to serve.
func TestPathsThatAreNeverServed(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}, ControlPlane: controlplane.Options{Controllers: true}})
	must(w, w.StartControllers(t.Context()))
	w.create(namespace("shop"), namespace("full"), ingressClass("internal", false))
	const host = "shared.paths.test"
	never := func(path string) *networkingv1.Ingress {
		ing := ingressOn("full/never", path, host)
		ing.Annotations = map[string]string{v1beta1.AnnotationIngressClass: ""}
		return ing
	}
	w.without("full", "count/ingresses.networking.k8s.io", func() error {
		defer w.delete(never("/")) // before it is in force, it is stored
		return w.try(never("/probe"))
	})
	if err := w.try(never("/free")); !apierrors.IsForbidden(err) {
		t.Fatalf("not refused by a quota: %v", err)
	}
	w.refusedFor(w.toCreate(ingressOn("shop/thief", "/free", host)), "spec.rules[0].http.paths[0].path",
		"held for Ingress full/never, which is not stored or no longer asks for it; it is free again")

	t.Log("what is for no class keeps nobody from it in a class")
	w.create(ofClass(ingressOn("shop/free", "/free", host), "internal"))
	w.create(asking("shop/beside", "class=internal, path=/beside, host="+host))

	t.Log("and when the grace is over nobody from it at all")
	w.pathHeldBy(host, "/free", "")
	w.eventually("each replica to know", func() error { return w.try(ingressOn("shop/late", "/free", host)) })
}

// TestNoDoublePath has Ingresses and annotated Services of several namespaces race for one path, by creates and by edits, over two replicas.
func TestNoDoublePath(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}})
	w.create(ingressClass("internal", false))
	users := w.creators("paths", rivals)
	w.race(*guardRaces, func(round int) kindRace {
		host := fmt.Sprintf("r%d.paths.test", round)
		at := claim.HTTP(host, "/login").ServedBy("internal")
		race := kindRace{points: []claim.Coordinate{at}}
		for i, c := range users {
			name := fmt.Sprintf("%s/round-%d", c.namespace, round)
			one := &rival{holder: claim.IngressHolder(c.namespace, strings.TrimPrefix(name, c.namespace+"/"))}
			var obj client.Object
			switch (i + round/2) % 4 { // so that each kind begins ahead of the others at times
			case 0:
				obj, one.kind = ofClass(ingressOn(name, "/login", host), "internal"), "Ingress"
			case 1:
				obj, one.kind = asking(name, "class=internal, path=/login, host="+host), "annotated Service"
				one.holder = claim.ServiceHolder(one.holder.Namespace, one.holder.Name)
			case 2:
				large := ofClass(manyPaths(name, 70, host), "internal")
				for j := range large.Spec.Rules[0].HTTP.Paths {
					large.Spec.Rules[0].HTTP.Paths[j].Path = fmt.Sprintf("/%s/%d", c.namespace, j)
				}
				large.Spec.Rules[0].HTTP.Paths[40].Path = "/login"
				obj, one.kind = large, "large Ingress"
			default: // by an edit
				obj, one.kind = ofClass(ingressOn(name, "/login", "free.test"), "internal"), "edited Ingress"
				ing := obj.(*networkingv1.Ingress)
				ing.Spec.Rules[0].HTTP.Paths[0].Path = "/" + c.namespace
				w.create(obj.DeepCopyObject().(client.Object))
				one.try = editing(c.Client, ing, func(ing *networkingv1.Ingress) {
					ing.Spec.Rules[0].Host, ing.Spec.Rules[0].HTTP.Paths[0].Path = host, "/login"
				})
			}
			if one.try == nil {
				one.try = creating(c.Client, func() client.Object { return obj.DeepCopyObject().(client.Object) })
			}
			one.undo = func() { w.takesBack(obj.DeepCopyObject().(client.Object)) }
			race.rivals = append(race.rivals, one)
		}
		return race
	}, "Ingress", "annotated Service", "large Ingress", "edited Ingress")
	w.noneLeft(claim.Coordinate.IsHTTP)
	w.decidedBoth("Ingress", "Service")
}
