package stream

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

func TestConsent(t *testing.T) {
	const noGrant = `spec.upstream.namespace: Invalid value: "data": namespace "data" has not consented: ` +
		`create a ReferenceGrant (gateway.networking.k8s.io) there, from group nginx-stream.jeffthecoder.xyz, kind StreamIngress, ` +
		`namespace "shop", to kind Service, name "db"`
	const onSame = `spec.upstream.namespace: Invalid value: "data": class "public" lets streams send their traffic to their own namespace only ` +
		`(upstreamNamespaces: Same)`
	denied := func(c *v1beta1.StreamIngressClass) { c.Spec.OutsideUpstreams = v1beta1.OutsideDenied }
	leadsOut := func(service, namespace, why string) []verdict {
		return []verdict{{v1beta1.ReasonRefNotPermitted, `spec.upstream: Invalid value: "` + service + `": Service ` + namespace + `/` + service +
			` leads out of the cluster, as ` + why + `; class "public" lets streams lead to Services only (outsideUpstreams: Denied): ` +
			`name another Service, or a class that allows it`}}
	}
	alias := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "db.example.com"}}
	has := map[string]*corev1.Service{"shop/db": db, "shop/alias": alias, "data/alias": alias}
	for name, tc := range map[string]struct {
		grants map[string]bool
		class  *v1beta1.StreamIngressClass
		in     *v1beta1.StreamIngress
		want   []verdict
	}{
		"the own namespace":                        {class: class("public", upstreams(v1beta1.UpstreamSame)), in: sti()},
		"the own namespace, by name":               {class: class("public", upstreams(v1beta1.UpstreamSame)), in: sti(leadingTo("shop", "db", "5432"))},
		"an upstream outside":                      {class: class("public", upstreams(v1beta1.UpstreamSame)), in: sti(outside("db.example.com"))},
		"any namespace, on All":                    {class: class("public", upstreams(v1beta1.UpstreamAll)), in: sti(leadingTo("data", "db", "5432"))},
		"another one, with a grant":                {grants: map[string]bool{"shop -> data/db": true}, class: class("public"), in: sti(leadingTo("data", "db", "5432"))},
		"another one, without":                     {class: class("public"), in: sti(leadingTo("data", "db", "5432")), want: []verdict{{v1beta1.ReasonRefNotPermitted, noGrant}}},
		"a grant for another Service":              {grants: map[string]bool{"shop -> data/x": true}, class: class("public"), in: sti(leadingTo("data", "db", "5432")), want: []verdict{{v1beta1.ReasonRefNotPermitted, noGrant}}},
		"a Service that leads outside, on Allowed": {class: class("public"), in: sti(leadingTo("", "sti-outside", "5432"))},
		"a Service that leads outside, on Denied": {class: class("public", denied), in: sti(leadingTo("", "sti-outside", "5432")),
			want: leadsOut("sti-outside", "shop", "another StreamIngress asks for it")},
		"an alias, on Allowed": {class: class("public"), in: sti(leadingTo("", "alias", "5432"))},
		"an alias, on Denied":  {class: class("public", denied), in: sti(leadingTo("", "alias", "5432")), want: leadsOut("alias", "shop", "its type is ExternalName")},
		"another one's that leads outside, on Denied": {grants: map[string]bool{"shop -> data/sti-outside": true}, class: class("public", denied),
			in: sti(leadingTo("data", "sti-outside", "5432")), want: leadsOut("sti-outside", "data", "another StreamIngress asks for it")},
		"another one's that leads outside, without": {class: class("public", denied), in: sti(leadingTo("data", "sti-outside", "5432")),
			want: []verdict{{v1beta1.ReasonRefNotPermitted, strings.ReplaceAll(noGrant, `"db"`, `"sti-outside"`)}}},
		"another one's alias, on Same": {class: class("public", denied, upstreams(v1beta1.UpstreamSame)), in: sti(leadingTo("data", "alias", "5432")),
			want: []verdict{{v1beta1.ReasonRefNotPermitted, onSame}}},
		"another one, on Same": {
			grants: map[string]bool{"shop -> data/db": true}, class: class("public", upstreams(v1beta1.UpstreamSame)), in: sti(leadingTo("data", "db", "5432")),
			want: []verdict{{v1beta1.ReasonRefNotPermitted, onSame}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			decide(t, &facts{grants: tc.grants, services: has}, func(f Facts) refusal.Problems { return Consent(f, tc.in, tc.class) }, tc.want...)
		})
	}
}

func TestUpstream(t *testing.T) {
	has := map[string]*corev1.Service{"shop/db": db, "shop/none": {}}
	for name, tc := range map[string]struct {
		in   *v1beta1.StreamIngress
		want []verdict
	}{
		"a port by number": {in: sti()},
		"a port by name":   {in: sti(leadingTo("", "db", "sql"))},
		"outside":          {in: sti(outside("192.0.2.7"))},
		"no such Service": {sti(leadingTo("", "nosuch", "80")), []verdict{{v1beta1.ReasonBackendNotFound,
			`spec.upstream.service: Not found: "nosuch": there is no Service shop/nosuch yet; the port answers once there is`}}},
		"no such Service, in the older spelling": {
			sti(func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Host, s.Spec.Upstream.Service = "some-tcp-port", "" }),
			[]verdict{{v1beta1.ReasonBackendNotFound,
				`spec.upstream.host: Not found: "some-tcp-port": there is no Service shop/some-tcp-port yet; the port answers once there is`}}},
		"no such number": {sti(leadingTo("", "db", "80")), []verdict{{v1beta1.ReasonBackendPortNotFound,
			`spec.upstream.port: Not found: 80: Service shop/db has no such TCP port yet, it has TCP/5432 (sql), UDP/8125 (stats)`}}},
		"no such name": {sti(leadingTo("", "db", "http")), []verdict{{v1beta1.ReasonBackendPortNotFound,
			`spec.upstream.port: Not found: "http": Service shop/db has no such TCP port yet, it has TCP/5432 (sql), UDP/8125 (stats)`}}},
		"the other protocol": {sti(leadingTo("", "db", "sql"), isUDP), []verdict{{v1beta1.ReasonBackendPortNotFound,
			`spec.upstream.port: Not found: "sql": Service shop/db has no such UDP port yet, it has TCP/5432 (sql), UDP/8125 (stats)`}}},
		"a Service without ports": {sti(leadingTo("", "none", "80")), []verdict{{v1beta1.ReasonBackendPortNotFound,
			`spec.upstream.port: Not found: 80: Service shop/none has no such TCP port yet, it has none`}}},
	} {
		t.Run(name, func(t *testing.T) {
			decide(t, &facts{services: has}, func(f Facts) refusal.Problems { return Upstream(f, tc.in) }, tc.want...)
		})
	}
}
