package integration

import (
	"fmt"
	"math/rand/v2"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// fields are those of an object.
type fields = map[string]any

// generator makes manifests of all kinds that decisions depend on, valid and not, of so few names and points that many are in conflict.
type generator struct {
	*rand.Rand
	n int
	// owned are host names that a policy was made for that gives each to one namespace. They are used after it: those that are used before
	// are entered in the ledger in a moment that nobody can wait for.
	owned []string
}

func newGenerator(seed uint64) *generator { return &generator{Rand: rand.New(rand.NewPCG(seed, seed))} }

// one picks one of several.
func one[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// rarely is true once in so many times.
func (g *generator) rarely(in int) bool { return g.IntN(in) == 0 }

// with adds a field to others, once in so many times.
func (g *generator) with(in int, to fields, name string, value any) {
	if g.rarely(in) {
		to[name] = value
	}
}

// namespaces of tenants. Nothing else is there.
var lintNamespaces = []string{"team-a", "team-b", "team-c", "team-d"}

func (g *generator) namespace() string { return one(g, lintNamespaces...) }

// manifest is an object; a namespace or annotations may be empty.
func manifest(version, kind, namespace, name string, annotations, more fields) fields {
	meta := fields{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	all := fields{"apiVersion": version, "kind": kind, "metadata": meta}
	for name, value := range more {
		all[name] = value
	}
	return all
}

// name is a new name.
func (g *generator) name(prefix string) string {
	g.n++
	return fmt.Sprintf("%s-%d", prefix, g.n)
}

// known is a new name, or now and then one that may be there already.
func (g *generator) known(prefix string) string {
	if g.rarely(8) {
		return fmt.Sprintf("%s-%d", prefix, g.IntN(g.n+1))
	}
	return g.name(prefix)
}

const (
	oursVersion, gatewayVersion = v1beta1.GroupName + "/v1beta1", "gateway.networking.k8s.io/v1"
	poolAnnotation              = v1beta1.AnnotationAddressPool
)

// begin is what is there before all else.
func (g *generator) begin() (all []fields) {
	for i, name := range lintNamespaces {
		ns := manifest("v1", "Namespace", "", name, nil, nil)
		ns["metadata"].(fields)["labels"] = fields{"team": string(rune('a' + i)), "tier": one(g, "gold", "iron")}
		all = append(all, ns)
	}
	for _, name := range []string{"edge", "addresses"} {
		all = append(all, manifest("v1", "Namespace", "", name, nil, nil))
	}
	entries := fields{"5003": "team-a/svc-1:80", "5004": "not an entry"}
	return append(all,
		manifest("v1", "ConfigMap", "edge", "tcp", nil, fields{"data": entries}),
		manifest("networking.k8s.io/v1", "IngressClass", "", "nginx", fields{"ingressclass.kubernetes.io/is-default-class": "true"},
			fields{"spec": fields{"controller": "k8s.io/ingress-nginx"}}),
		manifest(oursVersion, "StreamIngressClass", "", "public", fields{v1beta1.AnnotationDefaultClass: "true"}, fields{"spec": fields{
			"tcpConfigMap": ref("edge", "tcp"), "udpConfigMap": ref("edge", "udp"), "autoAssign": fields{"from": 20000, "to": 20099},
			"reserved": []any{fields{"from": 22}},
		}}),
		manifest(oursVersion, "StreamIngressClass", "", "strict", nil, fields{"spec": fields{
			"tcpConfigMap": ref("edge", "strict-tcp"), "udpConfigMap": ref("edge", "strict-udp"), "upstreamNamespaces": "Same",
			"outsideUpstreams": "Allowed", "allow": []any{
				fields{"from": 5000, "to": 5009, "namespaceSelector": fields{"matchLabels": fields{"tier": "gold"}}},
				fields{"from": 5000, "to": 5049, "maxPerNamespace": 3},
			},
		}}),
		manifest(oursVersion, "AddressPool", "", "auto", nil, fields{"spec": fields{"source": "Addresses", "addresses": []any{"192.0.2.0/25"}}}),
		manifest(oursVersion, "AddressPool", "", "named", nil, fields{"spec": fields{
			"source": "Addresses", "addresses": []any{"198.51.100.0/29"}, "autoAssign": false, "sharing": "Ports",
		}}),
		manifest(oursVersion, "HostPolicy", "", "own", nil, fields{"spec": fields{
			"hosts": []any{"*.own.example.com"}, "sharing": "Namespace", "maxPerNamespace": 3,
		}}),
		manifest(oursVersion, "HostPolicy", "", "gold", nil, fields{"spec": fields{
			"hosts": []any{"gold.example.com"}, "namespaceSelector": fields{"matchLabels": fields{"tier": "gold"}},
		}}),
		manifest(gatewayVersion, "Gateway", "edge", "gate", nil, fields{"spec": fields{
			"gatewayClassName": "none", "listeners": []any{fields{"name": "web", "port": 80, "protocol": "HTTP"}},
			"allowedListeners": fields{"namespaces": fields{"from": "All"}},
		}}),
	)
}

func ref(namespace, name string) fields { return fields{"namespace": namespace, "name": name} }

// next makes a manifest.
func (g *generator) next() fields {
	makers := []struct {
		weight int
		make   func() fields
	}{
		{30, g.stream}, {5, g.class}, {5, g.pool}, {5, g.policy}, {20, g.exposed}, {14, g.balanced}, {6, g.external}, {10, g.ingress},
		{6, g.listeners}, {5, g.route}, {4, g.plain}, {3, g.grant}, {2, g.mistaken},
	}
	total := 0
	for _, m := range makers {
		total += m.weight
	}
	at := g.IntN(total)
	for _, m := range makers {
		if at -= m.weight; at < 0 {
			return m.make()
		}
	}
	return nil
}

func (g *generator) stream() fields {
	spec, upstream := fields{}, fields{"service": one(g, "svc-1", "svc-2", "db"), "port": one[any](g, 80, 5432, "sql", "http")}
	switch g.IntN(10) {
	case 0: // an automatic port
	case 1:
		spec["listen"] = one[any](g, 0, 70000, -1, "5432", 22)
	default:
		spec["listen"] = 5000 + g.IntN(60)
	}
	if class := one(g, "", "public", "strict", "strict", "missing", "Not a name"); class != "" {
		spec["className"] = class
	}
	g.with(3, spec, "protocol", one(g, "TCP", "UDP", "UDP", "tcp"))
	g.with(8, upstream, "namespace", g.namespace())
	g.with(30, upstream, "port", one[any](g, 0, "", "not_a_port", 99999))
	g.with(30, spec, "proxyProtocol", fields{"accept": true, "send": g.rarely(2)})
	g.with(40, spec, "paint", "blue")
	if g.rarely(8) {
		spec["is_service"] = false
		delete(upstream, "service")
		upstream["host"] = one(g, "db.example.com", "192.0.2.200", "svc.team-a.svc.cluster.local", "127.0.0.1", "a b")
		g.with(6, upstream, "service", "both")
	}
	spec["upstream"] = upstream
	return manifest(oursVersion, "StreamIngress", g.namespace(), g.known("stream"), nil, fields{"spec": spec})
}

func (g *generator) class() fields {
	spec := fields{"tcpConfigMap": ref("edge", fmt.Sprint("tcp-", g.IntN(30))), "udpConfigMap": ref("edge", fmt.Sprint("udp-", g.IntN(30)))}
	g.with(8, spec, "tcpConfigMap", ref("edge", "tcp"))
	g.with(8, spec, "udpConfigMap", spec["tcpConfigMap"])
	g.with(8, spec, "gateway", ref("edge", "gate"))
	g.with(5, spec, "autoAssign", fields{"from": one(g, 20000, 0, 100), "to": one(g, 20100, 50)})
	g.with(6, spec, "reserved", []any{fields{"from": one(g, 22, 70000)}})
	g.with(6, spec, "upstreamNamespaces", one(g, "Same", "All", "Some"))
	if g.rarely(5) {
		spec = fields{"addressPool": fields{"name": one(g, "auto", "named", "missing"), "namespace": "addresses"}}
		g.with(2, spec["addressPool"].(fields), "addresses", []any{g.address()})
		return manifest(oursVersion, "StreamIngressClass", "", g.name("class"), nil, fields{"spec": spec})
	}
	return manifest(oursVersion, "StreamIngressClass", "", g.known("class"), nil, fields{"spec": spec})
}

func (g *generator) pool() fields {
	n := g.IntN(40)
	spec := fields{"source": one(g, "Addresses", "Addresses", "Addresses", "NodeIP", "Elsewhere")}
	spec["addresses"] = []any{one(g, fmt.Sprintf("10.0.%d.0/24", n), fmt.Sprintf("10.0.%d.10-10.0.%d.20", n, n), "198.51.100.4", "10.0.0.9-10.0.0.1", "ten")}
	spec["autoAssign"] = false
	g.with(5, spec, "sharing", one(g, "None", "Ports", "All"))
	g.with(5, spec, "maxPerNamespace", one(g, 1, -1))
	g.with(5, spec, "priority", 5)
	g.with(6, spec, "namespaceSelector", fields{"matchLabels": fields{"team": "a"}})
	return manifest(oursVersion, "AddressPool", "", g.known("pool"), nil, fields{"spec": spec})
}

func (g *generator) policy() fields {
	spec := fields{"hosts": []any{one(g, fmt.Sprintf("p%d.example.net", g.IntN(30)), fmt.Sprintf("*.w%d.example.net", g.IntN(10)),
		"gold.example.com", "Bad.Host", "*")}}
	g.with(3, spec, "sharing", one(g, "Paths", "Nobody"))
	if g.rarely(4) {
		name := fmt.Sprintf("n%d.example.net", g.n)
		spec["hosts"], spec["sharing"] = []any{name}, "Namespace"
		g.owned = append(g.owned, name)
	}
	g.with(4, spec, "maxPerNamespace", one(g, 1, 0))
	g.with(4, spec, "namespaceSelector", fields{"matchExpressions": []any{fields{"key": "team", "operator": one(g, "Exists", "In", "Near")}}})
	return manifest(oursVersion, "HostPolicy", "", g.known("policy"), nil, fields{"spec": spec})
}

func (g *generator) host() string {
	if len(g.owned) > 0 && g.rarely(6) {
		return one(g, g.owned...)
	}
	return one(g, "a.example.com", "b.example.com", "c.example.com", "gold.example.com", "x.own.example.com", "y.own.example.com",
		"*.own.example.com", fmt.Sprintf("h%d.example.com", g.IntN(40)), fmt.Sprintf("p%d.example.net", g.IntN(30)))
}

func (g *generator) path() string {
	return one(g, "/", "/api", "/api/v1", fmt.Sprintf("/p%d", g.IntN(20)))
}
