package integration

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// What a tenant can do to its own Ingresses with nothing but edit in its namespace.

// TestNobodyHidesAnIngress has Ingresses say that Portcullis has made them, that somebody owns them, and that they are about
// to go. A proxy serves them all the same, so nobody else gets what they serve.
func TestNobodyHidesAnIngress(t *testing.T) {
	w := shared(t)
	w.create(namespace("hide"), namespace("victim"))
	web, plain := asking("hide/web", "host=web.hide.example.com"), service("hide/plain", port("http", 80))
	w.create(web, plain)
	made := w.serves(web, "Prefix web.hide.example.com/ -> web:80")
	mark := func(ing *networkingv1.Ingress) {
		metav1.SetMetaDataAnnotation(&ing.ObjectMeta, v1beta1.AnnotationMadeFor, made.Annotations[v1beta1.AnnotationMadeFor])
	}
	ownedBy := func(uid metav1.Object, name string) func(*networkingv1.Ingress) {
		return func(ing *networkingv1.Ingress) {
			ing.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: name, UID: uid.GetUID(), Controller: new(true)}}
		}
	}
	linger := func(ing *networkingv1.Ingress) { ing.Finalizers = []string{"tenant.example.com/mine"} }

	for name, changes := range map[string][]func(*networkingv1.Ingress){
		"copy":  {mark},                                               // the mark of another Ingress
		"owned": {mark, ownedBy(web, "web")},                          // and its owner
		"plain": {mark, ownedBy(plain, "plain")},                      // of the name of a Service that asks for nothing
		"going": {mark, linger},                                       // and deleted soon
		"all":   {mark, ownedBy(web, "web"), linger},                  // and all of it
		"none":  {ownedBy(&metav1.ObjectMeta{UID: "nobody"}, "none")}, // an owner that does not exist
	} {
		host := name + ".hide.example.com"
		ing := foreignIngress("hide/"+name, host, "/")
		for _, change := range changes {
			change(ing)
		}
		w.create(ing)
		w.pathHeldBy(host, "/", "Ingress hide/"+name)
		if len(ing.Finalizers) > 0 {
			must(w, w.Client.Delete(t.Context(), ing))
		}
		isRefusedSaying(t, w.try(asking("victim/"+name, "host="+host)), "held by Ingress hide/"+name)
		if ing := w.ingressOf(ing); ing == nil || ing.Spec.Rules[0].Host != host {
			t.Errorf("%s was changed: %v", name, ing)
		}
	}

	t.Log("the Ingress of a Service serves more than the Service asks for, for a moment or while its deletion waits")
	editIngress(w, web, linger)
	must(w, w.Client.Delete(t.Context(), made.DeepCopy()))
	editIngress(w, web, func(ing *networkingv1.Ingress) { ing.Spec.Rules[0].Host = "more.hide.example.com" })
	w.pathHeldBy("more.hide.example.com", "/", "Ingress hide/web")
	isRefusedSaying(t, w.try(asking("victim/more", "host=more.hide.example.com")), "held by Ingress hide/web")
	isRefusedSaying(t, w.refusedSaying(asking("victim/web", "host=web.hide.example.com"), "held by Service hide/web"))

	t.Log("what is really gone is free")
	editIngress(w, web, func(ing *networkingv1.Ingress) { ing.Finalizers = nil })
	w.pathHeldBy("more.hide.example.com", "/", "")
	w.serves(web, "Prefix web.hide.example.com/ -> web:80")
	all := foreignIngress("hide/all", "", "/")
	editIngress(w, all, func(ing *networkingv1.Ingress) { ing.Finalizers = nil })
	w.pathHeldBy("all.hide.example.com", "/", "")
	w.admitted(asking("victim/all", "host=all.hide.example.com"))
}

// TestAServiceThatIsBeingDeleted keeps its host, and gets no other.
func TestAServiceThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("last"), namespace("next"))
	svc := asking("last/web", "host=last.example.com")
	lingering(svc)
	w.create(svc)
	w.serves(svc, "Prefix last.example.com/ -> web:80")
	must(w, w.Client.Delete(t.Context(), svc.DeepCopy()))
	isRefusedSaying(t, tryEdit(w, svc, ask("host=other.example.com")), "is being deleted")
	held := func() {
		t.Helper()
		isRefusedSaying(t, w.refusedSaying(asking("next/web", "host=last.example.com"), "held by Service last/web"))
	}
	held()
	w.serves(svc, "Prefix last.example.com/ -> web:80")

	t.Log("past admission it gets nothing, and keeps what it has")
	restore := w.withoutWebhooks()
	edit(w, svc, ask("host=other.example.com"))
	restore()
	w.create(asking("next/other", "host=other.example.com"))
	w.serves(asking("next/other", ""), "Prefix other.example.com/ -> other:80")
	held()

	edit(w, svc, dropFinalizers)
	w.serves(svc, "")
	w.pathHeldBy("last.example.com", "/", "")
}
