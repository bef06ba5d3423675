package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestHandOverPathsOfLeavers has a Service that is being deleted, and kept by a finalizer, hand its path over: its Ingress loses it, too.
func TestHandOverPathsOfLeavers(t *testing.T) {
	w := shared(t)
	w.create(namespace("leaver-a"), namespace("leaver-b"))
	const host = "leaver.hop.test"
	giver := asking("leaver-a/old", "host="+host+", path=/, path=/api")
	giver.Finalizers = []string{"hop.test/stays"}
	heir := asking("leaver-b/new", "host="+host)
	w.create(giver)
	w.serves(giver, "Prefix leaver.hop.test/ -> old:80\nPrefix leaver.hop.test/api -> old:80")
	history := servedBy(w, claim.HTTP(host, "/"), claim.HTTP(host, "/api"))
	edit(w, giver, handsOverTo[*corev1.Service]("leaver-b/new"))
	must(w, w.Client.Delete(t.Context(), giver.DeepCopy()))
	w.create(heir)
	w.serves(heir, "Prefix leaver.hop.test/ -> new:80")
	w.serves(giver, "Prefix leaver.hop.test/api -> old:80")
	w.pathHeldBy(host, "/", "Service leaver-b/new")
	w.pathHeldBy(host, "/api", "Service leaver-a/old")
	history.mustHold(w)
	edit(w, giver, func(svc *corev1.Service) { svc.Finalizers = nil })
	w.pathHeldBy(host, "/", "Service leaver-b/new")
}

// TestHandOverGuardedPathsPastAdmission has Ingresses take over what admission was not asked for, or did not claim: by the verdict that it
// would have given.
func TestHandOverGuardedPathsPastAdmission(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), "--max-http-points-per-service=0"}})
	w.create(namespace("past-a"), namespace("past-b"), namespace("past-c"))
	const host = "past.paths.test"

	t.Log("one that came while nobody judged, and is named later")
	giver, heir := ingressOn("past-a/one", "/one", host), ingressOn("past-b/one", "/one", host)
	w.create(giver)
	w.pathHeldBy(host, "/one", "Ingress past-a/one")
	restore := w.withoutConfiguration("portcullis-guard", ingressOn("past-c/probe", "/one", host), "held by Ingress past-a/one")
	w.create(heir)
	restore()
	edit(w, giver, handsOverTo[*networkingv1.Ingress]("past-b/one"))
	w.pathHeldBy(host, "/one", "Ingress past-b/one")
	w.informed(heir, v1beta1.ReasonTookOver, host+"/one of http is taken over from Ingress past-a/one")

	t.Log("not one that admission would have refused for something else, for as long as it would")
	giver, third := ingressOn("past-a/two", "/two", host), ingressOn("past-c/three", "/three", host)
	heir = ingressOn("past-b/two", "/two", host)
	heir.Spec.Rules = append(heir.Spec.Rules, ingressOn("past-b/two", "/three", host).Spec.Rules...)
	w.create(giver, third)
	w.pathHeldBy(host, "/two", "Ingress past-a/two")
	w.pathHeldBy(host, "/three", "Ingress past-c/three")
	edit(w, giver, handsOverTo[*networkingv1.Ingress]("past-b/two"))
	w.refusedFor(w.toCreate(heir), "spec.rules[1].http.paths[0].path", "held by Ingress past-c/three")
	restore = w.withoutConfiguration("portcullis-guard", ingressOn("past-c/probe", "/two", host), "held by Ingress past-a/two")
	w.create(heir)
	restore()
	w.warnedOf(heir, v1beta1.ReasonHostConflict, "held by Ingress past-a/two", "held by Ingress past-c/three")
	w.pathHeldBy(host, "/two", "Ingress past-a/two")
	w.delete(third)
	w.pathHeldBy(host, "/three", "Ingress past-b/two")
	w.pathHeldBy(host, "/two", "Ingress past-b/two")

	t.Log("more paths than are claimed at a time")
	const many = 300
	giver, heir = ingressOn("past-a/many", "/p0", "many.paths.test"), ingressOn("past-b/many", "/p0", "many.paths.test")
	for i := 1; i < many; i++ {
		for _, ing := range []*networkingv1.Ingress{giver, heir} {
			path := ing.Spec.Rules[0].HTTP.Paths[0].DeepCopy()
			path.Path = fmt.Sprintf("/p%d", i)
			ing.Spec.Rules[0].HTTP.Paths = append(ing.Spec.Rules[0].HTTP.Paths, *path)
		}
	}
	w.create(giver)
	for i := range many {
		w.pathHeldBy("many.paths.test", fmt.Sprintf("/p%d", i), "Ingress past-a/many")
	}
	edit(w, giver, handsOverTo[*networkingv1.Ingress]("past-b/many"))
	w.create(heir)
	for i := range many {
		w.pathHeldBy("many.paths.test", fmt.Sprintf("/p%d", i), "Ingress past-b/many")
	}

	t.Log("nobody has what a Service asks for by a change that nobody judged: what it has it keeps")
	svc := asking("past-a/svc", "host=svc.paths.test")
	w.create(svc)
	w.serves(svc, "Prefix svc.paths.test/ -> svc:80")
	edit(w, svc, handsOverTo[*corev1.Service]("past-b/svc"))
	restore = w.withoutWebhooks()
	edit(w, svc, ask("host=elsewhere.paths.test"))
	restore()
	w.hasEvent(svc, v1beta1.ReasonHandedOver, "the Ingress stays as it is, with svc.paths.test/ for one", "remove the annotation")
	w.serves(svc, "Prefix svc.paths.test/ -> svc:80")
	w.pathHeldBy("svc.paths.test", "/", "Service past-a/svc")

	t.Log("nor does it lose that where another one has what it comes to ask for")
	rival := asking("past-c/svc", "host=theirs.paths.test")
	w.create(rival)
	restore = w.withoutWebhooks()
	edit(w, svc, ask("host=theirs.paths.test"))
	restore()
	w.hasEvent(svc, v1beta1.ReasonHandedOver, "theirs.paths.test/: not asked for")
	w.serves(rival, "Prefix theirs.paths.test/ -> svc:80")
	w.serves(svc, "Prefix svc.paths.test/ -> svc:80")
	w.pathHeldBy("svc.paths.test", "/", "Service past-a/svc")
	restore = w.withoutWebhooks()
	edit(w, svc, ask("host=elsewhere.paths.test"))
	restore()
	edit(w, svc, handsOverTo[*corev1.Service](""))
	w.serves(svc, "Prefix elsewhere.paths.test/ -> svc:80")
}
