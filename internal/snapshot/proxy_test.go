package snapshot

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

func key(text string) types.NamespacedName { return parseKey(text) }

func object(text string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key(text).Namespace, Name: key(text).Name}
}

func reads(configMap string) map[v1beta1.Protocol]types.NamespacedName {
	return map[v1beta1.Protocol]types.NamespacedName{v1beta1.TCP: key(configMap)}
}

func front(name string, labels, selector map[string]string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: object(name), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: selector}}
	svc.Labels = labels
	return svc
}

func class(name, configMap, service string) *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: key(configMap).Namespace, Name: key(configMap).Name}
	if service != "" {
		c.Spec.Service = &v1beta1.ObjectReference{Namespace: key(service).Namespace, Name: key(service).Name}
	}
	return c
}

func TestProxies(t *testing.T) {
	labels := map[string]string{"app": "nginx"}
	nginx := map[string]string{"app.kubernetes.io/name": "ingress-nginx"}
	closed := front("edge/closed", nil, labels)
	closed.Spec.Type = corev1.ServiceTypeClusterIP
	for name, row := range map[string]struct {
		in                    Snapshot
		proxy, class, reached string
	}{
		"a workload that publishes a Service": {
			in: Snapshot{
				Workloads: []Workload{{Kind: "Deployment", Namespace: "edge", Name: "x", ConfigMaps: reads("edge/tcp"), Publishes: key("edge/front")}},
				Services:  []*corev1.Service{front("edge/front", nil, nil), front("edge/other", nil, labels)},
			},
			proxy: "Deployment edge/x", reached: "front",
		},
		"a workload that publishes a Service, and that another one selects": {
			in: Snapshot{
				Workloads: []Workload{{
					Kind: "Deployment", Namespace: "edge", Name: "x", ConfigMaps: reads("edge/tcp"), Publishes: key("edge/front"), Labels: labels,
				}},
				Services: []*corev1.Service{
					front("edge/tcp", nil, labels), front("edge/front", nil, labels), closed, front("edge/other", nil, map[string]string{"app": "other"}),
				},
			},
			proxy: "Deployment edge/x", reached: "fronttcp",
		},
		"a workload that a Service selects": {
			in: Snapshot{
				Workloads: []Workload{{Kind: "Deployment", Namespace: "edge", Name: "x", ConfigMaps: reads("edge/tcp"), Labels: labels}},
				Services:  []*corev1.Service{front("edge/front", nil, labels), front("edge/other", nil, map[string]string{"app": "other"})},
			},
			proxy: "Deployment edge/x", reached: "front",
		},
		"a workload that a class describes": {
			in: Snapshot{
				Workloads: []Workload{{Kind: "Deployment", Namespace: "edge", Name: "x", ConfigMaps: reads("edge/tcp")}},
				Classes:   []*v1beta1.StreamIngressClass{class("public", "edge/tcp", "")},
			},
			proxy: "Deployment edge/x", class: "public",
		},
		"a class": {
			in: Snapshot{
				Classes:  []*v1beta1.StreamIngressClass{class("public", "edge/tcp", "edge/front")},
				Services: []*corev1.Service{front("edge/front", nil, nil)},
			},
			proxy: "StreamIngressClass public", class: "public", reached: "front",
		},
		"a ConfigMap of the usual name": {
			in: Snapshot{
				ConfigMaps: []*corev1.ConfigMap{{ObjectMeta: object("edge/tcp-services")}, {ObjectMeta: object("edge/something")}},
				Services:   []*corev1.Service{front("edge/front", nginx, nil), front("edge/other", nil, nil)},
			},
			proxy: "namespace edge", reached: "front",
		},
		"a ConfigMap of the usual name, and two Services": {
			in: Snapshot{
				ConfigMaps: []*corev1.ConfigMap{{ObjectMeta: object("edge/tcp-services")}},
				Services:   []*corev1.Service{front("edge/front", nginx, nil), front("edge/other", nginx, nil)},
			},
			proxy: "namespace edge",
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxies := row.in.Proxies()
			if len(proxies) != 1 || proxies[0].Name != row.proxy || proxies[0].Class != row.class {
				t.Fatalf("got %+v", proxies)
			}
			reached := ""
			for _, svc := range proxies[0].Services {
				reached += svc.Name
			}
			if reached != row.reached {
				t.Errorf("reached by %q, want %q", reached, row.reached)
			}
		})
	}
}

func TestListens(t *testing.T) {
	p := &Proxy{IsNginx: true, named: map[string]int32{"5432-tcp": 5432, "edge-53-udp": 53, "http": 80, "tohttps": 2443}}
	p.Own = ownPorts(nil)
	for name, row := range map[string]struct {
		target intstr.IntOrString
		want   int32
		isOwn  bool
	}{
		"none": {intstr.IntOrString{}, 1000, false}, "a number": {intstr.FromInt32(8181), 8181, true},
		"a name of a stream": {intstr.FromString("5432-tcp"), 5432, false}, "one with a prefix": {intstr.FromString("edge-53-udp"), 53, false},
		"a name": {intstr.FromString("tohttps"), 2443, true}, "the number of a name": {intstr.FromInt32(2443), 2443, true},
		"the number of a stream": {intstr.FromInt32(5432), 5432, false}, "one of its own": {intstr.FromString("http"), 80, true},
		"an unknown name": {intstr.FromString("x"), 1000, false}, "a usual name": {intstr.FromString("https"), 1000, true},
	} {
		port := &corev1.ServicePort{Port: 1000, TargetPort: row.target}
		if got := p.Listens(port); got != row.want || p.IsOwn(port) != row.isOwn {
			t.Errorf("%s: got %d, own %v", name, got, p.IsOwn(port))
		}
	}
}

// TestHAProxyOwn holds that no port of the Service is missed an entry for that the default charts of HAProxy's controllers give it.
func TestHAProxyOwn(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: object("edge/haproxy")}
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Args: []string{"--configmap-tcp-services=edge/tcp", "--http-bind-port=8080", "--https-bind-port=8443", "--stats-bind-port=1024"},
		Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 8080}, {Name: "stat", ContainerPort: 1024}, {ContainerPort: 7000},
			{Name: "prom", ContainerPort: 6060, HostPort: 16060},
		},
	}}
	w, _ := OfDeployment(d)
	s := Snapshot{Workloads: []Workload{w}}
	p := s.Proxies()[0]
	for _, row := range []struct {
		target intstr.IntOrString
		isOwn  bool
	}{
		{intstr.FromString("http"), true}, {intstr.FromString("quic"), true}, {intstr.FromString("stat"), true}, {intstr.FromString("admin"), true},
		{intstr.FromInt32(1024), true}, {intstr.FromInt32(8443), true}, {intstr.FromInt32(6060), true}, {intstr.FromString("prom"), true},
		{intstr.FromInt32(7000), false}, {intstr.FromInt32(5432), false}, {intstr.FromInt32(80), false}, {intstr.FromString("sql"), false},
	} {
		if got := p.IsOwn(&corev1.ServicePort{Port: 1000, TargetPort: row.target}); got != row.isOwn {
			t.Errorf("%s: got %v", row.target.String(), got)
		}
	}
	if number, is := p.OnNode(v1beta1.TCP, 6060); number != 16060 || !is {
		t.Errorf("a port is at %d of the nodes, %v", number, is)
	}
	if _, is := p.OnNode(v1beta1.UDP, 6060); is {
		t.Error("a port of another protocol is on the nodes")
	}
}

func TestEntry(t *testing.T) {
	nginx, haproxy := &Proxy{IsNginx: true}, &Proxy{}
	for value, reads := range map[string][2]bool{
		"shop/db:5432": {true, true}, "shop/db:5432::PROXY": {true, true}, "shop/db:5432:ssl": {false, true},
		"shop/db:5432:PROXY-V2:PROXY-V1:shop/tls": {false, true}, "shop/db": {false, false}, "db:5432:ssl": {false, false},
	} {
		for i, p := range []*Proxy{nginx, haproxy} {
			if entry, err := p.Entry(value); (err == nil) != reads[i] || err == nil && entry.Port != "5432" {
				t.Errorf("%s, nginx %v: got %+v, %v", value, p.IsNginx, entry, err)
			}
		}
	}
}

// TestMayShareNode holds that proxies which want the same port of a node, or other nodes, are on none together.
func TestMayShareNode(t *testing.T) {
	onNodes := func(selector map[string]string, own ...int32) *Proxy {
		return &Proxy{OnNodes: true, Own: sets.New(own...), nodeSelector: selector}
	}
	hostPort := func(ports ...int32) *Proxy {
		p := &Proxy{Own: sets.New[int32](8080), hostPorts: map[stream.PortKey]int32{}}
		for _, port := range ports {
			p.hostPorts[stream.PortKey{Protocol: v1beta1.TCP, Port: 8000 + port}] = port
		}
		return p
	}
	bound := onNodes(nil, 8081)
	bound.nodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}
	for name, row := range map[string]struct {
		a, b *Proxy
		want bool
	}{
		"other ports":             {onNodes(nil, 80, 443), onNodes(nil, 8080, 8443), true},
		"one port that is same":   {onNodes(nil, 80, 443), onNodes(nil, 8080, 443), false},
		"other nodes":             {onNodes(map[string]string{"pool": "a"}, 80), onNodes(map[string]string{"pool": "b"}, 8080), false},
		"the same nodes":          {onNodes(map[string]string{"pool": "a"}, 80), onNodes(map[string]string{"pool": "a"}, 8080), true},
		"nodes by affinity":       {onNodes(nil, 80), bound, false},
		"a host port":             {onNodes(nil, 80), hostPort(80), false},
		"another host port":       {onNodes(nil, 8080), hostPort(80), true},
		"the same host port":      {hostPort(80, 5432), hostPort(81, 5432), false},
		"host ports of their own": {hostPort(80), hostPort(81), true},
	} {
		if row.a.MayShareNode(row.b) != row.want || row.b.MayShareNode(row.a) != row.want {
			t.Errorf("%s: want %v", name, row.want)
		}
	}
}
