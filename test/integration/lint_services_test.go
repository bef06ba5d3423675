package integration

import (
	"fmt"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// service has annotations, and a spec with ports.
func (g *generator) service(annotations, spec fields) fields {
	name := g.name("svc")
	if spec["ports"] == nil {
		spec["ports"] = []any{fields{"name": "http", "port": 80}}
	}
	g.with(60, spec, "paint", "blue")
	return manifest("v1", "Service", g.namespace(), name, annotations, fields{"spec": spec})
}

func (g *generator) exposed() fields {
	value := "host=" + g.host() + ", path=" + g.path()
	switch g.IntN(9) {
	case 0:
		value = one(g, "", "nginx", "foo=bar", "host=", "host=a b", "path=api", "port=sql", "host=a.example.com host=b.example.com", "class=No!")
	case 1:
		value += ", " + one(g, "class=nginx", "class=other", "port=http", "port=81", "tls=yes", "issuer=letsencrypt", "exact=true")
	}
	return g.service(fields{v1beta1.AnnotationHTTP: value}, fields{})
}

func (g *generator) address() string {
	return one(g, fmt.Sprintf("198.51.100.%d", g.IntN(8)), fmt.Sprintf("192.0.2.%d", 100+g.IntN(20)), "203.0.113.1", "10.0.3.12", "::1", "nowhere")
}

func (g *generator) balanced() fields {
	annotations, spec := fields{}, fields{"type": "LoadBalancer", "loadBalancerClass": v1beta1.LoadBalancerClass}
	switch g.IntN(4) {
	case 0: // whichever there is
	case 1:
		annotations[poolAnnotation] = one(g, "auto", "named", "missing", "Not a name")
	default:
		annotations[v1beta1.AnnotationAddresses] = g.address()
	}
	g.with(8, annotations, v1beta1.AnnotationSharing, one(g, "Ports", "None", "Some"))
	g.with(10, spec, "loadBalancerIP", g.address())
	g.with(8, spec, "loadBalancerClass", "example.com/other")
	spec["ports"] = []any{fields{"name": "a", "port": 8000 + g.IntN(6)}, fields{"name": "b", "port": 9000 + g.IntN(6), "protocol": one(g, "TCP", "UDP")}}
	g.with(6, annotations, v1beta1.AnnotationHTTP, "host="+g.host())
	return g.service(annotations, spec)
}

func (g *generator) external() fields {
	return g.service(nil, fields{"externalIPs": []any{one(g, "203.0.113.7", "203.0.113.8", "198.51.100.2", "192.0.2.101")},
		"ports": []any{fields{"port": 7000 + g.IntN(5)}}})
}

func (g *generator) plain() fields {
	return g.service(nil, fields{"ports": []any{fields{"name": one(g, "http", "sql"), "port": one[any](g, 80, 5432)}}})
}

func (g *generator) ingress() fields {
	backend := fields{"service": fields{"name": "svc-1", "port": fields{"number": 80}}}
	spec := fields{"rules": []any{fields{"host": g.host(), "http": fields{"paths": []any{
		fields{"path": g.path(), "pathType": one(g, "Prefix", "Exact"), "backend": backend},
	}}}}}
	g.with(3, spec, "ingressClassName", one(g, "nginx", "other"))
	g.with(40, spec, "paint", "blue")
	return manifest("networking.k8s.io/v1", "Ingress", g.namespace(), g.name("ing"), nil, fields{"spec": spec})
}

func (g *generator) listeners() fields {
	listener := fields{"name": "l", "port": 8080 + g.IntN(8), "protocol": one(g, "TCP", "HTTP", "UDP")}
	if listener["protocol"] == "HTTP" && g.rarely(2) {
		listener["hostname"] = one(g, "a.example.com", "b.example.com")
	}
	return manifest(gatewayVersion, "ListenerSet", g.namespace(), g.name("set"), nil, fields{"spec": fields{
		"parentRef": fields{"name": "gate", "namespace": "edge"}, "listeners": []any{listener},
	}})
}

func (g *generator) route() fields {
	spec := fields{"parentRefs": []any{fields{"name": "gate", "namespace": "edge", "sectionName": "web"}}}
	if g.rarely(2) {
		spec["hostnames"] = []any{g.host()}
		return manifest(gatewayVersion, "HTTPRoute", g.namespace(), g.name("route"), nil, fields{"spec": spec})
	}
	spec["parentRefs"] = []any{fields{"name": fmt.Sprint("set-", g.IntN(g.n+1)), "kind": "ListenerSet", "group": "gateway.networking.k8s.io"}}
	spec["rules"] = []any{fields{"backendRefs": []any{fields{"name": "svc-1", "port": 80}}}}
	return manifest(gatewayVersion, "TCPRoute", g.namespace(), g.name("route"), nil, fields{"spec": spec})
}

func (g *generator) grant() fields {
	return manifest("gateway.networking.k8s.io/v1beta1", "ReferenceGrant", g.namespace(), g.name("grant"), nil, fields{"spec": fields{
		"from": []any{fields{"group": v1beta1.GroupName, "kind": "StreamIngress", "namespace": g.namespace()}},
		"to":   []any{fields{"group": "", "kind": "Service"}},
	}})
}

// mistaken is wrong in a way that no kind is.
func (g *generator) mistaken() fields {
	s := g.stream()
	switch g.IntN(5) {
	case 0:
		s["kind"] = "StreamIngres"
	case 1:
		s["apiVersion"] = v1beta1.GroupName + "/v1"
	case 2:
		s["metadata"].(fields)["name"] = "Not_a_Name"
	case 3:
		s["metadata"].(fields)["namespace"] = "team-missing"
	default:
		delete(s, "spec")
	}
	return s
}
