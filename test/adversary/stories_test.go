package adversary

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// balancer is a Service of a tenant, which is open on TCP ports at an address; at none with "".
func balancer(namespace, ip string, ports ...int32) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lb", UID: "1"}}
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	for _, p := range ports {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: p})
	}
	if ip != "" {
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	}
	return svc
}

// serving is an Ingress of a tenant that serves a host.
func serving(namespace, host string) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	ing.Spec.Rules = []networkingv1.IngressRule{{Host: host}}
	return ing
}

// wanting is a Service of a tenant that asks for a host.
func wanting(namespace, host string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	svc.Annotations = map[string]string{v1beta1.AnnotationHTTP: "host=" + host + ",path=/"}
	return svc
}

// listening is a stream of a tenant that is accepted on a TCP port.
func listening(namespace string, port int32) *v1beta1.StreamIngress {
	si := &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}}
	si.Spec.ClassName, si.Spec.Listen = className, &port
	si.Status.Listen, si.Status.ClassName = port, className
	for _, kind := range []string{v1beta1.ConditionAccepted, v1beta1.ConditionProgrammed} {
		si.Status.Conditions = append(si.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
	}
	return si
}

// held is a claim.
func held(at claim.Coordinate, by claim.Holder) *v1beta1.EdgeClaim {
	return claim.New(at, claim.Claimant{Holder: by})
}

// reserving is the class with a reserved port.
func reserving(port int32) *v1beta1.StreamIngressClass {
	c := class()
	c.Spec.Reserved = []v1beta1.PortRange{{From: port}}
	return c
}

// with is the ConfigMap of the platform, changed.
func with(key, value string) *corev1.ConfigMap {
	cm := entries()
	if cm.Data[key] = value; value == "" {
		delete(cm.Data, key)
	}
	return cm
}

// opened is the Service of the proxy with other ports.
func opened(ports ...corev1.ServicePort) *corev1.Service {
	svc := proxy()
	for i := range svc.Spec.Ports {
		svc.Spec.Ports[i].TargetPort.IntVal = svc.Spec.Ports[i].Port
	}
	svc.Spec.Ports = append(svc.Spec.Ports, ports...)
	return svc
}

// entriesOfHost is the ConfigMap of the proxy on the nodes, with an entry.
func entriesOfHost(key string) *corev1.ConfigMap {
	cm := hostEntries()
	cm.Data = map[string]string{key: "tenant-a/lb-0:80"}
	return cm
}

// onTheNodes has a stream be one of the proxy that listens there.
func onTheNodes(si *v1beta1.StreamIngress) *v1beta1.StreamIngress {
	si.Spec.ClassName, si.Status.ClassName = hostClassName, hostClassName
	return si
}

// later is a minute or more after what came before.
type later struct{ client.Object }

// gone is the deletion of an object.
type gone struct{ client.Object }

// TestEveryLawFinds tells for each law a story that keeps it until its last change: what finds nothing is only worth
// something if it would find it.
func TestEveryLawFinds(t *testing.T) {
	const host = "one.example.com"
	lbA, lbB := claim.ServiceHolder("tenant-a", "lb"), claim.ServiceHolder("tenant-b", "lb")
	webA, webB := claim.ServiceHolder("tenant-a", "web"), claim.ServiceHolder("tenant-b", "web")
	node80, path, port := claim.NodePort("TCP", 80), claim.HTTP(host, "/"), claim.Stream(className, v1beta1.TCP, 7002)
	streamA, proxyHolder := claim.StreamHolder("tenant-a", "s"), claim.ServiceHolder(platform, "proxy")
	https := claim.AddressPort(sharedIP, "TCP", 443)
	direct, shared := claim.Stream(directClassName, v1beta1.TCP, 7002), claim.AddressPort(sharedIP, "TCP", 7002)
	directHolder, door := claim.ClassHolder(directClassName), balancer(directNamespace, sharedAddress, 7002)
	stories := map[string][]client.Object{
		"no two Services have one address, or one port of it":             {balancer("tenant-a", nodeAddress, 80), balancer("tenant-b", nodeAddress, 81), balancer("tenant-b", nodeAddress, 81, 80)},
		"no Service has a port that the nodes need":                       {balancer("tenant-a", "", 10250), balancer("tenant-a", nodeAddress, 10250)},
		"a Service holds what its status lists":                           {held(node80, lbA), balancer("tenant-a", nodeAddress, 80), gone{held(node80, lbA)}},
		"what a status lists is not released":                             {held(node80, lbA), balancer("tenant-a", nodeAddress, 80), held(node80, lbB)},
		"a Service keeps its address for as long as it asks for the same": {balancer("tenant-a", "", 80), balancer("tenant-a", nodeAddress, 80), balancer("tenant-a", "", 80)},
		"what an Ingress serves is not released":                          {serving("tenant-a", host), held(path, claim.IngressHolder("tenant-a", "web")), gone{held(path, claim.IngressHolder("tenant-a", "web"))}},
		"what an Ingress serves is given to no Service":                   {serving("tenant-a", host), later{held(path, webB)}},
		"a Service keeps the path that it asks for":                       {wanting("tenant-a", host), held(path, webA), held(path, webB)},
		"a stream holds the port that it asks for":                        {held(port, streamA), listening("tenant-a", 7002), gone{held(port, streamA)}},
		"no two streams say that they have one port":                      {listening("tenant-a", 7002), listening("tenant-b", 7003), listening("tenant-b", 7002)},
		"no stream gets a port that the class reserves":                   {reserving(7002), later{held(port, streamA)}},
		"an entry leads to who holds its port":                            {held(port, streamA), with("7002", "tenant-a/lb:80"), with("7002", "tenant-b/lb:80")},
		"a stream keeps its entry for as long as it asks for the same":    {held(port, streamA), listening("tenant-a", 7002), later{with("7002", "tenant-a/lb:80")}, entries()},
		"what the platform has written into the ConfigMap stays":          {entries(), with("7000", "")},
		"what the platform has written on the proxy's Service stays":      {opened(), proxy()},
		"a port of the proxy is somebody's":                               {opened(), held(port, streamA), opened(corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 7002}), gone{held(port, streamA)}, later{opened(corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 7002})}},
		"a proxy keeps its ports of an address while its Service or its class is made anew": {
			later{class()}, proxy(), held(https, proxyHolder), gone{proxy()}, gone{held(https, proxyHolder)},
		},
		"a port without a proxy is open for who holds it": {
			held(direct, streamA), held(shared, directHolder), door, gone{held(direct, streamA)},
		},
		"a class without a proxy holds what its streams have of its address": {
			held(direct, streamA), held(shared, directHolder), door, held(shared, lbB),
		},
		"no Service has a port of the nodes on which a proxy listens": {
			entriesOfHost("8080"), balancer("tenant-a", nodeAddress, 8081), balancer("tenant-b", nodeAddress, 8080),
		},
		"a stream on the nodes keeps its port while its class is made anew": {
			held(claim.Stream(hostClassName, v1beta1.TCP, 8080), streamA), onTheNodes(listening("tenant-a", 8080)), gone{hostClass()},
			held(claim.NodePort("TCP", 8080), lbB),
		},
	}
	set, other := setOf("tenant-a", "set", entry(7100, "TCP")), setOf("tenant-b", "set", entry(7100, ""))
	setA, setB := claim.ListenerSetHolder("tenant-a", "set"), claim.ListenerSetHolder("tenant-b", "set")
	tcp := claim.Listener(keyOf(gateway()), v1beta1.TCP, 7100)
	hosts := claim.HostListener(keyOf(gateway()), claim.HTTPListener, 7100, claim.AllHosts)
	stories["a listener keeps its point for as long as it is there"] = []client.Object{set, held(tcp, setA), later{held(tcp, setB)}}
	stories["no two listeners have what one of them has to have alone"] = []client.Object{
		set, held(tcp, setA), other, held(hosts, setB), later{held(node80, lbA)},
	}
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			story := stories[l.name]
			delete(stories, l.name)
			m, seen := newMoment(), time.Unix(0, 0)
			for i, object := range story {
				c := change{version: uint64(i + 1), object: object}
				if o, is := object.(later); is {
					seen, c.object = seen.Add(2*lately), o.Object
				}
				if o, is := object.(gone); is {
					c.gone, c.object = true, o.Object
				}
				c.seen = seen
				if err := l.check(m, c, m.apply(c)); (err != nil) != (i == len(story)-1) {
					t.Errorf("change %d: %v", i, err)
				}
			}
			if len(story) == 0 {
				t.Error("there is no story in which this law is broken")
			}
		})
	}
	if len(stories) > 0 {
		t.Errorf("there are no such laws: %v", slices.Collect(maps.Keys(stories)))
	}
}
