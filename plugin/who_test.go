package plugin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/doors"
)

func TestWho(t *testing.T) {
	c := twice()
	pod := podAt("web-0", "n1", "192.0.2.7")
	ended := podAt("ended", "n1", "192.0.2.7")
	ended.Status.Phase = corev1.PodSucceeded
	event := &corev1.Event{
		ObjectMeta: named("other", "e"), Reason: "HostConflict", InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "other", Name: "web"},
		Message: "path / on host shop.example.com is held by Ingress team/a", LastTimestamp: metav1.NewTime(time.Unix(0, 0)),
	}
	c.objects["pods"], c.objects["events"] = []runtime.Object{pod, ended}, []runtime.Object{event}
	for asked, says := range map[string][]string{
		"shop.example.com": {
			"Ingress team/a", "Ingress team/b", "in conflict: Ingress team/a and Ingress team/b serve the same host and path; who wins today: undetermined",
			"asked in vain: Service other/web, HostConflict: path / on host", "to get it: ask the owners of namespace team",
		},
		"192.0.2.7": {"Pod team/web-0", "Node n1"},
		"tcp/1":     {"to get it: nobody has it"},
	} {
		got := run(t, c, "kubectl-portcullis", "who", asked)
		for _, text := range says {
			if !strings.Contains(got.out, text) {
				t.Errorf("who %s: %q is missing in:\n%s", asked, text, got.out)
			}
		}
		if strings.Contains(got.out, "ended") {
			t.Errorf("a Pod that has ended has an address:\n%s", got.out)
		}
	}
}

// TestWhoSendsToTheHolder holds that of a port which a proxy has for a stream, the owners of the stream are asked, and not those of the
// Service in front of the proxy.
func TestWhoSendsToTheHolder(t *testing.T) {
	class := &v1beta1.StreamIngressClass{ObjectMeta: named("", "public")}
	class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "tcp"}
	class.Spec.Service = &v1beta1.ObjectReference{Namespace: "edge", Name: "front"}
	front := &corev1.Service{ObjectMeta: named("edge", "front"), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 5432}},
	}}
	front.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	held := claim.New(claim.Stream("public", v1beta1.TCP, 5432), claim.Claimant{Holder: claim.StreamHolder("team", "postgres")})
	c := &fake{objects: map[string][]runtime.Object{
		"streamingressclasses": {class}, "edgeclaims": {held}, "services": {front},
		"configmaps": {&corev1.ConfigMap{ObjectMeta: named("edge", "tcp"), Data: map[string]string{"5432": "team/db:5432"}}},
	}}
	for _, asked := range []string{"5432", "192.0.2.1:5432"} {
		got := run(t, c, "kubectl-portcullis", "who", asked)
		const want = `to get it: held by StreamIngress team/postgres on class "public"; ask the owners of namespace team: `
		if !strings.Contains(got.out, want) || !strings.Contains(got.out, "Service edge/front") {
			t.Errorf("who %s:\n%s%s", asked, got.out, got.err)
		}
	}
}

func TestDoorsOfANamespace(t *testing.T) {
	got := run(t, twice(), "kubectl-portcullis", "doors")
	if !strings.Contains(got.out, "Ingress team/a") || strings.Contains(got.out, "other") || strings.Contains(got.out, "NAMESPACE") {
		t.Errorf("got:\n%s", got.out)
	}
	if got = run(t, twice(), "kubectl-portcullis", "doors", "-A"); !strings.Contains(got.out, "Ingress other/c") || !strings.Contains(got.out, "NAMESPACE") {
		t.Errorf("got:\n%s", got.out)
	}
}

func TestIsAbout(t *testing.T) {
	for _, row := range []struct {
		message, point string
		want           bool
	}{
		{"TCP/5432 is held", "tcp/5432", true}, {"TCP/54321 is held", "tcp/5432", false}, {"UDP/5432 is held", "tcp/5432", false},
		{"UDP/5432 is held", "5432", true}, {"port TCP/80 of 192.0.2.7 is held", "192.0.2.7:80", true},
		{"port TCP/80 of 192.0.2.71 is held", "192.0.2.7:80", false}, {"port TCP/81 of 192.0.2.7 is held", "192.0.2.7:80", false},
		{"192.0.2.7 is held", "192.0.2.7", true}, {"path /api on host shop.example.com", "shop.example.com/api", true},
		{"path / on host shop.example.com", "shop.example.com/api", false}, {"path / on host shop.example.com", "shop.example.com", true},
		{"host nothost-c.example.com is held", "host-c.example.com", false}, {"host nothost-c.example.com is held", "c.example.com", false},
		{"host c.example.com is held by x. So is shop.example.com.", "shop.example.com", true},
		{"host shop.example.com is held", "shop.example", false}, {"host shop.example.com is held", "example.com", false},
		{"110.0.0.1 is held", "10.0.0.1", false}, {"10.0.0.1.5 is held", "10.0.0.1", false}, {"port 80 of 10.0.0.1: no", "10.0.0.1", true},
		{"110.0.0.1 and 10.0.0.1 are held", "10.0.0.1", true}, {"2001:db8::1 is held", "2001:db8::1", true}, {"2001:db8::1:2", "2001:db8::1", false},
		{"path /api/v1 on host shop.example.com", "shop.example.com/api", false}, {"path /v1/api on host shop.example.com", "shop.example.com/api", false},
	} {
		p, err := doors.ParsePoint(row.point)
		if err != nil {
			t.Fatal(err)
		}
		if got := isAbout(row.message, p); got != row.want {
			t.Errorf("%q about %s: got %v", row.message, row.point, got)
		}
	}
}

// podAt is a Pod that has addresses, the first of which the API server selects by.
func podAt(name, node string, addresses ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: named("team", name), Spec: corev1.PodSpec{NodeName: node}}
	pod.Status.PodIP = addresses[0]
	for _, a := range addresses {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: a})
	}
	return pod
}

// TestWhoAnswersAtANode holds that the ports of nodes are found there, and of the Pods on them those alone that have the port.
func TestWhoAnswersAtANode(t *testing.T) {
	c := twice()
	node := &corev1.Node{ObjectMeta: named("", "n1")}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "203.0.113.1"}}
	svc := &corev1.Service{ObjectMeta: named("team", "db"), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 5432, NodePort: 30001, Protocol: corev1.ProtocolTCP}},
	}}
	agent, ingress, old := podAt("agent", "n1", "203.0.113.1"), podAt("ingress", "n1", "203.0.113.1"), podAt("old", "n1", "10.0.0.9")
	agent.Spec.HostNetwork, ingress.Spec.HostNetwork = true, true
	ingress.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 443, ContainerPort: 443}}}}
	old.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 8080, ContainerPort: 80}}}}
	old.Status.HostIP = "203.0.113.1"
	both := podAt("both", "n2", "10.0.0.8", "2001:db8::8")
	c.objects["nodes"], c.objects["services"] = []runtime.Object{node}, []runtime.Object{svc}
	c.objects["pods"] = []runtime.Object{agent, ingress, old, both}
	for asked, want := range map[string]string{
		"203.0.113.1:30001": "Service team/db", "203.0.113.1:443": "Pod team/ingress", "203.0.113.1:8080": "Pod team/old",
		"203.0.113.1:22": "", "10.0.0.8:80": "Pod team/both", "[2001:db8::8]:80": "Pod team/both",
	} {
		report := Who{}
		if err := json.Unmarshal([]byte(run(t, c, "kubectl-portcullis", "who", asked, "-o", "json").out), &report); err != nil {
			t.Fatal(err)
		}
		var holders []string
		for _, d := range report.Doors {
			holders = append(holders, d.Holder)
		}
		if got := strings.Join(holders, ","); got != want {
			t.Errorf("%s: got %s, want %s", asked, got, want)
		}
	}
}

// TestWhoHasAskedInOneNamespace holds that all reasons are asked for where only one namespace may be read, and that this is said once.
func TestWhoHasAskedInOneNamespace(t *testing.T) {
	c := twice()
	for _, reason := range conflicts {
		c.objects["events"] = append(c.objects["events"], &corev1.Event{
			ObjectMeta: named("team", reason), Reason: reason, Message: "shop.example.com is held",
		})
	}
	c.refuses = func(plural, namespace string) error {
		if plural == "events" && namespace != "team" {
			return forbid(plural)
		}
		return nil
	}
	got := run(t, c, "kubectl-portcullis", "who", "shop.example.com")
	if strings.Count(got.out, "asked in vain") != len(conflicts) || strings.Count(got.err, "events") != 1 {
		t.Errorf("got:\n%s%s", got.out, got.err)
	}
}

// conflicting is a cluster with conflicts whose points are not written as those of the doors.
func conflicting() *fake {
	at := func(obj runtime.Object, path string) runtime.Object {
		ing := obj.(*networkingv1.Ingress)
		ing.Spec.Rules[0].HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: path}}}
		return ing
	}
	gateway := &gatewayv1.Gateway{ObjectMeta: named("team", "gw")}
	all := &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}
	gateway.Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: all}
	web := gatewayv1.Listener{Name: "web", Port: 80, Protocol: gatewayv1.HTTPProtocolType, Hostname: ptr.To(gatewayv1.Hostname("a.example.com"))}
	gateway.Spec.Listeners = []gatewayv1.Listener{
		web, {Name: "sql", Port: 5432, Protocol: gatewayv1.TCPProtocolType}, {Name: "sql-2", Port: 5433, Protocol: gatewayv1.TCPProtocolType},
		{Name: "tls", Port: 443, Protocol: gatewayv1.TLSProtocolType},
	}
	set := &gatewayv1.ListenerSet{ObjectMeta: named("team", "set")}
	set.Spec.ParentRef.Name, set.Spec.Listeners = "gw", []gatewayv1.ListenerEntry{gatewayv1.ListenerEntry(web)}
	on := func(sections ...gatewayv1.SectionName) (spec gatewayv1.CommonRouteSpec) {
		for i := range sections {
			spec.ParentRefs = append(spec.ParentRefs, gatewayv1.ParentReference{Name: "gw", SectionName: &sections[i]})
		}
		return spec
	}
	tls := func(name string, hosts ...gatewayv1.Hostname) runtime.Object {
		return &gatewayv1.TLSRoute{ObjectMeta: named("team", name), Spec: gatewayv1.TLSRouteSpec{CommonRouteSpec: on("tls"), Hostnames: hosts}}
	}
	balancer := &corev1.Service{ObjectMeta: named("team", "lb"), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 8000}}, ClusterIPs: []string{"10.96.0.20"},
	}}
	balancer.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example.net"}}
	taking := &corev1.Service{ObjectMeta: named("team", "taking"), Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 8000}}, ExternalIPs: []string{"192.0.2.1", "192.0.2.9"},
	}}
	beside := taking.DeepCopy()
	beside.Name, beside.Spec.Ports[0].Port, beside.Spec.ExternalIPs = "beside", 8001, []string{"192.0.2.1"}
	return &fake{objects: map[string][]runtime.Object{
		"ingresses": {at(ingress("team", "a", "www.example.com"), "/a"), at(ingress("other", "b", "www.example.com"), "/b")},
		"gateways":  {gateway}, "listenersets": {set}, "services": {balancer, taking, beside},
		"tcproutes": {
			&gatewayv1.TCPRoute{ObjectMeta: named("team", "a"), Spec: gatewayv1.TCPRouteSpec{CommonRouteSpec: on("sql")}},
			&gatewayv1.TCPRoute{ObjectMeta: named("team", "b"), Spec: gatewayv1.TCPRouteSpec{CommonRouteSpec: on("sql", "sql-2")}},
		},
		"tlsroutes": {tls("all"), tls("any"), tls("one", "one.example.com"), tls("same", "one.example.com")},
	}}
}

// TestConflictsOfDoors holds that who tells of the conflicts about a point, however they write it, and of no others.
func TestConflictsOfDoors(t *testing.T) {
	c := conflicting()
	const whole = "RouteNeverServes * on listener tls"
	for asked, want := range map[string]string{
		"www.example.com": "HostInNamespaces www.example.com," + whole, "www.example.com/a": "HostInNamespaces www.example.com," + whole,
		"tcp/5432": "RouteNeverServes listener sql", "tcp/5433": "",
		"two.example.com": whole, "one.example.com": whole + ",RouteNeverServes one.example.com on listener tls",
		"tcp/8000": "ExternalIPTaken 192.0.2.1", "192.0.2.1:8001": "", "192.0.2.9": "",
		"192.0.2.1":     "ExternalIPTaken 192.0.2.1,ExternalIPTaken 192.0.2.1",
		"a.example.com": "ListenerConflict a.example.com at TCP/80," + whole, "tcp/80": "ListenerConflict a.example.com at TCP/80",
	} {
		report := Who{}
		if err := json.Unmarshal([]byte(run(t, c, "kubectl-portcullis", "who", asked, "-o", "json").out), &report); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range report.Conflicts {
			got = append(got, string(report.Conflicts[i].Rule)+" "+report.Conflicts[i].Point)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: got %s, want %s", asked, got, want)
		}
	}
	for asked, says := range map[string]string{"10.96.0.20": "ClusterIP", "lb.example.net": "LoadBalancer"} {
		if got := run(t, c, "kubectl-portcullis", "who", asked); !strings.Contains(got.out, says) || !strings.Contains(got.out, "Service team/lb") {
			t.Errorf("%s: got\n%s", asked, got.out)
		}
	}
}
