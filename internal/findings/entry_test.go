package findings

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

func configMap(key string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta(key, 0), Data: data}
}

// proxy is a workload that reads one ConfigMap, and publishes a Service.
func proxy(name, configMap string, onNodes bool) snapshot.Workload {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "edge", Name: name} }
	return snapshot.Workload{
		Kind: "Deployment", Namespace: "edge", Name: name, ConfigMaps: map[v1beta1.Protocol]types.NamespacedName{v1beta1.TCP: key(configMap)},
		Publishes: key("front"), IsNginx: true, OnNodes: onNodes, Own: sets.New[int32](80, 443, 8181), Named: map[string]int32{"http": 80, "sql": 5432},
	}
}

// named is a port of a Service that leads to one that its pods have a name for.
func named(number int32, target string) corev1.ServicePort {
	p := tcp(number, 0)
	p.TargetPort.Type, p.TargetPort.StrVal = 1, target
	return p
}

var pool = map[string]string{"pool": "edge"}

// placed is a proxy that is on some nodes, and has one port there itself.
func placed(w snapshot.Workload, nodes map[string]string, own int32) snapshot.Workload {
	w.NodeSelector, w.Own = nodes, sets.New(own)
	return w
}

// onOneNode are proxies with a ConfigMap each, of their name, that has the same port.
func onOneNode(proxies ...snapshot.Workload) snapshot.Snapshot {
	s := snapshot.Snapshot{Workloads: proxies, Services: []*corev1.Service{service("shop/db", 0, tcp(5432, 5432))}}
	for i := range proxies {
		s.ConfigMaps = append(s.ConfigMaps, configMap("edge/"+proxies[i].Name, map[string]string{"5432": "shop/db:5432"}))
	}
	return s
}

var entryRows = map[string]row{
	"entries that are right": {
		in: snapshot.Snapshot{
			Workloads:  []snapshot.Workload{proxy("nginx", "tcp", false)},
			ConfigMaps: []*corev1.ConfigMap{configMap("edge/tcp", map[string]string{"5432": "shop/db:sql", "6379": "shop/db:5432::PROXY"})},
			Services: []*corev1.Service{
				service("edge/front", 0, named(80, "http"), named(5432, "sql"), tcp(16379, 6379)),
				{ObjectMeta: meta("shop/db", 0), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "sql", Port: 5432}}}},
			},
		},
	},
	"a port that the proxy has itself": {
		in: snapshot.Snapshot{
			Workloads:  []snapshot.Workload{proxy("nginx", "tcp", false)},
			ConfigMaps: []*corev1.ConfigMap{configMap("edge/tcp", map[string]string{"8181": "shop/db:5432"})},
		},
		want: []string{"PortTwice TCP/8181: ConfigMap edge/tcp, Deployment edge/nginx"},
	},
	"two proxies on the nodes, and others that can't be there": {
		in: onOneNode(proxy("a", "a", true), placed(proxy("b", "b", true), nil, 8080), proxy("c", "c", true), placed(proxy("d", "d", true), pool, 9090)),
		want: []string{
			"PortTwice TCP/5432: ConfigMap edge/a, ConfigMap edge/b and ConfigMap edge/c, undetermined",
		},
	},
	"two proxies on the nodes that both need the same port of their own": {
		in: onOneNode(proxy("a", "a", true), proxy("b", "b", true)),
	},
	"two proxies on nodes of their own": {
		in: onOneNode(proxy("a", "a", true), placed(proxy("b", "b", true), pool, 8080)),
	},
	"two proxies of one pool": {
		in:   onOneNode(placed(proxy("a", "a", true), pool, 80), placed(proxy("b", "b", true), pool, 8080)),
		want: []string{"PortTwice TCP/5432: ConfigMap edge/a and ConfigMap edge/b, undetermined"},
	},
	"two proxies on the nodes that read one ConfigMap": {
		in: snapshot.Snapshot{
			Workloads:  []snapshot.Workload{proxy("a", "a", true), proxy("b", "a", true)},
			ConfigMaps: []*corev1.ConfigMap{configMap("edge/a", map[string]string{"5432": "shop/db:5432"})},
			Services:   []*corev1.Service{service("shop/db", 0, tcp(5432, 5432))},
		},
	},
	"entries that lead nowhere": {
		in: snapshot.Snapshot{
			ConfigMaps: []*corev1.ConfigMap{configMap("edge/tcp-services", map[string]string{
				"1": "shop/gone:80", "2": "shop/db:80", "3": "shop", "03": "shop/db:5432",
			})},
			Services: []*corev1.Service{service("shop/db", 0, tcp(5432, 5432))},
		},
		want: []string{
			"EntryLeadsNowhere TCP/03: ConfigMap edge/tcp-services", "EntryLeadsNowhere TCP/1: ConfigMap edge/tcp-services",
			"EntryLeadsNowhere TCP/2: ConfigMap edge/tcp-services and Service shop/db", "EntryLeadsNowhere TCP/3: ConfigMap edge/tcp-services",
		},
	},
	"entries of another protocol": {
		in: snapshot.Snapshot{
			ConfigMaps: []*corev1.ConfigMap{configMap("edge/udp-services", map[string]string{"53": "shop/db:5432"})},
			Services:   []*corev1.Service{service("shop/db", 0, tcp(5432, 5432))},
		},
		want: []string{"EntryLeadsNowhere UDP/53: ConfigMap edge/udp-services and Service shop/db"},
		says: "no UDP port 5432",
	},
	"a closed entry, and a port without one": {
		in: snapshot.Snapshot{
			Workloads:  []snapshot.Workload{proxy("nginx", "tcp", false)},
			ConfigMaps: []*corev1.ConfigMap{configMap("edge/tcp", map[string]string{"5432": "shop/db:5432"})},
			Services:   []*corev1.Service{service("edge/front", 0, tcp(5432, 5433)), service("shop/db", 0, tcp(5432, 5432))},
		},
		want: []string{"EntryClosed TCP/5432: ConfigMap edge/tcp and Service edge/front", "PortWithoutEntry TCP/5432: Service edge/front"},
	},
	"an entry that another Service than the published one has open": {
		in: func() snapshot.Snapshot {
			w, streams := proxy("nginx", "tcp", false), service("edge/streams", 0, tcp(5432, 5432))
			w.Labels = map[string]string{"app": "nginx"}
			streams.Spec.Type, streams.Spec.Selector = corev1.ServiceTypeLoadBalancer, w.Labels
			return snapshot.Snapshot{
				Workloads:  []snapshot.Workload{w},
				ConfigMaps: []*corev1.ConfigMap{configMap("edge/tcp", map[string]string{"5432": "shop/db:5432"})},
				Services:   []*corev1.Service{service("edge/front", 0, named(80, "http")), streams, service("shop/db", 0, tcp(5432, 5432))},
			}
		}(),
	},
	"a port of a protocol that the proxy has no ConfigMap for": {
		in: snapshot.Snapshot{
			Workloads: []snapshot.Workload{proxy("nginx", "tcp", false)},
			Services: []*corev1.Service{service("edge/front", 0,
				corev1.ServicePort{Port: 443, Protocol: corev1.ProtocolUDP}, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP})},
		},
	},
}
