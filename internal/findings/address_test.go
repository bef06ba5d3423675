package findings

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// balancer is a load balancer that has addresses.
func balancer(key string, hours int, port int32, ingress ...corev1.LoadBalancerIngress) *corev1.Service {
	svc := service(key, hours, tcp(port, 80))
	svc.Spec.Type, svc.Status.LoadBalancer.Ingress = corev1.ServiceTypeLoadBalancer, ingress
	return svc
}

// external is a Service that names external IPs.
func external(key string, hours int, port int32, ips ...string) *corev1.Service {
	svc := service(key, hours, tcp(port, 80))
	svc.Spec.ExternalIPs = ips
	return svc
}

func internal(key, ip string) *corev1.Service {
	svc := service(key, 0, tcp(80, 80))
	svc.Spec.ClusterIPs = []string{ip}
	return svc
}

func node(name, ip string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: meta(name, 0)}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: ip}}
	return n
}

var (
	one  = corev1.LoadBalancerIngress{IP: "192.0.2.1"}
	same = corev1.LoadBalancerIngress{IP: "::ffff:192.0.2.1"} // in another spelling
	name = corev1.LoadBalancerIngress{Hostname: "lb.example.com"}
)

var addressRows = map[string]row{
	"load balancers that share an address": {
		in: snapshot.Snapshot{Services: []*corev1.Service{balancer("a/x", 0, 80, one), balancer("b/x", 0, 81, one)}},
	},
	"load balancers that share a port": {
		in:   snapshot.Snapshot{Services: []*corev1.Service{balancer("a/x", 1, 80, one), balancer("b/x", 0, 80, same)}},
		want: []string{"AddressTwice 192.0.2.1 TCP/80: Service b/x and Service a/x, undetermined"},
	},
	"load balancers that share a name": {
		in:   snapshot.Snapshot{Services: []*corev1.Service{balancer("a/x", 0, 80, name), balancer("b/x", 1, 80, name)}},
		want: []string{"AddressTwice lb.example.com TCP/80: Service a/x and Service b/x, undetermined"},
	},
	"what is no load balancer any more": {
		in: func() snapshot.Snapshot {
			was := balancer("b/x", 0, 80, one)
			was.Spec.Type = corev1.ServiceTypeClusterIP
			return snapshot.Snapshot{Services: []*corev1.Service{balancer("a/x", 1, 80, one), was}}
		}(),
	},
	"an external IP twice": {
		in:   snapshot.Snapshot{Services: []*corev1.Service{external("a/x", 1, 80, "192.0.2.9"), external("b/x", 0, 80, "192.0.2.009")}},
		want: []string{"ExternalIPTwice 192.0.2.9 TCP/80: Service b/x and Service a/x, undetermined"},
	},
	"external IPs that are somebody's": {
		in: snapshot.Snapshot{
			Nodes: []*corev1.Node{node("n1", "203.0.113.1")},
			Services: []*corev1.Service{
				balancer("a/lb", 0, 80, one), internal("a/web", "10.0.0.1"), external("b/x", 1, 81, "192.0.2.1", "10.0.0.1", "203.0.113.1"),
			},
		},
		want: []string{
			"ExternalIPTaken 10.0.0.1: Service a/web and Service b/x, undetermined",
			"ExternalIPTaken 192.0.2.1: Service a/lb and Service b/x, undetermined",
			"ExternalIPTaken 203.0.113.1: Node n1 and Service b/x, undetermined",
		},
	},
	"external IPs": {
		in:   snapshot.Snapshot{Services: []*corev1.Service{external("a/x", 1, 80, "192.0.2.9", "192.0.2.9"), external("b/x", 0, 81, "192.0.2.9")}},
		want: []string{"ExternalIPNamed 192.0.2.9: Service a/x", "ExternalIPNamed 192.0.2.9: Service b/x"},
	},
}

// TestTakenLevels holds that an external IP that somebody has is an error only where they have a port in common.
func TestTakenLevels(t *testing.T) {
	onNode := service("a/np", 0, tcp(5432, 5432))
	onNode.Spec.Ports[0].NodePort = 30001
	udp := balancer("a/udp", 0, 82, one)
	udp.Spec.Ports[0].Protocol = corev1.ProtocolUDP
	others := []*corev1.Service{balancer("a/lb", 0, 80, one), balancer("a/more", 1, 81, one), udp, internal("a/web", "10.0.0.1"), onNode}
	for _, row := range []struct {
		port int32
		ip   string
		want Level
		with string
	}{
		{80, "192.0.2.1", Error, "Service a/lb"}, {81, "192.0.2.1", Error, "Service a/more"}, {82, "192.0.2.1", Note, "Service a/lb"},
		{80, "10.0.0.1", Error, "Service a/web"}, {81, "10.0.0.1", Note, "Service a/web"},
		{30001, "203.0.113.1", Error, "Node n1"}, {80, "203.0.113.1", Note, "Node n1"},
	} {
		s := whole(snapshot.Snapshot{Nodes: []*corev1.Node{node("n1", "203.0.113.1")}, Services: append([]*corev1.Service{external("b/x", 2, row.port, row.ip)}, others...)})
		found := All(s)
		if len(found) != 1 || found[0].Rule != ExternalIPTaken || found[0].Level != row.want || found[0].Objects[0].String() != row.with {
			t.Errorf("%s, port %d: got %+v", row.ip, row.port, found)
		}
	}
}
