package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// How much one namespace and one Service get. Requests to one replica count each other, so that with one replica the limits
// are exact, but for requests at the same moment.

// atMost limits what the last rule of a class gives to one namespace.
func atMost(n int32) classOption {
	return func(c *v1beta1.StreamIngressClass) { c.Spec.Allow[len(c.Spec.Allow)-1].MaxPerNamespace = n }
}

// upTo limits what a pool gives to one namespace.
func upTo(n int32) poolOption { return func(p *v1beta1.AddressPool) { p.Spec.MaxPerNamespace = n } }

// numbered are n ports of a Service from a number on.
func numbered(n int, from int32) []corev1.ServicePort {
	var all []corev1.ServicePort
	for i := range int32(n) { //nolint:gosec // at most some thousands
		all = append(all, port(fmt.Sprintf("p%d", from+i), from+i))
	}
	return all
}

func TestANamespaceHasItsShareOfPorts(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	e := w.newEdge("share", allow(5000, 5099, ""), atMost(2), allow(6000, 6000, ""), autoAssign(5000, 5099))
	w.create(namespace("share-a"), namespace("share-b"))
	one, two := sti("share-a/one", of("share"), tcp(5000)), sti("share-a/two", of("share"), auto(TCP))
	w.create(one, two)
	w.programmed(one, two) // of what the replica has not seen stored yet, it says that it will be free again
	const reached = `gives at most 2 port(s) of 5000-5099 to one namespace (spec.allow[0].maxPerNamespace), and namespace "share-a" has 2: delete a stream`
	for _, third := range []*v1beta1.StreamIngress{
		sti("share-a/third", of("share"), tcp(5098)), sti("share-a/third", of("share"), udp(5098)), sti("share-a/third", of("share"), auto(UDP)),
	} {
		mustContain(t, w.refusal(w.try(third)).Error(), "spec.listen", reached)
	}

	t.Log("another rule, another namespace, and another port for one are not more")
	w.create(sti("share-a/other", of("share"), tcp(6000)), sti("share-b/one", of("share"), tcp(5001)), sti("share-b/two", of("share"), auto(TCP)))
	edit(w, one, tcp(5050))
	e.leads(TCP, 5050, "share-a/web:80")
	w.heldBy("share", TCP, 5000, "")

	t.Log("one that goes makes room")
	w.delete(two)
	three := sti("share-a/three", of("share"), auto(TCP))
	w.eventually("another stream to be admitted", func() error { return w.try(three) })

	t.Log("a limit that is lowered takes nothing back")
	edit(w, e.class, func(c *v1beta1.StreamIngressClass) { c.Spec.Allow[0].MaxPerNamespace = 1 })
	w.eventually("the limit to count", func() error {
		return says(w.Client.Create(t.Context(), sti("share-b/third", of("share"), tcp(5098)), client.DryRunAll), "at most 1 port(s)", "has 2")
	})
	edit(w, one, tcp(5051))
	edit(w, three, to("next", 80))
	e.leads(TCP, 5051, "share-a/web:80")
	w.programmed(one, three)

	t.Log("past admission the verdict is the same")
	restore := w.withoutWebhooks()
	late := sti("share-a/late", of("share"), tcp(5060))
	w.create(late)
	w.has(late, v1beta1.ConditionAccepted, "False NamespaceLimitReached")
	restore()
	w.delete(one, three)
	w.has(late, v1beta1.ConditionAccepted, "True Accepted")
}

// TestAFloodTakesNoMoreThanItsShare has one namespace ask for many ports, many at a time. Requests that one replica decides
// while another one does may exceed the limit, by no more than that replica gives, and by those that are decided at the same moment,
// which on a busy machine are all that are under way.
func TestAFloodTakesNoMoreThanItsShare(t *testing.T) {
	w := shared(t)
	const limit, asked, atATime = 10, 200, 16
	e := w.newEdge("flood", allow(1, 65535, ""), atMost(limit), autoAssign(20000, 20999))
	w.create(namespace("flood"))
	w.eventually("the class to be known", func() error { return w.try(sti("flood/first", of("flood"), auto(TCP))) })
	var admitted atomic.Int32
	var all sync.WaitGroup
	for first := range atATime {
		all.Go(func() {
			for i := first; i < asked; i += atATime {
				if w.try(sti(fmt.Sprintf("flood/s%d", i), of("flood"), auto(TCP))) == nil {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	t.Logf("of %d requests for %d ports %d were admitted", asked, limit, admitted.Load()+1)
	if n, most := int(admitted.Load())+1, len(w.Replicas)*limit+atATime; n < limit || n > most {
		t.Errorf("%d were admitted, want %d to %d", n, limit, most)
	}
	w.eventually("the limit to count", func() error {
		return says(e.Client.Create(t.Context(), sti("flood/last", of("flood"), auto(TCP)), client.DryRunAll), "gives at most 10 port(s)")
	})
}

func TestANamespaceHasItsShareOfAPool(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	w.create(namespace("pool-a"), namespace("pool-b"))
	mustContain(t, w.refusal(w.try(source("own", v1beta1.SourceClusterIP, upTo(2)))).Error(), "spec.maxPerNamespace", "each Service has cluster IPs of its own")
	whole := addressPool("whole", []string{"198.51.100.0/29"}, forAll, onRequest, upTo(2))
	w.unguarded(whole, addressPool("ports", []string{"198.51.100.8/32"}, sharesPorts, forAll, onRequest, upTo(2)),
		source("nodes", v1beta1.SourceNodeIP, upTo(2)))
	w.node("share", "10.0.0.1")
	one, two := balancer("pool-a/one", inPool("whole")), balancer("pool-a/two", wants("198.51.100.7"))
	w.admitted(one)
	w.balances(one, "198.51.100.0 VIP TCP/80")
	w.create(two)
	w.balances(two, "198.51.100.7 VIP TCP/80")
	const reached = `(spec.maxPerNamespace), and namespace "pool-a" has 2`
	for _, third := range []*corev1.Service{balancer("pool-a/third", inPool("whole")), balancer("pool-a/third", wants("198.51.100.3"))} {
		_ = w.refusedSaying(third, "AddressPool whole gives at most 2 address(es) to one namespace "+reached+": delete a Service that has one, or choose another pool")
	}
	theirs := balancer("pool-b/one", inPool("whole"))
	w.create(theirs)
	w.balances(theirs, "198.51.100.1 VIP TCP/80")

	t.Log("ports count where they are shared, and one for another is not more")
	shared, onNodes := balancer("pool-a/shared", inPool("ports"), ports(numbered(2, 80)...)), balancer("pool-a/nodes", from("nodes"), ports(numbered(2, 80)...))
	w.create(shared, onNodes)
	w.balances(shared, "198.51.100.8 VIP TCP/80 TCP/81")
	w.balances(onNodes, "10.0.0.1 VIP TCP/80 TCP/81")
	w.editRefusedSaying(shared, ports(numbered(3, 80)...), "spec.ports", "AddressPool ports gives at most 2 port(s) to one namespace "+reached)
	_ = w.refusedSaying(balancer("pool-a/third", from("nodes"), ports(port("http", 90))), "AddressPool nodes gives at most 2 port(s) to one namespace "+reached)
	w.eventually("what it has to be known", func() error { return tryEdit(w, shared, ports(numbered(2, 81)...)) })
	w.balances(shared, "198.51.100.8 VIP TCP/81 TCP/82")

	t.Log("a limit that is lowered takes nothing back")
	edit(w, whole, upTo(1))
	_ = w.refusedSaying(balancer("pool-b/two", inPool("whole")), "gives at most 1 address(es)")
	edit(w, one, ports(port("https", 443)))
	w.balances(one, "198.51.100.0 VIP TCP/443")
	w.balances(two, "198.51.100.7 VIP TCP/80")

	t.Log("past admission the verdict is the same, until there is room")
	restore := w.withoutWebhooks()
	late := balancer("pool-b/late", inPool("whole"))
	w.create(late)
	w.hasEvent(late, "NamespaceLimitReached", "gives at most 1 address(es)")
	restore()
	w.delete(theirs)
	w.eventually("an address for who waited", func() error {
		w.get(late)
		return is(len(late.Status.LoadBalancer.Ingress), 1)
	})
}

// TestAServiceHasItsPorts has Services ask for more ports, and more hosts and paths, than one gets.
func TestAServiceHasItsPorts(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--max-ports-per-service=3", "--max-http-points-per-service=3"}}))
	w.create(namespace("many"))
	w.unguarded(addressPool("many", []string{"198.51.100.16/32"}, sharesPorts, forAll, onRequest))
	svc := balancer("many/web", inPool("many"), ports(numbered(3, 80)...))
	w.admitted(svc)
	w.balances(svc, "198.51.100.16 VIP TCP/80 TCP/81 TCP/82")
	const tooMany = "a Service gets at most 3 ports where it shares addresses with others"
	w.editRefusedSaying(svc, ports(numbered(4, 80)...), "spec.ports: Too many: 4: "+tooMany)
	_ = w.refusedSaying(balancer("many/other", inPool("many"), ports(numbered(4, 80)...)), tooMany)
	edit(w, svc, ports(numbered(3, 90)...))
	w.balances(svc, "198.51.100.16 VIP TCP/90 TCP/91 TCP/92")
	const paths = "host=many.example.com, path=/1, path=/2, path=/3"
	exposed := asking("many/exposed", paths)
	w.create(exposed)
	isRefusedSaying(t, tryEdit(w, exposed, ask(paths+", path=/4")), "1 host(s) with 4 path(s) each are 4 pairs, and 3 are the most for one Service")
	w.pathHeldBy("many.example.com", "/3", "Service many/exposed")

	t.Log("a proxy's Service has any number, as an administrator has named it")
	e := w.newEdge("many")
	edit(w, e.proxy(), func(svc *corev1.Service) {
		svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
		inPool("many")(svc)
		ports(slices.Concat(svc.Spec.Ports, numbered(8, 1000))...)(svc)
	})
	w.pointHeldBy("addr.198-51-100-16.tcp.1007", "Service edge-many/proxy")

	t.Log("past admission the verdict is the same, and nothing is claimed")
	restore := w.withoutWebhooks()
	late := balancer("many/late", inPool("many"), ports(numbered(4, 2000)...))
	lateExposed := asking("many/late-exposed", "host=late.example.com, path=/1, path=/2, path=/3, path=/4")
	w.create(late, lateExposed)
	w.hasEvent(late, "TooManyPorts", tooMany)
	w.hasEvent(lateExposed, "TooManyPoints", "4 pairs, and 3 are the most")
	restore()
	for _, holder := range []string{"Service many/late", "Service many/late-exposed"} {
		if n := len(w.claimsHeldBy(holder)); n > 0 {
			t.Errorf("%s has %d claims", holder, n)
		}
	}
}

// TestAServiceHas64HostsAndPaths asks for more than a Service gets where no flag says how many.
func TestAServiceHas64HostsAndPaths(t *testing.T) {
	w := shared(t)
	e := w.newEdge("points")
	w.create(namespace("points"))
	pairs := func(hosts, paths int) (value string) {
		for i := range hosts {
			value += fmt.Sprintf("host=h%d.points.example.com, ", i)
		}
		for i := range paths {
			value += fmt.Sprintf("path=/%d, ", i)
		}
		return strings.TrimSuffix(value, ", ")
	}
	isRefusedSaying(t, w.try(asking("points/web", pairs(5, 13))), "5 host(s) with 13 path(s) each are 65 pairs, and 64 are the most for one Service")
	web := asking("points/web", pairs(4, 16))
	w.create(web)
	w.eventually("64 to be its own", func() error { return is(len(w.claimsHeldBy("Service points/web")), 64) })
	isRefusedSaying(t, tryEdit(w, web, ask(pairs(5, 16))), "80 pairs, and 64 are the most")
	w.delete(web)
	w.eventually("them to be free", func() error { return is(len(w.claimsHeldBy("Service points/web")), 0) })

	t.Log("a proxy's Service has any number, as an administrator has named it")
	w.eventually("the class to be known", func() error { return tryEdit(w, e.proxy(), ask(pairs(8, 16))) })
	w.eventually("128 to be the proxy's", func() error {
		held := w.claimsHeldBy("Service edge-points/proxy") // and its ports
		return is(len(slices.DeleteFunc(held, func(point string) bool { return !strings.Contains(point, ".points.example.com/") })), 128)
	})
}
