package integration

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// ingressClass is an IngressClass, the default one of its cluster or not.
func ingressClass(name string, isDefault bool) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: fmt.Sprint(isDefault)},
		},
		Spec: networkingv1.IngressClassSpec{Controller: "example.com/" + name},
	}
}

// ofClass has a class serve an Ingress.
func ofClass(ing *networkingv1.Ingress, class string) *networkingv1.Ingress {
	ing.Spec.IngressClassName = &class
	return ing
}

// olderReplica is a Pod of a version of Portcullis that knows of no IngressClasses.
func olderReplica(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "portcullis-system", Name: name, Labels: map[string]string{
			"app.kubernetes.io/name": "portcullis", "app.kubernetes.io/component": "manager",
		}},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "portcullis", Image: "portcullis", SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// servedHeldBy waits until a path that a class serves is held as wanted; with "" until nobody holds it.
func (w *fixture) servedHeldBy(class, host, path, want string) {
	w.t.Helper()
	w.pointHeldBy(claim.HTTP(host, path).ServedBy(class).Name(), want)
}

// TestTwoClassesServeOnePath has several teams serve one host and path by the proxies of several classes: one team for each class.
func TestTwoClassesServeOnePath(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("inside"), namespace("outside"), ingressClass("internal", false), ingressClass("public", false))
	const host = "two.example.com"
	refused := "path / on host " + host + " of class "

	outside, inside := asking("outside/web", "class=public, host="+host), asking("inside/web", "class=internal, host="+host)
	w.create(outside, inside)
	w.servedHeldBy("public", host, "/", "Service outside/web")
	w.servedHeldBy("internal", host, "/", "Service inside/web")
	w.serves(outside, "class public\nPrefix "+host+"/ -> web:80")
	w.serves(inside, "class internal\nPrefix "+host+"/ -> web:80")
	isRefusedSaying(t, w.try(asking("inside/second", "class=public, host="+host)), refused+"public is held", "Service outside/web")

	t.Log("an Ingress is of the class that it names, in either way")
	foreign := ofClass(foreignIngress("outside/old", host, "/old"), "public")
	legacy := foreignIngress("inside/old", host, "/old")
	metav1.SetMetaDataAnnotation(&legacy.ObjectMeta, v1beta1.AnnotationIngressClass, "internal")
	w.create(foreign, legacy)
	w.servedHeldBy("public", host, "/old", "Ingress outside/old")
	w.servedHeldBy("internal", host, "/old", "Ingress inside/old")
	isRefusedSaying(t, w.try(asking("inside/third", "class=public, path=/old, host="+host)), refused[:len("path /")]+"old on host "+host+" of class public is held by Ingress outside/old")

	t.Log("who changes the class asks anew, and keeps what it had until that is served no longer")
	w.editRefusedSaying(inside, ask("class=public, host="+host), refused+"public is held", "Service outside/web")
	edit(w, outside, ask("class=public, path=/moved, host="+host))
	w.servedHeldBy("public", host, "/", "")
	w.eventually("both replicas to know", func() error { return tryEdit(w, inside, ask("class=public, host="+host)) })
	w.servedHeldBy("public", host, "/", "Service inside/web")
	w.serves(inside, "class public\nPrefix "+host+"/ -> web:80")
	w.servedHeldBy("internal", host, "/", "")

	t.Log("who names none is served by the default class, and stays there when another is the default")
	w.create(ingressClass("standard", true))
	unnamed := asking("inside/unnamed", "host="+host+", path=/unnamed")
	w.eventually("it to be admitted", func() error { return w.try(unnamed) })
	w.serves(unnamed, "class standard\nPrefix "+host+"/unnamed -> unnamed:80")
	w.servedHeldBy("standard", host, "/unnamed", "Service inside/unnamed")
	isRefusedSaying(t, w.try(asking("outside/unnamed", "class=standard, path=/unnamed, host="+host)), "is held", "Service inside/unnamed")
	edit(w, unnamed, func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8080 })
	w.serves(unnamed, "class standard\nPrefix "+host+"/unnamed -> unnamed:8080")
}

// TestPathsOfEarlierVersions has paths be claimed as earlier versions do, for all classes at once, by replicas that run beside, and that have
// run before.
func TestPathsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String()}}))
	w.create(namespace("inside"), namespace("outside"), ingressClass("internal", false), ingressClass("public", false))
	const host = "earlier.example.com"
	older := olderReplica("older")
	w.create(older)
	outside := asking("outside/web", "class=public, host="+host)
	w.create(outside)

	t.Log("while one runs, a path is claimed as it does, too, and nobody gets what it would not give")
	w.servedHeldBy("public", host, "/", "Service outside/web")
	w.pathHeldBy(host, "/", "Service outside/web")
	isRefusedSaying(t, w.try(asking("inside/web", "class=internal, host="+host)), "is held", "Service outside/web")
	byOlder := asking("outside/older", "class=public, path=/older, host="+host)
	restore := w.withoutWebhooks()
	w.create(byOlder)
	w.create(claim.New(claim.HTTP(host, "/stale"), claim.Claimant{Holder: claim.ServiceHolder("outside", "older")}))
	restore()
	w.servedHeldBy("public", host, "/older", "Service outside/older")
	w.pathHeldBy(host, "/older", "Service outside/older")
	w.pathHeldBy(host, "/stale", "")

	t.Log("when none does any longer, only the claims for the class stay, and another class is free")
	w.delete(older)
	w.pathHeldBy(host, "/", "")
	w.pathHeldBy(host, "/older", "")
	w.servedHeldBy("public", host, "/", "Service outside/web")
	w.eventually("the other class", func() error { return w.try(asking("inside/web", "class=internal, host="+host)) })
	isRefusedSaying(t, w.try(asking("inside/second", "class=public, host="+host)), "is held", "Service outside/web")

	t.Log("one that comes again, on the way back, finds what stands")
	again := olderReplica("again")
	w.create(again)
	w.pathHeldBy(host, "/older", "Service outside/older")
	w.eventually("one of two to have the path of both", func() error { return is(w.pathHolder(host, "/") != "", true) })
	w.delete(again)
	w.pathHeldBy(host, "/older", "")
	w.pathHeldBy(host, "/", "")

	t.Log("a claim of before keeps others from what its holder has, before it is claimed anew")
	for _, r := range w.Replicas {
		must(w, r.Kill())
	}
	later := asking("outside/later", "class=public, path=/later, host="+host)
	site := ofClass(manyPaths("outside/site", 100, "site."+host), "public")
	w.create(later, site)
	w.create(claim.New(claim.HTTP(host, "/later"), claim.Claimant{Holder: claim.ServiceHolder("outside", "later")}),
		claim.New(claim.Host("site."+host), claim.Claimant{Holder: claim.IngressHolder("outside", "site")}))
	_, err := w.StartReplica(t.Context())
	must(w, err)
	isRefusedSaying(t, w.try(asking("inside/later", "class=public, path=/later, host="+host)), "is held", "Service outside/later")
	isRefusedSaying(t, w.try(asking("inside/site", "class=public, path=/7, host=site."+host)), "is held", "Ingress outside/site")
	w.eventually("the other class", func() error { return w.try(asking("inside/other", "class=internal, path=/later, host="+host)) })
	w.servedHeldBy("public", host, "/later", "Service outside/later")
	w.pathHeldBy(host, "/later", "")
	w.pointHeldBy(claim.Host("site."+host).ServedBy("public").Name(), "Ingress outside/site")
	w.pointHeldBy(claim.Host("site."+host).Name(), "")
}

// TestRaceForOneHostInTwoClasses lets Services of two classes ask for one host and path at once through two replicas, beside a replica of an
// earlier version and without: of each class one gets it, and while that runs, one of all.
func TestRaceForOneHostInTwoClasses(t *testing.T) {
	t.Parallel()
	const rounds, racers = 60, 12
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("race"), ingressClass("internal", false), ingressClass("public", false))
	for _, beside := range []bool{false, true} {
		if beside {
			w.create(olderReplica("older"))
			time.Sleep(2 * time.Second) // no replica believes for longer than a second that there is none
		}
		for round := range rounds {
			host := fmt.Sprintf("race-%v-%d.example.com", beside, round)
			results := make([]error, racers)
			var all sync.WaitGroup
			class := func(i int) string { return []string{"internal", "public"}[i%2] }
			for i := range racers {
				all.Go(func() {
					results[i] = w.Client.Create(t.Context(), asking(fmt.Sprintf("race/new-%d", i), "class="+class(i)+", host="+host))
				})
			}
			all.Wait()
			won := map[string]int{}
			for i, err := range results {
				if err != nil {
					isRefusedSaying(t, err, "path / on host "+host, "is held")
					continue
				}
				won[class(i)]++
				w.delete(service(fmt.Sprintf("race/new-%d", i)))
			}
			winners := won["internal"] + won["public"]
			if won["internal"] > 1 || won["public"] > 1 || beside && winners > 1 || !beside && winners < 2 {
				t.Fatalf("round %d, beside an older replica: %v: admitted of each class: %v", round, beside, won)
			}
		}
	}
}
