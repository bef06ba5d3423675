package integration

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// The protocols, short enough for tables.
const (
	TCP = v1beta1.TCP
	UDP = v1beta1.UDP
)

// streamOption changes a stream that is being built.
type streamOption func(*v1beta1.StreamIngress)

// sti is a stream, by its namespace/name. Without options it leads to port 80 of the Service "web" of its namespace,
// and leaves class, protocol and port out.
func sti(key string, options ...streamOption) *v1beta1.StreamIngress {
	s := &v1beta1.StreamIngress{}
	s.Namespace, s.Name, _ = strings.Cut(key, "/")
	to("web", 80)(s)
	for _, option := range options {
		option(s)
	}
	return s
}

// of names the class.
func of(class string) streamOption {
	return func(s *v1beta1.StreamIngress) { s.Spec.ClassName = class }
}

// tcp asks for a TCP port.
func tcp(port int32) streamOption {
	return func(s *v1beta1.StreamIngress) { s.Spec.Protocol, s.Spec.Listen = TCP, &port }
}

// udp asks for a UDP port.
func udp(port int32) streamOption {
	return func(s *v1beta1.StreamIngress) { s.Spec.Protocol, s.Spec.Listen = UDP, &port }
}

// auto asks for any port of a protocol.
func auto(protocol v1beta1.Protocol) streamOption {
	return func(s *v1beta1.StreamIngress) { s.Spec.Protocol, s.Spec.Listen = protocol, nil }
}

// to sends the traffic to a Service: "name", or "namespace/name". The port is a number or a name.
func to[P int | string](service string, port P) streamOption {
	return func(s *v1beta1.StreamIngress) {
		u := v1beta1.StreamUpstream{Service: service, Port: portOf(port)}
		if namespace, name, found := strings.Cut(service, "/"); found {
			u.Namespace, u.Service = namespace, name
		}
		s.Spec.Upstream = u
	}
}

// outside sends the traffic to a host outside the cluster.
func outside(host string, port int) streamOption {
	return func(s *v1beta1.StreamIngress) {
		s.Spec.IsService = new(false)
		s.Spec.Upstream = v1beta1.StreamUpstream{Host: host, Port: intstr.FromInt(port)}
	}
}

// proxyProtocol says where the PROXY protocol is spoken.
func proxyProtocol(accept, send bool) streamOption {
	return func(s *v1beta1.StreamIngress) {
		s.Spec.ProxyProtocol = &v1beta1.ProxyProtocol{Accept: accept, Send: send}
	}
}

// finalizer keeps a deleted stream.
func finalizer(name string) streamOption {
	return func(s *v1beta1.StreamIngress) { s.Finalizers = append(s.Finalizers, name) }
}

// portOf is a port by number or name.
func portOf[P int | string](port P) intstr.IntOrString {
	switch p := any(port).(type) {
	case int:
		return intstr.FromInt(p)
	default:
		return intstr.FromString(p.(string))
	}
}

// classOption changes a class that is being built.
type classOption func(*v1beta1.StreamIngressClass)

// streamClass is a class whose ConfigMaps tcp-services and udp-services and whose Service proxy are in a namespace. Streams
// may lead out of the cluster, which they may not by default.
func streamClass(name, namespace string, options ...classOption) *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: namespace, Name: "tcp-services"}
	c.Spec.UDPConfigMap = &v1beta1.ObjectReference{Namespace: namespace, Name: "udp-services"}
	c.Spec.Service = &v1beta1.ObjectReference{Namespace: namespace, Name: "proxy"}
	c.Spec.OutsideUpstreams = v1beta1.OutsideAllowed
	for _, option := range options {
		option(c)
	}
	return c
}

// isDefault makes the class the default one.
func isDefault(c *v1beta1.StreamIngressClass) {
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1beta1.AnnotationDefaultClass, "true")
}

// autoAssign gives the class a range to draw from.
func autoAssign(from, to int32) classOption {
	return func(c *v1beta1.StreamIngressClass) { c.Spec.AutoAssign = &v1beta1.PortRange{From: from, To: to} }
}

// reserved keeps a range for the class.
func reserved(from, to int32) classOption {
	return func(c *v1beta1.StreamIngressClass) {
		c.Spec.Reserved = append(c.Spec.Reserved, v1beta1.PortRange{From: from, To: to})
	}
}

// allow gives a range to the namespaces that have a label, "key=value"; to all with "".
func allow(from, to int32, label string, protocols ...v1beta1.Protocol) classOption {
	return func(c *v1beta1.StreamIngressClass) {
		rule := v1beta1.PortAllowance{From: from, To: to, Protocols: protocols}
		if key, value, found := strings.Cut(label, "="); found {
			rule.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
		}
		c.Spec.Allow = append(c.Spec.Allow, rule)
	}
}

// upstreams says which namespaces streams may send their traffic to.
func upstreams(which v1beta1.UpstreamNamespaces) classOption {
	return func(c *v1beta1.StreamIngressClass) { c.Spec.UpstreamNamespaces = which }
}

// insideOnly keeps the streams of the class in the cluster, as is the default.
func insideOnly(c *v1beta1.StreamIngressClass) { c.Spec.OutsideUpstreams = "" }

// hostNetwork is a class without a Service.
func hostNetwork(c *v1beta1.StreamIngressClass) { c.Spec.Service = nil }

// service is a Service with ports, by its namespace/name.
func service(key string, ports ...corev1.ServicePort) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{Ports: ports}}
	s.Namespace, s.Name, _ = strings.Cut(key, "/")
	return s
}

// port is a port of a Service, TCP unless a protocol is given.
func port(name string, number int32, protocol ...v1beta1.Protocol) corev1.ServicePort {
	p := corev1.ServicePort{Name: name, Port: number, Protocol: corev1.ProtocolTCP}
	if len(protocol) > 0 {
		p.Protocol = corev1.Protocol(protocol[0])
	}
	return p
}

// namespace is a Namespace with labels, each "key=value".
func namespace(name string, labels ...string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		ns.Labels[key] = value
	}
	return ns
}

// configMap is a ConfigMap, by its namespace/name.
func configMap(key string, data map[string]string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{Data: data}
	cm.Namespace, cm.Name, _ = strings.Cut(key, "/")
	return cm
}

// grant is the consent of a namespace that streams of another send their traffic to its Services, or to one of them.
func grant(key, from string, services ...string) *gatewayv1beta1.ReferenceGrant {
	g := &gatewayv1beta1.ReferenceGrant{}
	g.Namespace, g.Name, _ = strings.Cut(key, "/")
	g.Spec.From = []gatewayv1beta1.ReferenceGrantFrom{{
		Group: v1beta1.GroupName, Kind: "StreamIngress", Namespace: gatewayv1.Namespace(from),
	}}
	g.Spec.To = []gatewayv1beta1.ReferenceGrantTo{{Kind: "Service"}}
	for i, name := range services {
		if i > 0 {
			g.Spec.To = append(g.Spec.To, gatewayv1beta1.ReferenceGrantTo{Kind: "Service"})
		}
		g.Spec.To[i].Name = new(gatewayv1.ObjectName(name))
	}
	return g
}

// condition is the status and reason of a condition, for example "False PortConflict"; empty when there is none.
func condition(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}
