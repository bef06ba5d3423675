package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// What a tenant with thousands of paths and ports costs others.

// claimsHeldBy are the points that a holder has claims on.
func (w *fixture) claimsHeldBy(holder string) (points []string) {
	w.t.Helper()
	var list v1beta1.EdgeClaimList
	if err := w.Client.List(w.t.Context(), &list, client.MatchingFields{"spec.heldBy": holder}); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		points = append(points, list.Items[i].Spec.Point)
	}
	slices.Sort(points)
	return points
}

// manyPaths is an Ingress, by its namespace/name, with the paths /0, /1 and so on of each host.
func manyPaths(key string, paths int, hosts ...string) *networkingv1.Ingress {
	ing := foreignIngress(key, "", "")
	one := ing.Spec.Rules[0].HTTP.Paths[0]
	ing.Spec.Rules = nil
	for _, host := range hosts {
		http := &networkingv1.HTTPIngressRuleValue{}
		for i := range paths {
			one.Path = fmt.Sprintf("/%d", i)
			http.Paths = append(http.Paths, one)
		}
		ing.Spec.Rules = append(ing.Spec.Rules, networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: http}})
	}
	return ing
}

// TestAnIngressOutgrowsItsClaims has an Ingress serve many paths, and few again, beside the Services of others.
func TestAnIngressOutgrowsItsClaims(t *testing.T) {
	w := shared(t)
	w.create(namespace("large"), namespace("beside"))
	holds := func(want ...string) {
		t.Helper()
		w.eventually(fmt.Sprintf("the claims of the Ingress to be %q", want), func() error {
			if got := w.claimsHeldBy("Ingress large/site"); !slices.Equal(got, want) {
				return fmt.Errorf("there are %d: %.200q", len(got), got)
			}
			return nil
		})
	}
	refused := func(name, value string) {
		t.Helper()
		isRefusedSaying(t, w.refusedSaying(asking("beside/"+name, value), "is held by Ingress large/site"))
	}
	first := asking("beside/first", "host=a.large.example.com, path=/1")
	w.create(first)
	w.serves(first, "Prefix a.large.example.com/1 -> first:80")
	site := manyPaths("large/site", 3, "a.large.example.com")
	w.create(site)
	holds("a.large.example.com/0", "a.large.example.com/2")

	t.Log("with many paths it holds its hosts, and what it serves is nobody else's")
	grow := func(paths int, hosts ...string) {
		editIngress(w, site, func(ing *networkingv1.Ingress) { ing.Spec.Rules = manyPaths("large/site", paths, hosts...).Spec.Rules })
	}
	grow(4000, "a.large.example.com", "b.large.example.com")
	holds("a.large.example.com", "b.large.example.com")
	refused("second", "host=a.large.example.com, path=/2")
	refused("second", "host=b.large.example.com, path=/3999")
	w.pathHeldBy("a.large.example.com", "/1", "Service beside/first")
	second := asking("beside/second", "host=b.large.example.com, path=/4000")
	w.create(second)
	w.serves(second, "Prefix b.large.example.com/4000 -> second:80")

	t.Log("it goes on doing so while its paths change, and when they are few again")
	grow(3000, "b.large.example.com")
	holds("b.large.example.com")
	refused("third", "host=b.large.example.com, path=/2999")
	w.eventually("a path to be had that it does not serve any longer", func() error {
		return w.try(asking("beside/third", "host=b.large.example.com, path=/3000"))
	})
	grow(2, "b.large.example.com")
	holds("b.large.example.com/0", "b.large.example.com/1")
	refused("fourth", "host=b.large.example.com, path=/1")
	w.delete(site)
	holds()
	w.eventually("a path to be had of an Ingress that is gone", func() error {
		return w.try(asking("beside/fourth", "host=b.large.example.com, path=/1"))
	})
}

// TestNobodySharesAPathOfALargeIngress has a tenant serve a path of a large Ingress by an Ingress of its own, and then ask for
// it, as if that Ingress were made for its Service.
func TestNobodySharesAPathOfALargeIngress(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("large-held"), namespace("large-beside"))
	const host = "held.large.example.com"
	site := manyPaths("large-held/site", 100, host)
	w.create(site)
	w.pointHeldBy(claim.Host(host).Name(), "Ingress large-held/site")
	own := foreignIngress("large-beside/shop", host, "/7")
	svc := w.namesake(own)
	w.create(own)
	w.pathHeldBy(host, "/7", "Ingress large-held/site")
	isRefusedSaying(t, tryEdit(w, svc, ask("host="+host+", path=/7")), "held by Ingress large-held/site since")

	t.Log("past admission it gets it no more than before")
	restore := w.withoutWebhooks()
	edit(w, svc, ask("host="+host+", path=/7"))
	restore()
	w.eventually("it to be refused", func() error {
		return is(strings.Contains(strings.Join(w.eventsOf(svc), "\n"), "held by Ingress large-held/site since"), true)
	})
	w.pathHeldBy(host, "/7", "Ingress large-held/site")

	t.Log("nor while the other one has few paths")
	editIngress(w, site, func(ing *networkingv1.Ingress) {
		http := ing.Spec.Rules[0].HTTP
		http.Paths = http.Paths[:8]
	})
	w.pathHeldBy(host, "/6", "Ingress large-held/site")
	isRefusedSaying(t, tryEdit(w, svc, ask("host="+host+", path=/7, port=http")), "held by Ingress large-held/site since")

	t.Log("it does when that serves something else")
	editIngress(w, site, func(ing *networkingv1.Ingress) {
		http := ing.Spec.Rules[0].HTTP
		http.Paths = http.Paths[:7]
	})
	w.eventually("the path to be had", func() error { return tryEdit(w, svc, ask("host="+host+", path=/7, port=80")) })
	w.pathHeldBy(host, "/7", "Service large-beside/shop")
}

// TestALargeNeighborCostsNothing has one tenant make an Ingress with 8,000 paths, Services with 2,000 ports, and Ingresses with
// 20,000 hosts, and another one be served beside them: for as many claims as alone, and in no other time, as far as a machine can tell that is shared.
func TestALargeNeighborCostsNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2, ControlPlane: controlplane.Options{Audit: true}}))
	w.create(namespace("large"), namespace("small"))
	e := w.newEdge("neighbor", autoAssign(20000, 29999))
	w.unguarded(addressPool("neighbor", []string{"198.51.100.128/25"}, sharesPorts, forAll, onRequest),
		addressPool("neighbor-whole", []string{"203.0.113.0/24"}, forAll, onRequest))
	const n = 20
	kinds := [3]string{"streams", "load balancers", "annotated Services"}
	round := 0
	// serve returns how many claims are written for n of each kind, and how long one of each takes to be admitted (median).
	serve := func(what string) (claims int, medians [3]time.Duration) {
		t.Helper()
		round++
		var took [3][]time.Duration
		start, before := time.Now(), len(w.writes())
		var streams []*v1beta1.StreamIngress
		var services, exposed []*corev1.Service
		for i := range n {
			key := fmt.Sprintf("small/r%d-%d", round, i)
			streams = append(streams, sti(key, of("neighbor"), auto(TCP)))
			services = append(services, balancer(key+"-lb", inPool("neighbor"), ports(port("p", int32(1000*round+i))))) //nolint:gosec // small
			exposed = append(exposed, asking(key+"-web", fmt.Sprintf("host=a.example.com, path=/small-%d-%d", round, i)))
			for kind, object := range []client.Object{streams[i], services[i], exposed[i]} {
				before := time.Now()
				w.create(object)
				took[kind] = append(took[kind], time.Since(before))
			}
		}
		created := time.Since(start)
		w.programmed(streams...)
		for i := range n {
			w.balances(services[i], fmt.Sprintf("198.51.100.128 VIP TCP/%d", 1000*round+i))
			w.serves(exposed[i], fmt.Sprintf("Prefix a.example.com/small-%d-%d -> r%d-%d-web:80", round, i, round, i))
		}
		for kind := range took {
			slices.Sort(took[kind])
			medians[kind] = took[kind][n/2]
		}
		served := time.Since(start)
		w.settles(time.Second)
		writes := w.writes()[before:]
		for _, write := range writes {
			if strings.HasPrefix(write.Resource, "edgeclaims") {
				claims++
			}
		}
		t.Logf("%s: %d of each of %q admitted in %v, of which each in (median) %v; all served after %v, for %d writes of claims, and %d others",
			what, n, kinds, created, medians, served, claims, len(writes)-claims)
		return claims, medians
	}
	serve("warming up")
	claimsAlone, mediansAlone := serve("alone")
	const manyTimes, noticed = 10, time.Minute
	costsNothing := func(what string) {
		t.Helper()
		claims, medians := serve(what)
		if claims > 2*claimsAlone {
			t.Errorf("%s: %d writes of claims, and %d alone", what, claims, claimsAlone)
		}
		for kind, took := range medians {
			if took > noticed && took > manyTimes*mediansAlone[kind] {
				t.Errorf("%s: %s took %v, and %v alone", what, kinds[kind], took, mediansAlone[kind])
			}
		}
	}

	site := manyPaths("large/site", 2000, "a.example.com", "b.example.com", "c.example.com", "d.example.com")
	w.create(site)
	many := balancer("large/many", inPool("neighbor"), ports(numbered(2000, 10000)...))
	many.Spec.AllocateLoadBalancerNodePorts = new(false)
	_ = w.refusedSaying(many, "spec.ports: Too many: 2000: a Service gets at most 100 ports")
	whole := many.DeepCopy()
	whole.Name = "whole"
	inPool("neighbor-whole")(whole)
	w.admitted(whole)
	w.eventually("the hosts to be held", func() error { return is(len(w.claimsHeldBy("Ingress large/site")), 4) })
	costsNothing("beside 8,000 paths and 2,000 ports")
	w.create(
		manyHosts("large/hosts-0", 20000, "x0.example.com"), manyHosts("large/hosts-1", 20000, "x1.example.com"),
		manyHosts("large/hosts-2", exposure.MostEntries, "x2.example.com"),
	)
	w.eventuallyHeld("Ingress large/hosts-2", exposure.MostEntries)
	costsNothing("beside 41,024 hosts, of which 1,024 have claims")

	changing, stop := make(chan int), make(chan struct{})
	go func() {
		n := 0
		defer func() { changing <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if harness.Pause(t.Context(), 50*time.Millisecond) != nil || tryEdit(w, site, func(ing *networkingv1.Ingress) { ing.Spec.Rules[0].HTTP.Paths[0].Path = fmt.Sprintf("/changed-%d", n) }) != nil {
				return
			}
			n++
		}
	}()
	costsNothing("beside 8,000 paths that change")
	close(stop)
	t.Logf("the paths changed %d times", <-changing)
	if got := w.claimsHeldBy("Ingress large/site"); len(got) != 4 {
		t.Errorf("the Ingress has %d claims: %.200q", len(got), got)
	}
	for holder, want := range map[string]int{
		"Service large/many": 0, "Service large/whole": 1, "Ingress large/hosts-0": 0, "Ingress large/hosts-1": 0,
	} {
		if got := w.claimsHeldBy(holder); len(got) != want {
			t.Errorf("%s has %d claims, want %d", holder, len(got), want)
		}
	}
	e.create(sti("small/last", of("neighbor"), tcp(30000)))
}
