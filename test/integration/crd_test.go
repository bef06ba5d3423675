package integration

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// specCase is a spec as people write it, and what one object alone tells about it.
type specCase struct {
	spec string
	// field and message are of the refusal; both are empty when the spec is good.
	field, message string
}

// dryRun sends each spec as an object of a kind, which nothing is stored of.
func dryRun(t *testing.T, w *fixture, kind, namespace string, cases map[string]specCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			object := object(t, kind, namespace, "schema-test", test.spec)
			err := w.Client.Create(t.Context(), object, client.DryRunAll)
			judge(t, err, test)
		})
	}
}

// judge compares what the API server says with what it should.
func judge(t *testing.T, err error, test specCase) {
	t.Helper()
	if test.message == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	if !apierrors.IsInvalid(err) {
		t.Fatalf("want an Invalid refusal, got %v", err)
	}
	for _, cause := range causes(err) {
		if cause.Field == test.field && strings.Contains(cause.Message, test.message) {
			return
		}
	}
	t.Errorf("no cause %s: %s in %+v", test.field, test.message, causes(err))
}

// causes are the fields that a refusal names, and why.
func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// object is an object of our API with a spec in YAML.
func object(t *testing.T, kind, namespace, name, spec string) *unstructured.Unstructured {
	t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	o.SetGroupVersionKind(v1beta1.GroupVersion.WithKind(kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func TestStreamIngressSchema(t *testing.T) {
	w := shared(t)
	w.newEdge("schema")
	w.create(namespace("schema"))
	const (
		outsideHost = "must be a DNS name in lower case or an IP address"
		outsideIP   = "must be a unicast address that is not loopback or link-local"
		inside      = "must be outside the cluster"
		number      = "must be a port number from 1 to 65535, or the name of a port of the Service"
		serviceName = "must be the name of a Service"
	)
	dryRun(t, w, "StreamIngress", "schema", map[string]specCase{
		"a Service by number":       {spec: `{className: schema, listen: 5000, upstream: {service: db, port: 5432}}`},
		"a Service by port name":    {spec: `{className: schema, listen: 5000, upstream: {service: db, port: sql}}`},
		"the older spelling":        {spec: `{className: schema, listen: 5000, upstream: {host: db, port: 5432}}`},
		"the lowest port":           {spec: `{className: schema, listen: 1, upstream: {service: db, port: 1}}`},
		"the highest port":          {spec: `{className: schema, listen: 65535, upstream: {service: db, port: 65535}}`},
		"UDP":                       {spec: `{className: schema, protocol: UDP, listen: 53, upstream: {service: dns, port: 53}}`},
		"PROXY with TCP":            {spec: `{className: schema, listen: 25, upstream: {service: m, port: 25}, proxyProtocol: {accept: true, send: true}}`},
		"UDP, PROXY said to be off": {spec: `{className: schema, protocol: UDP, listen: 25, upstream: {service: m, port: 25}, proxyProtocol: {send: false}}`},
		"UDP, PROXY said nothing":   {spec: `{className: schema, protocol: UDP, listen: 25, upstream: {service: m, port: 25}, proxyProtocol: {}}`},
		"an outside DNS name":       {spec: `{className: schema, listen: 636, is_service: false, upstream: {host: ldap.example.com, port: 636}}`},
		"an outside IPv4 address":   {spec: `{className: schema, listen: 636, is_service: false, upstream: {host: 192.0.2.7, port: 636}}`},
		"an outside IPv6 address":   {spec: `{className: schema, listen: 636, is_service: false, upstream: {host: "2001:db8::7", port: 636}}`},

		"no spec":                 {spec: `{}`, field: "spec.upstream", message: "Required value"},
		"port 0":                  {spec: `{listen: 0, upstream: {service: db, port: 1}}`, field: "spec.listen", message: "should be greater than or equal to 1"},
		"port 65536":              {spec: `{listen: 65536, upstream: {service: db, port: 1}}`, field: "spec.listen", message: "should be less than or equal to 65535"},
		"an unknown protocol":     {spec: `{protocol: SCTP, upstream: {service: db, port: 1}}`, field: "spec.protocol", message: `supported values: "TCP", "UDP"`},
		"an empty class":          {spec: `{className: "", upstream: {service: db, port: 1}}`, field: "spec.className", message: "at least 1 chars long"},
		"too long a class":        {spec: `{className: ` + strings.Repeat("a", 64) + `, upstream: {service: db, port: 1}}`, field: "spec.className", message: "63"},
		"no upstream":             {spec: `{upstream: {port: 1}}`, field: "spec.upstream", message: "exactly one of service and host must be set"},
		"two upstreams":           {spec: `{upstream: {service: a, host: b, port: 1}}`, field: "spec.upstream", message: "exactly one of service and host must be set"},
		"no upstream port":        {spec: `{upstream: {service: a}}`, field: "spec.upstream.port", message: "Required value"},
		"upstream port 0":         {spec: `{upstream: {service: a, port: 0}}`, field: "spec.upstream.port", message: number},
		"upstream port 65536":     {spec: `{upstream: {service: a, port: 65536}}`, field: "spec.upstream.port", message: number},
		"a negative port":         {spec: `{upstream: {service: a, port: -1}}`, field: "spec.upstream.port", message: number},
		"an empty port name":      {spec: `{upstream: {service: a, port: ""}}`, field: "spec.upstream.port", message: number},
		"a number in quotes":      {spec: `{upstream: {service: a, port: "80"}}`, field: "spec.upstream.port", message: number},
		"a port name in capitals": {spec: `{upstream: {service: a, port: HTTP}}`, field: "spec.upstream.port", message: number},
		"too long a port name":    {spec: `{upstream: {service: a, port: abcdefghijklmnop}}`, field: "spec.upstream.port", message: "15"},
		"an entry for a port":     {spec: `{upstream: {service: a, port: "80:PROXY"}}`, field: "spec.upstream.port", message: number},
		"a bad namespace":         {spec: `{upstream: {namespace: A/b, service: a, port: 1}}`, field: "spec.upstream.namespace", message: "should match"},
		"a bad Service":           {spec: `{upstream: {service: "a:1", port: 1}}`, field: "spec.upstream.service", message: "should match"},
		"a new line in a Service": {spec: `{upstream: {service: "a\nb", port: 1}}`, field: "spec.upstream.service", message: "should match"},
		"a host with dots inside": {spec: `{upstream: {host: db.example.com, port: 1}}`, field: "spec.upstream.host", message: serviceName},
		"an address inside":       {spec: `{upstream: {host: "2001:db8::1", port: 1}}`, field: "spec.upstream.host", message: serviceName},
		"UDP that accepts PROXY":  {spec: `{protocol: UDP, upstream: {service: a, port: 1}, proxyProtocol: {accept: true}}`, field: "spec.proxyProtocol", message: "works with protocol TCP only"},
		"UDP that sends PROXY":    {spec: `{protocol: UDP, upstream: {service: a, port: 1}, proxyProtocol: {send: true}}`, field: "spec.proxyProtocol", message: "works with protocol TCP only"},

		"outside by service":        {spec: `{is_service: false, upstream: {service: a, port: 1}}`, field: "spec.upstream", message: "needs upstream.host"},
		"outside in a namespace":    {spec: `{is_service: false, upstream: {namespace: b, host: a.example.com, port: 1}}`, field: "spec.upstream.namespace", message: "has no namespace"},
		"outside by port name":      {spec: `{is_service: false, upstream: {host: a.example.com, port: http}}`, field: "spec.upstream.port", message: "needs a port number"},
		"an outside host, shouting": {spec: `{is_service: false, upstream: {host: A.example.com, port: 1}}`, field: "spec.upstream.host", message: outsideHost},
		"an outside host, _":        {spec: `{is_service: false, upstream: {host: a_b.example.com, port: 1}}`, field: "spec.upstream.host", message: outsideHost},
		"an outside host, space":    {spec: `{is_service: false, upstream: {host: "a b", port: 1}}`, field: "spec.upstream.host", message: outsideHost},
		"an outside host, dot":      {spec: `{is_service: false, upstream: {host: a.example.com., port: 1}}`, field: "spec.upstream.host", message: outsideHost},
		"half an address":           {spec: `{is_service: false, upstream: {host: 192.0.2, port: 1}}`, field: "spec.upstream.host", message: outsideHost},
		"an impossible address":     {spec: `{is_service: false, upstream: {host: 192.0.2.256, port: 1}}`, field: "spec.upstream.host", message: outsideHost},
		"an empty outside host":     {spec: `{is_service: false, upstream: {host: "", port: 1}}`, field: "spec.upstream.host", message: "at least 1 chars long"},
		"loopback":                  {spec: `{is_service: false, upstream: {host: 127.0.0.1, port: 1}}`, field: "spec.upstream.host", message: outsideIP},
		"loopback, IPv6":            {spec: `{is_service: false, upstream: {host: "::1", port: 1}}`, field: "spec.upstream.host", message: outsideIP},
		"link-local":                {spec: `{is_service: false, upstream: {host: 169.254.169.254, port: 1}}`, field: "spec.upstream.host", message: outsideIP},
		"link-local, IPv6":          {spec: `{is_service: false, upstream: {host: "fe80::1", port: 1}}`, field: "spec.upstream.host", message: outsideIP},
		"unspecified":               {spec: `{is_service: false, upstream: {host: 0.0.0.0, port: 1}}`, field: "spec.upstream.host", message: outsideIP},
		"multicast":                 {spec: `{is_service: false, upstream: {host: 224.0.0.1, port: 1}}`, field: "spec.upstream.host", message: outsideIP},
		"multicast, routed":         {spec: `{is_service: false, upstream: {host: 239.1.1.1, port: 1}}`, field: "spec.upstream.host", message: outsideIP},
		"multicast, IPv6":           {spec: `{is_service: false, upstream: {host: "ff0e::1", port: 1}}`, field: "spec.upstream.host", message: outsideIP},
		"broadcast":                 {spec: `{is_service: false, upstream: {host: 255.255.255.255, port: 1}}`, field: "spec.upstream.host", message: outsideIP},
		"a name of localhost":       {spec: `{is_service: false, upstream: {host: db.localhost, port: 1}}`, field: "spec.upstream.host", message: inside},
		"localhost":                 {spec: `{is_service: false, upstream: {host: localhost, port: 1}}`, field: "spec.upstream.host", message: inside},
		"a Service in disguise":     {spec: `{is_service: false, upstream: {host: db.shop.svc, port: 1}}`, field: "spec.upstream.host", message: inside},
		"a Service, full name":      {spec: `{is_service: false, upstream: {host: db.shop.svc.cluster.local, port: 1}}`, field: "spec.upstream.host", message: inside},
	})
}

func TestStreamIngressClassSchema(t *testing.T) {
	w := shared(t)
	const targets = `tcpConfigMap: {namespace: schema-classes, name: tcp}, udpConfigMap: {namespace: schema-classes, name: udp}`
	dryRun(t, w, "StreamIngressClass", "", map[string]specCase{
		"both ConfigMaps":    {spec: `{` + targets + `}`},
		"TCP only":           {spec: `{tcpConfigMap: {namespace: schema-classes, name: tcp}}`},
		"UDP only":           {spec: `{udpConfigMap: {namespace: schema-classes, name: udp}}`},
		"everything":         {spec: `{` + targets + `, service: {namespace: schema-classes, name: p}, autoAssign: {from: 20000, to: 20999}, reserved: [{from: 442}, {from: 10245, to: 10247}], allow: [{protocols: [TCP, UDP], from: 1, to: 1024, maxPerNamespace: 3, namespaceSelector: {matchLabels: {team: a}}}, {}], upstreamNamespaces: Same}`},
		"one name, two ways": {spec: `{tcpConfigMap: {namespace: schema-classes, name: s}, udpConfigMap: {namespace: schema-classes2, name: s}}`},

		"no ConfigMap":        {spec: `{service: {namespace: a, name: p}}`, field: "spec", message: "at least one of tcpConfigMap and udpConfigMap must be set"},
		"one ConfigMap twice": {spec: `{tcpConfigMap: {namespace: a, name: s}, udpConfigMap: {namespace: a, name: s}}`, field: "spec.udpConfigMap", message: "must be another ConfigMap than tcpConfigMap"},
		"no namespace":        {spec: `{tcpConfigMap: {name: s}}`, field: "spec.tcpConfigMap.namespace", message: "Required value"},
		"a bad name":          {spec: `{tcpConfigMap: {namespace: a, name: S}}`, field: "spec.tcpConfigMap.name", message: "should match"},
		"a range backwards":   {spec: `{` + targets + `, autoAssign: {from: 2, to: 1}}`, field: "spec.autoAssign.to", message: "must not be less than from"},
		"a range from 0":      {spec: `{` + targets + `, autoAssign: {from: 0, to: 1}}`, field: "spec.autoAssign.from", message: "greater than or equal to 1"},
		"a range too far":     {spec: `{` + targets + `, autoAssign: {from: 1, to: 65536}}`, field: "spec.autoAssign.to", message: "less than or equal to 65535"},
		"reserved backwards":  {spec: `{` + targets + `, reserved: [{from: 2, to: 1}]}`, field: "spec.reserved[0].to", message: "must not be less than from"},
		"allow backwards":     {spec: `{` + targets + `, allow: [{from: 2, to: 1}]}`, field: "spec.allow[0].to", message: "must not be less than from"},
		"allow from too high": {spec: `{` + targets + `, allow: [{to: 10, from: 11}]}`, field: "spec.allow[0].to", message: "must not be less than from"},
		"allow none":          {spec: `{` + targets + `, allow: [{maxPerNamespace: 0}]}`, field: "spec.allow[0].maxPerNamespace", message: "greater than or equal to 1"},
		"a protocol twice":    {spec: `{` + targets + `, allow: [{protocols: [TCP, TCP]}]}`, field: "spec.allow[0].protocols[1]", message: "Duplicate value"},
		"an unknown protocol": {spec: `{` + targets + `, allow: [{protocols: [SCTP]}]}`, field: "spec.allow[0].protocols[0]", message: `supported values: "TCP", "UDP"`},
		"a bad selector":      {spec: `{` + targets + `, allow: [{namespaceSelector: {matchExpressions: [{key: team, operator: Is}]}}]}`, field: "spec.allow[0].namespaceSelector", message: "not a valid label selector operator"},
		"a bad label":         {spec: `{` + targets + `, allow: [{namespaceSelector: {matchLabels: {team: "a b"}}}]}`, field: "spec.allow[0].namespaceSelector", message: "a b"},
		"an unknown policy":   {spec: `{` + targets + `, upstreamNamespaces: Some}`, field: "spec.upstreamNamespaces", message: `supported values: "Same", "Granted", "All"`},
	})
	long := streamClass(strings.Repeat("a", 64), "schema-classes")
	judge(t, w.Client.Create(t.Context(), long, client.DryRunAll), specCase{field: "<nil>", message: "at most 63 characters"})
}

func TestEdgeClaimSchema(t *testing.T) {
	w := shared(t)
	dryRun(t, w, "EdgeClaim", "", map[string]specCase{
		"of a stream":          {spec: `{scope: stream/schema, point: TCP/1, holder: {group: g, kind: K, namespace: ns, name: m}, heldBy: K ns/m}`},
		"of a cluster's thing": {spec: `{scope: stream/schema, point: TCP/1, holder: {kind: K, name: m}, heldBy: K m}`},

		"no holder":       {spec: `{scope: stream/schema, point: TCP/1, heldBy: K m}`, field: "spec.holder", message: "Required value"},
		"another holder":  {spec: `{scope: stream/schema, point: TCP/1, holder: {kind: K, namespace: ns, name: m}, heldBy: K ns/o}`, field: "spec.heldBy", message: "must be the holder's kind, namespace and name"},
		"half the holder": {spec: `{scope: stream/schema, point: TCP/1, holder: {kind: K, namespace: ns, name: m}, heldBy: K m}`, field: "spec.heldBy", message: "must be the holder's kind, namespace and name"},
		"no scope":        {spec: `{scope: "", point: TCP/1, holder: {kind: K, name: m}, heldBy: K m}`, field: "spec.scope", message: "at least 1 chars long"},
	})
	// Whoever can write claims still can't turn one into another. This name is no coordinate, so nobody releases it.
	stored := object(t, "EdgeClaim", "", "schema-test", `{scope: test/schema, point: p, holder: {kind: K, name: m}, heldBy: K m}`)
	w.create(stored)
	for _, field := range []string{"scope", "point"} {
		changed := stored.DeepCopy()
		if err := unstructured.SetNestedField(changed.Object, "another", "spec", field); err != nil {
			t.Fatal(err)
		}
		judge(t, w.Client.Update(t.Context(), changed), specCase{field: "spec", message: "can't be changed"})
	}
	w.delete(stored)
}

func TestDefaults(t *testing.T) {
	e := shared(t).newEdge("defaults", allow(0, 0, ""), insideOnly)
	e.create(namespace("defaults"))
	s := object(t, "StreamIngress", "defaults", "bare", `{className: defaults, listen: 1, upstream: {service: a, port: 1}}`)
	e.create(s)
	got := &v1beta1.StreamIngress{}
	got.Namespace, got.Name = "defaults", "bare"
	e.get(got, e.class)
	if got.Spec.Protocol != TCP || got.Spec.IsService == nil || !*got.Spec.IsService {
		t.Errorf("StreamIngress defaults to %+v", got.Spec)
	}
	if got := e.class.Spec; got.UpstreamNamespaces != v1beta1.UpstreamGranted || got.OutsideUpstreams != v1beta1.OutsideDenied ||
		got.Allow[0].From != 1 || got.Allow[0].To != 65535 {
		t.Errorf("StreamIngressClass defaults to %+v", got)
	}
	mustContain(t, e.refusal(e.try(sti("defaults/outside", of("defaults"), tcp(2), outside("192.0.2.7", 5432)))).Error(),
		"spec.is_service: Invalid value: false", "lead to Services only (outsideUpstreams: Denied)")
}
