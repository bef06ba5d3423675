package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// Several Ingresses that serve one path. Nobody is asked when they are made; a Service is, by its annotation.

// namesake creates the Service of an Ingress's name, which asks for nothing, and has the Ingress bear the mark of being made
// for it.
func (w *fixture) namesake(ing *networkingv1.Ingress) *corev1.Service {
	w.t.Helper()
	svc := service(ing.Namespace+"/"+ing.Name, port("http", 80))
	w.create(svc)
	metav1.SetMetaDataAnnotation(&ing.ObjectMeta, v1beta1.AnnotationMadeFor, string(svc.UID))
	return svc
}

// TestNobodyTakesAPathByServingItToo has tenants add the path of somebody's Ingress to their own ones, which are older. It stays
// with who served it first: that one's Service gets it, and theirs do not.
func TestNobodyTakesAPathByServingItToo(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--leader-elect=false"}}))
	const host = "paths.example.com"
	w.create(namespace("path-first"), namespace("path-later"))
	older := map[string]*corev1.Service{}
	for name, paths := range map[string]int{"few": 2, "many": 100} {
		ing := manyPaths("path-later/"+name, paths, name+".example.com")
		older[name] = w.namesake(ing)
		w.create(ing)
	}
	w.pathHeldBy("few.example.com", "/1", "Ingress path-later/few")
	w.pointHeldBy(claim.Host("many.example.com").Name(), "Ingress path-later/many")

	incumbents := map[string]*corev1.Service{}
	for name := range older {
		ing := foreignIngress("path-first/"+name, host, "/"+name)
		incumbents[name] = w.namesake(ing)
		w.create(ing)
		w.pathHeldBy(host, "/"+name, "Ingress path-first/"+name)
	}
	for name, svc := range older {
		editIngress(w, svc, func(ing *networkingv1.Ingress) {
			ing.Spec.Rules = append(ing.Spec.Rules, foreignIngress("", host, "/"+name).Spec.Rules...)
			ing.Spec.Rules = append(ing.Spec.Rules, foreignIngress("", "too."+name+".example.com", "/").Spec.Rules...)
		})
	}
	w.pathHeldBy("too.few.example.com", "/", "Ingress path-later/few")
	w.pointHeldBy(claim.Host("too.many.example.com").Name(), "Ingress path-later/many")

	for _, when := range []string{"at once", "after a restart"} {
		for name, svc := range older {
			w.pathHeldBy(host, "/"+name, "Ingress path-first/"+name)
			isRefusedSaying(t, tryEdit(w, svc, ask("host="+host+", path=/"+name)), "held by Ingress path-first/"+name+" since")
		}
		if when == "at once" {
			must(w, restart(w, 0))
		}
	}
	for name, svc := range incumbents {
		if err := tryEdit(w, svc, ask("host="+host+", path=/"+name)); err != nil {
			t.Fatalf("beside an Ingress with %s paths, who was first is told: %v", name, err)
		}
		w.pathHeldBy(host, "/"+name, "Service path-first/"+name)
		w.editRefusedSaying(older[name], ask("host="+host+", path=/"+name), "held by Service path-first/"+name+" since")
	}
}

// TestAPathOfALargeIngressAfterARestart has a tenant add a path of somebody's large Ingress to its own while no replica runs, and
// has both come while none does.
func TestAPathOfALargeIngressAfterARestart(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--leader-elect=false"}}))
	w.create(namespace("restart-held"), namespace("restart-beside"))
	hosts := []string{"before.example.com", "meanwhile.example.com"}
	var large, own []*networkingv1.Ingress
	var services []*corev1.Service
	for i, host := range hosts {
		large = append(large, manyPaths(fmt.Sprintf("restart-held/site-%d", i), 100, host))
		own = append(own, foreignIngress(fmt.Sprintf("restart-beside/shop-%d", i), host, "/7"))
		services = append(services, w.namesake(own[i]))
	}
	w.create(large[0])
	w.pointHeldBy(claim.Host(hosts[0]).Name(), "Ingress restart-held/site-0")

	must(w, w.Replicas[0].Kill())
	w.create(large[1], own[0], own[1])
	_, err := w.StartReplica(t.Context())
	must(w, err)
	for i, host := range hosts {
		holder := "Ingress restart-held/" + large[i].Name
		w.pathHeldBy(host, "/7", holder)
		isRefusedSaying(t, tryEdit(w, services[i], ask("host="+host+", path=/7")), "held by "+holder+" since")
		w.delete(own[i])
		w.pathHeldBy(host, "/7", "")
		isRefusedSaying(t, w.try(asking(fmt.Sprintf("restart-beside/next-%d", i), "host="+host+", path=/7")), "held by "+holder+" since")
	}
}

// TestNobodyTakesAPathByHavingItsHost has a tenant with many paths on a host add to them one that somebody else with many serves
// there, and then serve it by a small Ingress as well, and by itself when it has few. Who has the claim on the host was not the
// first with all that it lists.
func TestNobodyTakesAPathByHavingItsHost(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--leader-elect=false"}}))
	const host, path = "shared.paths.example.com", "/own/7"
	w.create(namespace("host-first"), namespace("path-served"))
	site := manyPaths("host-first/site", 100, host)
	svc := w.namesake(site)
	w.create(site)
	w.pointHeldBy(claim.Host(host).Name(), "Ingress host-first/site")
	incumbent := manyPaths("path-served/site", 100, host)
	for i := range incumbent.Spec.Rules[0].HTTP.Paths {
		incumbent.Spec.Rules[0].HTTP.Paths[i].Path = fmt.Sprintf("/own/%d", i)
	}
	its := w.namesake(incumbent)
	w.create(incumbent)
	w.pathHeldBy(host, path, "Ingress path-served/site")

	editIngress(w, svc, func(ing *networkingv1.Ingress) {
		ing.Spec.Rules = append(ing.Spec.Rules, foreignIngress("", host, path).Spec.Rules...)
	})
	small := foreignIngress("host-first/small", host, path)
	small.Spec.Rules = append(small.Spec.Rules, foreignIngress("", "small.paths.example.com", "/").Spec.Rules...)
	w.create(small)
	w.pathHeldBy("small.paths.example.com", "/", "Ingress host-first/small")
	isRefusedSaying(t, tryEdit(w, svc, ask("host="+host+", path="+path)), "held by Ingress path-served/site since")
	must(w, restart(w, 0))
	isRefusedSaying(t, tryEdit(w, svc, ask("host="+host+", path="+path)), "held by Ingress path-served/site since")

	t.Log("it is theirs when the host is, too")
	w.delete(site, small)
	w.pointHeldBy(claim.Host(host).Name(), "Ingress path-served/site")
	w.eventuallyHeld("Ingress path-served/site", 1)
	if err := tryEdit(w, its, ask("host="+host+", path="+path)); err != nil {
		t.Errorf("who was first is told: %v", err)
	}
}
