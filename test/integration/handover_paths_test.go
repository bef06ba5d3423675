package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestHandOverPaths has a Service hand hosts and paths over to one of another namespace: no rival gets in between, and in no version of the
// Ingresses nobody serves them.
func TestHandOverPaths(t *testing.T) {
	w := shared(t)
	w.create(namespace("hop-a"), namespace("hop-b"), namespace("hop-c"))
	const one, two, field = "one.hop.test", "two.hop.test", "metadata.annotations[ingress/http]"
	giver := asking("hop-a/old", "host="+one+", host="+two+", path=/, path=/api, tls=old")
	heir := asking("hop-b/new", "host="+one)
	rival := asking("hop-c/rival", "host="+one)
	w.create(giver)
	everything := `Prefix one.hop.test/ -> old:80
Prefix one.hop.test/api -> old:80
Prefix two.hop.test/ -> old:80
Prefix two.hop.test/api -> old:80
tls old for one.hop.test two.hop.test`
	w.serves(giver, everything)
	history := servedBy(w, claim.HTTP(one, "/"), claim.HTTP(one, "/api"), claim.HTTP(two, "/"), claim.HTTP(two, "/api"))

	t.Log("nobody takes it who is not named, and the refusal says how to get it")
	w.refusedFor(w.toCreate(heir), field, "held by Service hop-a/old", "or have its holder hand it over, by the annotation "+
		v1beta1.AnnotationHandOverTo+": hop-b/new")
	w.refusedFor(toEdit(w, giver.DeepCopy(), handsOverTo[*corev1.Service]("new")), "metadata.annotations["+v1beta1.AnnotationHandOverTo+"]",
		"must be namespace/name of the Service")
	edit(w, giver, handsOverTo[*corev1.Service]("hop-b/new"))
	w.refusedFor(w.toCreate(rival), field, "held by Service hop-a/old")
	if err := w.Client.Create(t.Context(), heir.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("a dry run of who is named: %v", err)
	}
	w.pathHeldBy(one, "/", "Service hop-a/old")

	t.Log("who is named has what it asks for, and the other one keeps the rest")
	w.create(heir)
	w.serves(heir, "Prefix one.hop.test/ -> new:80")
	w.serves(giver, `Prefix one.hop.test/api -> old:80
Prefix two.hop.test/ -> old:80
Prefix two.hop.test/api -> old:80
tls old for one.hop.test two.hop.test`)
	w.pathHeldBy(one, "/", "Service hop-b/new")
	w.pathHeldBy(one, "/api", "Service hop-a/old")
	w.hasEvent(giver, v1beta1.ReasonHandedOver, "one.hop.test/ of http is handed over to Service hop-b/new")
	w.hasEvent(giver, v1beta1.ReasonHandedOver, "one.hop.test/: not asked for", "hop-b/new")
	w.hasEvent(heir, v1beta1.ReasonTookOver, "one.hop.test/ of http is taken over from Service hop-a/old")

	t.Log("all that the two share of a host")
	edit(w, heir, ask("host="+one+", path=/, path=/api"))
	w.serves(heir, "Prefix one.hop.test/ -> new:80\nPrefix one.hop.test/api -> new:80")
	rest := `Prefix two.hop.test/ -> old:80
Prefix two.hop.test/api -> old:80
tls old for two.hop.test`
	w.serves(giver, rest)
	history.mustHold(w)

	t.Log("who has given does not ask again, free as the path may be, until it no longer says that it gives")
	w.delete(heir)
	w.pathHeldBy(one, "/", "")
	w.pathHeldBy(one, "/api", "")
	edit(w, giver, ask("host="+one+", host="+two+", path=/, path=/api, path=/more, tls=old"))
	w.serves(giver, `Prefix one.hop.test/more -> old:80
Prefix two.hop.test/ -> old:80
Prefix two.hop.test/api -> old:80
Prefix two.hop.test/more -> old:80
tls old for one.hop.test two.hop.test`)
	w.pathHeldBy(one, "/", "")
	edit(w, giver, func(svc *corev1.Service) {
		ask("host=" + one + ", host=" + two + ", path=/, path=/api, tls=old")(svc)
		handsOverTo[*corev1.Service]("")(svc)
	})
	w.serves(giver, everything)
	w.pathHeldBy(one, "/", "Service hop-a/old")

	t.Log("a new one that says at once to whom it would hand over has what it asks for")
	eager := asking("hop-c/eager", "host=eager.hop.test")
	handsOverTo[*corev1.Service]("hop-b/nobody")(eager)
	w.create(eager)
	w.serves(eager, "Prefix eager.hop.test/ -> eager:80")

	t.Log("everything, in one namespace, by who takes its annotation away at once")
	history = servedBy(w, claim.HTTP(one, "/"), claim.HTTP(one, "/api"), claim.HTTP(two, "/"), claim.HTTP(two, "/api"))
	brother := asking("hop-a/brother", "host="+one+", host="+two+", path=/, path=/api")
	edit(w, giver, handsOverTo[*corev1.Service]("hop-a/brother"))
	w.create(brother)
	edit(w, giver, handsOverTo[*corev1.Service](""))
	w.serves(brother, `Prefix one.hop.test/ -> brother:80
Prefix one.hop.test/api -> brother:80
Prefix two.hop.test/ -> brother:80
Prefix two.hop.test/api -> brother:80`)
	w.serves(giver, "")
	w.hasEvent(giver, v1beta1.ReasonHostConflict, "is held by Service hop-a/brother")
	history.mustHold(w)
}

// TestHandOverPathsToNobody has the one who is named be refused by a quota after it was promised the path: nothing has happened.
func TestHandOverPathsToNobody(t *testing.T) {
	w := shared(t)
	w.create(namespace("hopeless-a"), namespace("hopeless-b"))
	w.without("hopeless-b", "count/services", func() error {
		w.setsQuota("hopeless-b")
		probe := service("hopeless-b/probe", port("http", 80))
		err := w.try(probe)
		if err == nil {
			w.delete(probe)
		}
		return err
	})
	const host = "hopeless.hop.test"
	giver, heir := asking("hopeless-a/old", "host="+host), asking("hopeless-b/new", "host="+host)
	w.create(giver)
	served := w.serves(giver, "Prefix hopeless.hop.test/ -> old:80")
	edit(w, giver, handsOverTo[*corev1.Service]("hopeless-b/new"))
	w.eventually("the path to be promised to who is named", func() error {
		if err := w.try(heir.DeepCopy()); !apierrors.IsForbidden(err) {
			return fmt.Errorf("not refused by the quota: %w", err)
		}
		return nil
	})
	c := &v1beta1.EdgeClaim{}
	c.Name = claim.HTTP(host, "/").Name()
	w.eventually("the heir to be forgotten", func() error {
		w.get(c)
		if c.Spec.Heir != nil {
			return fmt.Errorf("it is %v", c.Spec.Heir)
		}
		return nil
	})
	w.pathHeldBy(host, "/", "Service hopeless-a/old")
	if now := w.ingressOf(giver); now == nil || now.ResourceVersion != served.ResourceVersion {
		t.Errorf("the Ingress has changed: %+v", now)
	}
	w.delete(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "hopeless-b", Name: "none"}})
	w.eventually("the one who is named to have it after all", func() error { return w.try(heir.DeepCopy()) })
	w.pathHeldBy(host, "/", "Service hopeless-b/new")
	w.serves(heir, "Prefix hopeless.hop.test/ -> new:80")
	w.serves(giver, "")
}

// TestHandOverPathsUnwritten has the one who is named be refused its Ingress: the other one waits for it no longer than it has to.
func TestHandOverPathsUnwritten(t *testing.T) {
	w := shared(t)
	w.create(namespace("unhoped-a"), namespace("unhoped-b"))
	w.without("unhoped-b", "count/ingresses.networking.k8s.io", func() error {
		w.setsQuota("unhoped-b")
		probe := foreignIngress("unhoped-b/probe", "probe.hop.test", "/")
		err := w.try(probe)
		if err == nil {
			w.delete(probe)
		}
		return err
	})
	const host = "unhoped.hop.test"
	giver, heir := asking("unhoped-a/old", "host="+host), asking("unhoped-b/new", "host="+host)
	w.create(giver)
	w.serves(giver, "Prefix unhoped.hop.test/ -> old:80")
	edit(w, giver, handsOverTo[*corev1.Service]("unhoped-b/new"))
	w.create(heir)
	w.pathHeldBy(host, "/", "Service unhoped-b/new")
	w.hasEvent(heir, v1beta1.ReasonIngressRefused, "exceeded quota")
	w.serves(giver, "")
	w.delete(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "unhoped-b", Name: "none"}})
	w.serves(heir, "Prefix unhoped.hop.test/ -> new:80")
}

// TestHandOverPathsKilled kills the manager while Services hand paths over, half of which think better of it as soon as the other one is
// stored: each path ends on one side, and in no version of the Ingresses on none.
func TestHandOverPathsKilled(t *testing.T) {
	t.Parallel()
	const paths = 60
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--claim-grace=" + grace.String(), "--leader-elect=false", patientGivers}}))
	w.create(namespace("killed-a"), namespace("killed-b"))
	host := func(i int) string { return fmt.Sprintf("h%d.killed.test", i) }
	giver := func(i int) *corev1.Service { return asking(fmt.Sprintf("killed-a/old-%d", i), "host="+host(i)) }
	heir := func(i int) *corev1.Service { return asking(fmt.Sprintf("killed-b/new-%d", i), "host="+host(i)) }
	var points []claim.Coordinate
	for i := range paths {
		w.create(giver(i))
		points = append(points, claim.HTTP(host(i), "/"))
	}
	for i := range paths {
		w.serves(giver(i), fmt.Sprintf("Prefix %s/ -> old-%d:80", host(i), i))
	}
	history := servedBy(w, points...)

	unfinished := 0
	for i := range paths {
		edit(w, giver(i), handsOverTo[*corev1.Service](fmt.Sprintf("killed-b/new-%d", i)))
		w.eventually("a Service to be stored", func() error { // an earlier try may have got through
			if err := w.try(heir(i)); !apierrors.IsAlreadyExists(err) {
				return err
			}
			return nil
		})
		if i%2 == 0 {
			edit(w, giver(i), handsOverTo[*corev1.Service](""))
		}
		if i%5 == 4 { // at some moment of the last ones
			time.Sleep(rand.N(20 * time.Millisecond))
			must(w, w.Replicas[len(w.Replicas)-1].Kill())
			for j := i - 4; j <= i; j++ {
				if w.isBeingHandedOver(host(j), giver(j), heir(j)) {
					unfinished++
				}
			}
			_, err := w.StartReplica(t.Context())
			must(w, err)
		}
	}
	given := 0
	for i := range paths {
		w.eventually(host(i)+" to end on one side", func() error {
			holder, by := w.pathHolder(host(i), "/"), ""
			if w.ingressOf(giver(i)) != nil {
				by += fmt.Sprintf("Service killed-a/old-%d", i)
			}
			if w.ingressOf(heir(i)) != nil {
				by += fmt.Sprintf("Service killed-b/new-%d", i)
			}
			if i%2 == 1 {
				holder = fmt.Sprintf("Service killed-b/new-%d", i)
			}
			return is(by, holder)
		})
		if w.ingressOf(heir(i)) != nil {
			given++
		}
	}
	t.Logf("of %d paths %d are with the heirs, and %d were between the two when the manager was killed", paths, given, unfinished)
	if unfinished == 0 {
		t.Error("the manager was never killed while a path was handed over")
	}
	history.mustHold(w)
}

// isBeingHandedOver says whether a path on a host is promised to the heir, or the heir's while the Ingress of the giver has it yet.
func (w *fixture) isBeingHandedOver(host string, giver, heir *corev1.Service) bool {
	w.t.Helper()
	c := &v1beta1.EdgeClaim{}
	c.Name = claim.HTTP(host, "/").Name()
	w.get(c)
	isHeirs := claim.HolderOf(c) == claim.ServiceHolder(heir.Namespace, heir.Name)
	return c.Spec.Heir != nil || isHeirs && w.ingressOf(giver) != nil
}

// TestHandOverGuardedPaths has an Ingress that somebody writes hand a path over to one of another namespace, and Services do the same where
// the Ingresses that are made for them are judged, too.
func TestHandOverGuardedPaths(t *testing.T) {
	w := guarded(t, harness.Options{Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), patientGivers}})
	w.create(namespace("shop"), namespace("blog"), namespace("late"))
	const host, field = "handed.paths.test", "spec.rules[0].http.paths[0].path"
	giver, heir := ingressOn("shop/web", "/login", host), ingressOn("blog/web", "/login", host)
	w.create(giver)
	w.pathHeldBy(host, "/login", "Ingress shop/web")

	t.Log("nobody takes it who is not named, and the refusal says how to get it")
	w.refusedFor(w.toCreate(heir), field, "held by Ingress shop/web", "hand it over, by the annotation "+v1beta1.AnnotationHandOverTo+": blog/web")
	edit(w, giver, handsOverTo[*networkingv1.Ingress]("blog/web"))
	w.refusedFor(w.toCreate(ingressOn("late/web", "/login", host)), field, "held by Ingress shop/web")
	w.refusedFor(w.toCreate(asking("blog/web", "host="+host+", path=/login")), "metadata.annotations[ingress/http]", "held by Ingress shop/web")

	t.Log("who is named has it, beside the other one until that is deleted")
	w.create(heir)
	w.pathHeldBy(host, "/login", "Ingress blog/web")
	w.informed(giver, v1beta1.ReasonHandedOver, host+"/login of http is handed over to Ingress blog/web")
	w.informed(heir, v1beta1.ReasonTookOver, host+"/login of http is taken over from Ingress shop/web")
	w.informed(giver, v1beta1.ReasonHandedOver, host+"/login is held by Ingress blog/web", "delete this Ingress")
	w.delete(giver)
	w.refusedFor(w.toCreate(giver), field, "held by Ingress blog/web")
	w.pathHeldBy(host, "/login", "Ingress blog/web")

	t.Log("by an edit, of one path of several, to the Ingress of a class")
	giver = foreignIngress("shop/more", host, "/a")
	giver.Spec.Rules = append(giver.Spec.Rules, foreignIngress("shop/more", host, "/b").Spec.Rules...)
	w.create(giver)
	w.pathHeldBy(host, "/b", "Ingress shop/more")
	edit(w, giver, handsOverTo[*networkingv1.Ingress]("blog/web"))
	edit(w, heir, func(ing *networkingv1.Ingress) {
		ing.Spec.Rules = append(ing.Spec.Rules, foreignIngress("blog/web", host, "/b").Spec.Rules...)
	})
	w.pathHeldBy(host, "/b", "Ingress blog/web")
	w.pathHeldBy(host, "/a", "Ingress shop/more")

	t.Log("a Service to a Service")
	history := servedBy(w, claim.HTTP(host, "/api"))
	from, to := asking("shop/api", "host="+host+", path=/api"), asking("blog/api", "host="+host+", path=/api")
	w.create(from)
	w.serves(from, "Prefix handed.paths.test/api -> api:80")
	edit(w, from, handsOverTo[*corev1.Service]("blog/api"))
	w.create(to)
	w.serves(to, "Prefix handed.paths.test/api -> api:80")
	w.serves(from, "")
	w.pathHeldBy(host, "/api", "Service blog/api")
	history.mustHold(w)

	t.Log("to one that came while nobody judged, and was named later")
	history = servedBy(w, claim.HTTP(host, "/v2"))
	from, to = asking("shop/v2", "host="+host+", path=/v2"), asking("blog/v2", "host="+host+", path=/v2")
	w.create(from)
	w.serves(from, "Prefix handed.paths.test/v2 -> v2:80")
	restore := w.withoutWebhooks()
	w.create(to)
	w.hasEvent(to, v1beta1.ReasonHostConflict, "hand it over, by the annotation "+v1beta1.AnnotationHandOverTo+": blog/v2")
	restore()
	edit(w, from, handsOverTo[*corev1.Service]("blog/v2"))
	w.serves(to, "Prefix handed.paths.test/v2 -> v2:80")
	w.serves(from, "")
	history.mustHold(w)
}

// informed waits for a normal event of an Ingress that has all the texts, and warnedOf for a warning.
func (w *fixture) informed(ing *networkingv1.Ingress, reason string, texts ...string) {
	w.t.Helper()
	w.toldIngress(ing, corev1.EventTypeNormal, reason, texts...)
}

func (w *fixture) warnedOf(ing *networkingv1.Ingress, reason string, texts ...string) {
	w.t.Helper()
	w.toldIngress(ing, corev1.EventTypeWarning, reason, texts...)
}

func (w *fixture) toldIngress(ing *networkingv1.Ingress, kind, reason string, texts ...string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("an event %s on Ingress %s/%s with %q", reason, ing.Namespace, ing.Name, texts), func() error {
		var list eventsv1.EventList
		must(w, w.Client.List(w.t.Context(), &list, client.InNamespace(ing.Namespace)))
		var notes []string
		for i := range list.Items {
			e := &list.Items[i]
			if e.Regarding.Kind == "Ingress" && e.Regarding.Name == ing.Name && e.Reason == reason && e.Type == kind {
				if saysAll(e.Note, texts...) == nil {
					return nil
				}
			}
			notes = append(notes, fmt.Sprintf("%s %s: %s %s", e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note))
		}
		return fmt.Errorf("there are %q", notes)
	})
}

// servedPaths is the history of paths that Ingresses serve.
type servedPaths struct {
	points    []claim.Coordinate
	ingresses map[types.NamespacedName]*networkingv1.Ingress
	// began are the points that were ever served.
	began map[claim.Coordinate]bool
}

// servedBy starts a history of paths: from the moment that an Ingress serves one, there must be one in every version.
func servedBy(w *fixture, points ...claim.Coordinate) *history {
	return newHistory(w.t, w.Harness, func() moment {
		return &servedPaths{points, map[types.NamespacedName]*networkingv1.Ingress{}, map[claim.Coordinate]bool{}}
	}, &networkingv1.IngressList{})
}

func (m *servedPaths) apply(e happening) []types.NamespacedName {
	ing, is := e.stored.(*networkingv1.Ingress)
	if !is {
		return nil
	}
	if key := client.ObjectKeyFromObject(ing); e.gone {
		delete(m.ingresses, key)
	} else {
		m.ingresses[key] = ing
	}
	for _, at := range m.points {
		m.began[at] = m.began[at] || m.isServed(at)
	}
	return m.everybody()
}

func (m *servedPaths) isServed(at claim.Coordinate) bool {
	for _, ing := range m.ingresses {
		if slices.Contains(exposure.PointsOf(ing), at) {
			return true
		}
	}
	return false
}

func (m *servedPaths) everybody() []types.NamespacedName {
	return []types.NamespacedName{{Name: "paths"}}
}

func (m *servedPaths) check(types.NamespacedName) error {
	for _, at := range m.points {
		if m.began[at] && !m.isServed(at) {
			return fmt.Errorf("no Ingress serves %s", at.Point())
		}
	}
	return nil
}

func (m *servedPaths) around([]happening, int, types.NamespacedName) string { return "" }
