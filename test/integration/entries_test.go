package integration

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestBothProtocolsOnOneNumber(t *testing.T) {
	e := shared(t).newEdge("both")
	e.create(namespace("both-a"), namespace("both-b"))
	tcpStream, udpStream := sti("both-a/dns", of("both"), tcp(53), to("dns", 53)), sti("both-b/dns", of("both"), udp(53), to("dns", 5353))
	e.create(tcpStream, udpStream)
	e.programmed(tcpStream, udpStream)
	e.leads(TCP, 53, "both-a/dns:53")
	e.leads(UDP, 53, "both-b/dns:5353")
	e.heldBy("both", TCP, 53, "StreamIngress both-a/dns")
	e.heldBy("both", UDP, 53, "StreamIngress both-b/dns")

	e.delete(tcpStream)
	e.leads(TCP, 53, "closed")
	e.heldBy("both", TCP, 53, "")
	e.leads(UDP, 53, "both-b/dns:5353")

	edit(e.fixture, udpStream, func(s *v1beta1.StreamIngress) { tcp(53)(s) })
	e.leads(TCP, 53, "both-b/dns:5353")
	e.leads(UDP, 53, "closed")
	e.heldBy("both", UDP, 53, "")
}

func TestNamedUpstreamPorts(t *testing.T) {
	e := shared(t).newEdge("named")
	web := service("named/web", port("http", 8080), port("dns", 53, UDP))
	e.create(namespace("named"), web)
	s := sti("named/web", of("named"), tcp(1000), to("web", "http"))
	later := sti("named/later", of("named"), tcp(1001), to("later", "http"))
	wrong := sti("named/wrong", of("named"), tcp(1002), to("web", "dns"))
	e.create(s, later, wrong)
	e.leads(TCP, 1000, "named/web:8080")

	t.Log("a name that means nothing yet is told, and programmed when it does")
	e.has(later, v1beta1.ConditionAccepted, "True Accepted")
	e.has(later, v1beta1.ConditionResolvedRefs, "False BackendNotFound")
	e.has(later, v1beta1.ConditionProgrammed, "False UnresolvedRefs")
	e.has(wrong, v1beta1.ConditionResolvedRefs, "False BackendPortNotFound")
	e.create(service("named/later", port("http", 80)))
	e.leads(TCP, 1001, "named/later:80")
	e.has(later, v1beta1.ConditionResolvedRefs, "True ResolvedRefs")

	t.Log("the entry follows the port, and keeps its place while the Service is away")
	edit(e.fixture, web, func(s *corev1.Service) { s.Spec.Ports[0].Port = 8081 })
	e.leads(TCP, 1000, "named/web:8081")
	e.delete(web)
	e.has(s, v1beta1.ConditionResolvedRefs, "False BackendNotFound")
	e.has(s, v1beta1.ConditionProgrammed, "True Programmed")
	e.leads(TCP, 1000, "named/web:8081")
	e.create(service("named/web", port("http", 8082)))
	e.leads(TCP, 1000, "named/web:8082")
	e.has(s, v1beta1.ConditionResolvedRefs, "True ResolvedRefs")
}

func TestProxyProtocol(t *testing.T) {
	e := shared(t).newEdge("proxyprotocol")
	e.create(namespace("proxyprotocol"))
	for i, test := range []struct {
		accept, send bool
		want         string
	}{
		{false, false, "proxyprotocol/web:80"},
		{true, false, "proxyprotocol/web:80:PROXY"},
		{false, true, "proxyprotocol/web:80::PROXY"},
		{true, true, "proxyprotocol/web:80:PROXY:PROXY"},
	} {
		number := int32(2000 + i)
		s := sti("proxyprotocol/s"+test.want[len("proxyprotocol/web:80"):], of("proxyprotocol"), tcp(number))
		s.Name = "s" + string(rune('a'+i))
		proxyProtocol(test.accept, test.send)(s)
		e.create(s)
		e.leads(TCP, number, test.want)
	}
	edit(e.fixture, sti("proxyprotocol/sd"), func(s *v1beta1.StreamIngress) { s.Spec.ProxyProtocol = nil })
	e.leads(TCP, 2003, "proxyprotocol/web:80")
}

func TestUpstreamsInOtherNamespaces(t *testing.T) {
	e := shared(t).newEdge("cross")
	e.create(namespace("cross-shop"), namespace("cross-data"), service("cross-data/redis", port("redis", 6379)))
	redis := func() *v1beta1.StreamIngress {
		return sti("cross-shop/redis", of("cross"), tcp(6379), to("cross-data/redis", "redis"))
	}
	refused := func(why string) {
		t.Helper()
		err := e.refusal(e.try(redis()))
		mustContain(t, err.Error(), "spec.upstream.namespace", `namespace "cross-data" has not consented`, "ReferenceGrant",
			v1beta1.GroupName, `namespace "cross-shop"`, `name "redis"`)
		if got := e.holder("cross", TCP, 6379); got != "" {
			t.Errorf("%s: refused, and yet %s holds the port", why, got)
		}
	}
	refused("no grant")
	e.create(grant("cross-data/others", "cross-others"), grant("cross-data/postgres", "cross-shop", "postgres"))
	e.create(grant("cross-shop/wrong-side", "cross-shop"))
	refused("grants for others")

	consent := grant("cross-data/redis", "cross-shop", "postgres", "redis")
	e.create(consent)
	s := redis()
	e.eventually("the grant to be seen", func() error { return e.try(s) })
	e.leads(TCP, 6379, "cross-data/redis:6379")

	t.Log("consent is withdrawn: the entry goes, the claim stays")
	e.delete(consent)
	e.leads(TCP, 6379, "closed")
	e.has(s, v1beta1.ConditionResolvedRefs, "False RefNotPermitted")
	e.has(s, v1beta1.ConditionProgrammed, "False UnresolvedRefs")
	e.has(s, v1beta1.ConditionAccepted, "True Accepted")
	e.heldBy("cross", TCP, 6379, "StreamIngress cross-shop/redis")
	e.toldOf(sti("cross-data/rival", of("cross"), tcp(6379)), "held by StreamIngress cross-shop/redis since")

	t.Log("and it comes back with the consent")
	e.create(grant("cross-data/everything", "cross-shop"))
	e.leads(TCP, 6379, "cross-data/redis:6379")
	e.programmed(s)
}

func TestUpstreamNamespacesOfTheClass(t *testing.T) {
	w := shared(t)
	all, same := w.newEdge("upstream-all", upstreams(v1beta1.UpstreamAll)), w.newEdge("upstream-same", upstreams(v1beta1.UpstreamSame))
	w.create(namespace("upstream-shop"), namespace("upstream-data"), grant("upstream-data/all", "upstream-shop"))
	w.create(sti("upstream-shop/all", of("upstream-all"), tcp(1), to("upstream-data/redis", 6379)))
	all.leads(TCP, 1, "upstream-data/redis:6379")

	w.create(sti("upstream-shop/own", of("upstream-same"), tcp(1), to("upstream-shop/redis", 6379)))
	same.leads(TCP, 1, "upstream-shop/redis:6379")
	err := w.refusal(w.try(sti("upstream-shop/same", of("upstream-same"), tcp(2), to("upstream-data/redis", 6379))))
	mustContain(t, err.Error(), "spec.upstream.namespace", "own namespace only (upstreamNamespaces: Same)")

	t.Log("a stream can't be redirected to where it may not go")
	own := sti("upstream-shop/own")
	redirected := w.refusal(tryEdit(w, own, to("upstream-data/redis", 6379)))
	mustContain(t, redirected.Error(), "own namespace only")
	same.leads(TCP, 1, "upstream-shop/redis:6379")

	t.Log("a class can't close its borders to streams that cross them")
	closed := func(c *v1beta1.StreamIngressClass) { c.Spec.UpstreamNamespaces = v1beta1.UpstreamSame }
	w.eventually("the stream to be seen, and to keep the borders open", func() error {
		return says(dryEdit(w, all.class, closed),
			"spec.upstreamNamespaces: Forbidden: can't be changed from All to Same while 1 stream(s)", "upstream-shop/all")
	})
	edit(w, all.class, func(c *v1beta1.StreamIngressClass) { c.Spec.UpstreamNamespaces = v1beta1.UpstreamGranted })
	all.leads(TCP, 1, "upstream-data/redis:6379")
	w.delete(grant("upstream-data/all", "upstream-shop"))
	all.leads(TCP, 1, "closed")
	w.eventually("the grant to be gone for both replicas", func() error { return tryEdit(w, all.class, closed) })
	all.heldBy("upstream-all", TCP, 1, "StreamIngress upstream-shop/all")
	edit(w, all.class, func(c *v1beta1.StreamIngressClass) { c.Spec.UpstreamNamespaces = v1beta1.UpstreamAll })
	all.leads(TCP, 1, "upstream-data/redis:6379")
}

func TestOutsideUpstreamsOfTheClass(t *testing.T) {
	w := shared(t)
	e := w.newEdge("outside-denied")
	w.create(namespace("outside-shop"))
	w.create(sti("outside-shop/db", of("outside-denied"), tcp(1), outside("192.0.2.7", 5432)))
	e.leads(TCP, 1, "outside-shop/sti-db:5432")

	denied := func(c *v1beta1.StreamIngressClass) { c.Spec.OutsideUpstreams = v1beta1.OutsideDenied }
	w.eventually("the stream to be seen, and to keep the way out open", func() error {
		return says(dryEdit(w, e.class, denied),
			"spec.outsideUpstreams: Forbidden: can't be changed to Denied while 1 stream(s)", "outside-shop/db")
	})

	w.delete(sti("outside-shop/db"))
	w.eventually("the stream to be gone for both replicas", func() error { return tryEdit(w, e.class, denied) })
	w.eventually("both replicas to know of it", func() error {
		err := w.try(sti("outside-shop/db", of("outside-denied"), tcp(1), outside("192.0.2.7", 5432)))
		if err == nil {
			w.delete(sti("outside-shop/db"))
			return errors.New("it was let out")
		}
		mustContain(t, err.Error(), "spec.is_service: Invalid value: false", "lead to Services only (outsideUpstreams: Denied)")
		return nil
	})
}
