package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// What a tenant with thousands of paths and ports costs others.

// claimsHeldBy are the points that a holder has claims on.
func (w *world) claimsHeldBy(holder string) (points []string) {
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
		isRefusedSaying(t, w.try(asking("beside/"+name, value)), "is held by Ingress large/site")
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

// TestReleasesWaitForNoNeighbor has one tenant delete many Ingresses with many paths at once, and another one a stream: its
// port is free long before the paths are.
func TestReleasesWaitForNoNeighbor(t *testing.T) {
	const ingresses, paths = 32, 64
	w := shared(t)
	w.create(namespace("clears"), namespace("waits"))
	w.newEdge("waits", hostNetwork)
	stream := sti("waits/s", of("waits"), tcp(6000))
	w.create(stream)
	w.programmed(stream)
	for i := range ingresses {
		w.create(manyPaths(fmt.Sprintf("clears/i%d", i), paths, fmt.Sprintf("i%d.clears.example.com", i)))
	}
	w.eventually("the paths to be held", func() error { return is(w.claimsOf("clears"), ingresses*paths) })

	all := newChronicle(t, w.Harness, nil, &v1beta1.StreamIngressList{}, &v1beta1.EdgeClaimList{})
	must(w, w.Client.DeleteAllOf(t.Context(), &networkingv1.Ingress{}, client.InNamespace("clears")))
	w.delete(stream)
	var streamGone, portFree bool
	var before, meanwhile int
	w.eventually("the port to be free", func() error {
		streamGone, portFree, before, meanwhile = false, false, 0, 0
		for _, e := range all.sorted() {
			c, isClaim := e.stored.(*v1beta1.EdgeClaim)
			switch {
			case !e.gone || portFree:
			case e.stored.GetUID() == stream.UID:
				streamGone = true
			case isClaim && c.Name == claim.Stream("waits", TCP, 6000).Name():
				portFree = true
			case isClaim && c.Spec.Holder.Namespace == "clears" && streamGone:
				meanwhile++
			case isClaim && c.Spec.Holder.Namespace == "clears":
				before++
			}
		}
		return is(fmt.Sprint(streamGone, portFree), "true true")
	})
	t.Logf("of %d paths, %d were free before the stream was deleted, and %d more before its port was", ingresses*paths, before, meanwhile)
	if meanwhile > ingresses*paths/2 {
		t.Errorf("the port was free after %d paths of another tenant", meanwhile)
	}
}

// TestNobodySharesAPathOfALargeIngress has a tenant serve a path of a large Ingress by an Ingress of its own, and then ask for
// it, as if that Ingress were made for its Service.
func TestNobodySharesAPathOfALargeIngress(t *testing.T) {
	t.Parallel()
	w := inWorld(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("large-held"), namespace("large-beside"))
	const host = "held.large.example.com"
	site := manyPaths("large-held/site", 100, host)
	w.create(site)
	w.pointHeldBy(claim.Host(host).Name(), "Ingress large-held/site")
	svc := service("large-beside/shop", port("http", 80))
	w.create(svc)
	own := foreignIngress("large-beside/shop", host, "/7")
	metav1.SetMetaDataAnnotation(&own.ObjectMeta, v1beta1.AnnotationMadeFor, string(svc.UID))
	w.create(own)
	w.pathHeldBy(host, "/7", "Ingress large-beside/shop")
	isRefusedSaying(t, tryEdit(w, svc, ask("host="+host+", path=/7")), "held by Ingress large-held/site since")

	t.Log("past admission it gets it no more than before")
	restore := w.withoutWebhooks()
	edit(w, svc, ask("host="+host+", path=/7"))
	restore()
	w.eventually("it to be refused", func() error {
		return is(strings.Contains(strings.Join(w.eventsOf(svc), "\n"), "held by Ingress large-held/site since"), true)
	})
	w.pathHeldBy(host, "/7", "Ingress large-beside/shop")

	t.Log("nor while the other one has few paths")
	editIngress(w, site, func(ing *networkingv1.Ingress) {
		http := ing.Spec.Rules[0].HTTP
		http.Paths = http.Paths[:8]
	})
	w.pathHeldBy(host, "/6", "Ingress large-held/site")
	isRefusedSaying(t, tryEdit(w, svc, ask("host="+host+", path=/7, class=other")), "held by Ingress large-held/site since")

	t.Log("it does when that serves something else")
	editIngress(w, site, func(ing *networkingv1.Ingress) {
		http := ing.Spec.Rules[0].HTTP
		http.Paths = http.Paths[:7]
	})
	w.eventually("the path to be had", func() error { return tryEdit(w, svc, ask("host="+host+", path=/7, class=another")) })
	w.pathHeldBy(host, "/7", "Service large-beside/shop")
}

// TestALargeNeighborCostsNothing has one tenant make an Ingress with 8,000 paths, and Services with 2,000 ports, and another
// one be served beside them. What it takes is logged, and nothing is made of it: the machine is shared.
func TestALargeNeighborCostsNothing(t *testing.T) {
	t.Parallel()
	w := inWorld(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("large"), namespace("small"))
	e := w.newEdge("neighbor", autoAssign(20000, 29999))
	w.unguarded(addressPool("neighbor", []string{"198.51.100.128/25"}, sharesPorts, forAll, onRequest),
		addressPool("neighbor-whole", []string{"203.0.113.0/24"}, forAll, onRequest))
	round := 0
	serve := func(what string) {
		t.Helper()
		round++
		const n = 20
		var took [3][]time.Duration
		start := time.Now()
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
		}
		t.Logf("%s: %d streams, %d load balancers and %d annotated Services admitted in %v, of which each in (median) %v, %v, %v; all served after %v",
			what, n, n, n, created, took[0][n/2], took[1][n/2], took[2][n/2], time.Since(start))
	}
	serve("warming up")
	serve("alone")

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
	serve("beside 8,000 paths and 2,000 ports")

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
			if tryEdit(w, site, func(ing *networkingv1.Ingress) { ing.Spec.Rules[0].HTTP.Paths[0].Path = fmt.Sprintf("/changed-%d", n) }) != nil {
				return
			}
			n++
		}
	}()
	serve("beside 8,000 paths that change")
	close(stop)
	t.Logf("the paths changed %d times", <-changing)
	if got := w.claimsHeldBy("Ingress large/site"); len(got) != 4 {
		t.Errorf("the Ingress has %d claims: %.200q", len(got), got)
	}
	for holder, want := range map[string]int{"Service large/many": 0, "Service large/whole": 1} {
		if got := w.claimsHeldBy(holder); len(got) != want {
			t.Errorf("%s has %d claims, want %d", holder, len(got), want)
		}
	}
	e.create(sti("small/last", of("neighbor"), tcp(30000)))
}
