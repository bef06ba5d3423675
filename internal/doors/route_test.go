package doors

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// on are the parents of a route: a listener of the Gateway shop/gw.
func on(section string) gatewayv1.CommonRouteSpec {
	return gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: "gw", SectionName: ptr.To(gatewayv1.SectionName(section))}}}
}

func backends(names ...string) (refs []gatewayv1.BackendRef) {
	for _, name := range names {
		ref := gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(name), Port: ptr.To[gatewayv1.PortNumber](80)}
		refs = append(refs, gatewayv1.BackendRef{BackendObjectReference: ref})
	}
	return refs
}

func http(name string, kind gatewayv1.PathMatchType, path string, hosts ...gatewayv1.Hostname) *gatewayv1.HTTPRoute {
	return &gatewayv1.HTTPRoute{ObjectMeta: meta("shop/" + name), Spec: gatewayv1.HTTPRouteSpec{
		CommonRouteSpec: on("web"), Hostnames: hosts, Rules: []gatewayv1.HTTPRouteRule{{
			Matches:     []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: &kind, Value: &path}}},
			BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: backends(name)[0]}},
		}},
	}}
}

// routed is a Gateway with a route of each kind.
func routed() *snapshot.Snapshot {
	gateway := &gatewayv1.Gateway{ObjectMeta: meta("shop/gw"), Spec: gatewayv1.GatewaySpec{Listeners: []gatewayv1.Listener{
		{Name: "web", Port: 80, Protocol: gatewayv1.HTTPProtocolType, Hostname: ptr.To(gatewayv1.Hostname("*.example.com"))},
		{Name: "tls", Port: 443, Protocol: gatewayv1.TLSProtocolType},
		{Name: "sql", Port: 5432, Protocol: gatewayv1.TCPProtocolType}, {Name: "dns", Port: 53, Protocol: gatewayv1.UDPProtocolType},
	}}}
	sql := &gatewayv1.TCPRoute{ObjectMeta: meta("shop/sql"), Spec: gatewayv1.TCPRouteSpec{CommonRouteSpec: on("sql")}}
	sql.Spec.Rules = []gatewayv1.TCPRouteRule{{BackendRefs: backends("a", "b", "a")}}
	tls := &gatewayv1.TLSRoute{ObjectMeta: meta("shop/tls"), Spec: gatewayv1.TLSRouteSpec{CommonRouteSpec: on("tls")}}
	tls.Spec.Hostnames = []gatewayv1.Hostname{"sni.example.org"}
	grpc := &gatewayv1.GRPCRoute{ObjectMeta: meta("shop/grpc"), Spec: gatewayv1.GRPCRouteSpec{CommonRouteSpec: on("web")}}
	grpc.Spec.Hostnames = []gatewayv1.Hostname{"grpc.example.com"}
	grpc.Spec.Rules = []gatewayv1.GRPCRouteRule{{Matches: []gatewayv1.GRPCRouteMatch{
		{Method: &gatewayv1.GRPCMethodMatch{Service: ptr.To("shop.Cart"), Method: ptr.To("Add")}},
		{Method: &gatewayv1.GRPCMethodMatch{Service: ptr.To("shop.Cart")}},
	}}}
	s := &snapshot.Snapshot{Gateways: []*gatewayv1.Gateway{gateway}, Routes: []metav1.Object{
		http("all", gatewayv1.PathMatchPathPrefix, "/api/"), http("own", gatewayv1.PathMatchExact, "/x", "own.example.com", "not.example.org"),
		http("elsewhere", gatewayv1.PathMatchExact, "/", "not.example.org"), sql, tls, grpc,
		&gatewayv1.UDPRoute{ObjectMeta: meta("shop/dns"), Spec: gatewayv1.UDPRouteSpec{CommonRouteSpec: on("dns")}},
		&gatewayv1.UDPRoute{ObjectMeta: meta("shop/nowhere"), Spec: gatewayv1.UDPRouteSpec{CommonRouteSpec: on("no-such")}},
	}}
	for _, kind := range []string{
		"Ingress", "EndpointSlice", "Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute", "Service", "ConfigMap", "Namespace",
	} {
		s.MarkRead(kind, "")
	}
	return s
}

func TestRoutes(t *testing.T) {
	want := []string{
		"UDP/53 by UDPRoute shop/dns, to  (-)", "TCP/5432 by TCPRoute shop/sql, to shop/a:80,shop/b:80 (0)",
		"*.example.com/api by HTTPRoute shop/all, to shop/all:80 (0)", "grpc.example.com/shop.Cart by GRPCRoute shop/grpc, to  (-)",
		"grpc.example.com/shop.Cart/Add by GRPCRoute shop/grpc, to  (-)", "own.example.com/x by HTTPRoute shop/own, to shop/own:80 (0)",
		"sni.example.org at TCP/443 by TLSRoute shop/tls, to  (-)",
	}
	var got []string
	for _, d := range All(routed()) {
		ready := "-"
		if d.Ready != nil {
			ready = fmt.Sprint(*d.Ready)
		}
		if d.Way == ByRoute {
			got = append(got, fmt.Sprintf("%s by %s, to %s (%s)", d.Point, d.Holder, d.LeadsTo, ready))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// TestNobodyHasIt holds that this is said only where nothing answers, and nothing may that was not read.
func TestNobodyHasIt(t *testing.T) {
	whole, part := routed(), routed()
	part.MarkRead("HTTPRoute", "shop")
	unlabeled := routed()
	unlabeled.MarkRead("Namespace", "shop")
	ing := &networkingv1.Ingress{ObjectMeta: meta("shop/all"), Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: "db", Port: networkingv1.ServiceBackendPort{Number: 80}},
	}}}
	catching := &snapshot.Snapshot{Ingresses: []*networkingv1.Ingress{ing}}
	unread := &snapshot.Snapshot{}
	unread.MarkRead("Ingress", "")
	for _, row := range []struct {
		in         *snapshot.Snapshot
		asked, say string
	}{
		{whole, "own.example.com/x", "once no rule of HTTPRoute shop/own has it"}, {whole, "a.example.com/api/v1", "HTTPRoute shop/all answers"},
		{whole, "a.example.com/other", "Gateway shop/gw has a listener for *.example.com"}, {whole, "a.example.org", "listener for all hosts"},
		{whole, "tcp/5432", "Gateway shop/gw"}, {whole, "tcp/81", "nobody has it"},
		{unlabeled, "a.example.com/other", "not every Namespace could be read"}, {unlabeled, "tcp/81", "not every Namespace could be read"},
		{part, "a.example.com/other", "not every HTTPRoute could be read"}, {unread, "a.example.com", "not every Gateway, ListenerSet"},
		{catching, "a.example.com/other", "Ingress shop/all answers, as it serves all hosts"}, {unread, "tcp/1", "not every ConfigMap, Service"},
	} {
		p, err := ParsePoint(row.asked)
		if err != nil {
			t.Fatal(err)
		}
		got := Advice(p, Find(All(row.in), p), row.in)
		if !strings.Contains(got, row.say) || strings.Contains(got, "nobody has it") != (row.say == "nobody has it") {
			t.Errorf("%s: %q is not said in %q", row.asked, row.say, got)
		}
	}
}
