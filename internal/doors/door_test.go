package doors

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

func meta(key string) metav1.ObjectMeta {
	namespace, name, _ := strings.Cut(key, "/")
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// cluster has a door of each way.
func cluster() *snapshot.Snapshot {
	class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}}
	class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "tcp"}
	class.Spec.Service = &v1beta1.ObjectReference{Namespace: "edge", Name: "front"}
	held := claim.New(claim.Stream("public", v1beta1.TCP, 5432), claim.Claimant{Holder: claim.StreamHolder("shop", "postgres")})
	held.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	front := &corev1.Service{ObjectMeta: meta("edge/front"), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 5432, NodePort: 30000}},
	}}
	front.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	external := &corev1.Service{ObjectMeta: meta("shop/external"), Spec: corev1.ServiceSpec{
		ExternalIPs: []string{"192.0.2.9"}, Ports: []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}},
	}}
	ing := &networkingv1.Ingress{ObjectMeta: meta("shop/web"), Spec: networkingv1.IngressSpec{
		IngressClassName: ptr.To("nginx"), Rules: []networkingv1.IngressRule{{Host: "shop.example.com", IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/api", Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: "db", Port: networkingv1.ServiceBackendPort{Number: 80}},
			}}}},
		}}},
	}}
	gateway := &gatewayv1.Gateway{ObjectMeta: meta("edge/gw"), Spec: gatewayv1.GatewaySpec{Listeners: []gatewayv1.Listener{
		{Name: "web", Port: 80, Protocol: gatewayv1.HTTPProtocolType, Hostname: ptr.To(gatewayv1.Hostname("*.example.com"))},
	}}}
	s := &snapshot.Snapshot{
		Classes: []*v1beta1.StreamIngressClass{class}, Claims: []*v1beta1.EdgeClaim{held}, Services: []*corev1.Service{front, external},
		ConfigMaps: []*corev1.ConfigMap{{ObjectMeta: meta("edge/tcp"), Data: map[string]string{
			"5432": "shop/db:5432", "7000": "shop/closed:1", "x": "shop/db:1", "80": "shop/db:1",
		}}},
		Ingresses: []*networkingv1.Ingress{ing}, Gateways: []*gatewayv1.Gateway{gateway},
	}
	s.MarkRead("EndpointSlice", "")
	s.AddEndpointSlice(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
		Endpoints:  []discoveryv1.Endpoint{{}},
	})
	return s
}

func TestAll(t *testing.T) {
	want := []string{
		"edge TCP/5432 LoadBalancer by Service edge/front, to edge/front (0)",
		"edge TCP/30000 NodePort by Service edge/front, to edge/front (0)",
		"edge *.example.com at TCP/80 Listener by Gateway edge/gw, to  (-)",
		"shop UDP/53 ExternalIP by Service shop/external, to shop/external (0)",
		"shop TCP/5432 Entry by StreamIngress shop/postgres, to shop/db:5432 (1)",
		"shop shop.example.com/api Ingress by Ingress shop/web, to shop/db:80 (1)",
	}
	var got []string
	for _, d := range All(cluster()) {
		ready := "-"
		if d.Ready != nil {
			ready = fmt.Sprint(*d.Ready)
		}
		got = append(got, fmt.Sprintf("%s %s %s by %s, to %s (%s)", d.Namespace, d.Point, d.Way, d.Holder, d.LeadsTo, ready))
		if d.Claimed != (d.Way == ByEntry) || d.Claimed != (d.Since != nil) {
			t.Errorf("since %v, claimed %v: %+v", d.Since, d.Claimed, d)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestOf(t *testing.T) {
	for _, d := range Of(All(cluster()), "shop") {
		if d.Namespace != "shop" {
			t.Errorf("got a door of %s", d.Namespace)
		}
	}
}

func TestAdvice(t *testing.T) {
	for asked, says := range map[string]string{
		"tcp/5432":       "ask the owners of namespace shop: the port is free once StreamIngress shop/postgres is deleted",
		"192.0.2.1:5432": "once StreamIngress shop/postgres is deleted",
		"192.0.2.9:53":   "once Service shop/external has it no longer", "tcp/30000": "leave nodePort out",
		"shop.example.com/api": "choose another host or path", "tcp/1": "create a StreamIngress with spec.listen: 1",
		"web.example.net": "Ingress shop/web answers at the address, for shop.example.com", "lb.example.net": "once Service shop/named has it no longer", "www.example.org": "ingress/http: host=www.example.org", "192.0.2.77": "nobody that could be read",
	} {
		p, err := ParsePoint(asked)
		if err != nil {
			t.Fatal(err)
		}
		s := cluster()
		byName := s.Services[0].DeepCopy()
		byName.Namespace, byName.Name = "shop", "named"
		byName.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "LB.example.net"}}
		s.Services = append(s.Services, byName)
		s.Ingresses[0].Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{Hostname: "web.example.net"}}
		found := Find(All(s), p)
		if got := Advice(p, found, s); !strings.Contains(got, says) {
			t.Errorf("%s: %q is not said in %q", asked, says, got)
		}
		if got := Advice(p, nil, &snapshot.Snapshot{}); strings.Contains(got, "StreamIngress") || strings.Contains(got, "annotate") {
			t.Errorf("%s: without Portcullis, got %q", asked, got)
		}
	}
}

// TestAClaimIsOneHolders holds that of several objects at a point, only the one that has the claim is told as the holder.
func TestAClaimIsOneHolders(t *testing.T) {
	path := func(name string) *networkingv1.Ingress {
		return &networkingv1.Ingress{ObjectMeta: meta("shop/" + name), Spec: networkingv1.IngressSpec{
			Rules: []networkingv1.IngressRule{{Host: "shop.example.com"}},
		}}
	}
	made := path("made")
	made.OwnerReferences = []metav1.OwnerReference{{Kind: "Service", Name: "made", Controller: ptr.To(true)}}
	at := claim.HTTP("shop.example.com", "/")
	for holder, want := range map[claim.Holder][]string{
		claim.IngressHolder("shop", "a"):    {"Ingress shop/a true", "Ingress shop/made false"},
		claim.ServiceHolder("shop", "made"): {"Ingress shop/a false", "Service shop/made true"},
	} {
		s := &snapshot.Snapshot{
			Ingresses: []*networkingv1.Ingress{path("a"), made}, Claims: []*v1beta1.EdgeClaim{claim.New(at, claim.Claimant{Holder: holder})},
		}
		var got []string
		for _, d := range All(s) {
			got = append(got, fmt.Sprint(d.Holder, " ", d.Claimed))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", holder, diff)
		}
	}
}

// TestInside holds that a cluster IP is some Service's, though no door of it is open.
func TestInside(t *testing.T) {
	s := cluster()
	s.Services[0].Spec.ClusterIP, s.Services[0].Spec.ClusterIPs = "10.96.0.20", []string{"10.96.0.20", "2001:db8:0::20"}
	s.Services[1].Spec.ClusterIP, s.Services[1].Spec.ClusterIPs = "None", []string{"None"}
	for asked, want := range map[string]string{
		"10.96.0.20": "TCP/5432 Service edge/front", "10.96.0.20:5432": "TCP/5432 Service edge/front", "[2001:db8::20]:5432": "TCP/5432 Service edge/front",
		"10.96.0.20:80": "", "10.96.0.21": "", "tcp/5432": "", "shop.example.com": "",
	} {
		p, err := ParsePoint(asked)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, d := range Inside(s, p) {
			got += d.Point + " " + d.Holder
			if d.Way != ByClusterIP || d.Ready == nil || !strings.Contains(Advice(p, []Door{d}, s), "Service edge/front has it until it is deleted") {
				t.Errorf("%s: got %+v", asked, d)
			}
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", asked, got, want)
		}
	}
}

// TestOutside holds that a door has the number that is open outside, and that those of the nodes answer at their addresses.
func TestOutside(t *testing.T) {
	s := cluster()
	s.Services[0].Spec.Ports[0].Port, s.Services[0].Spec.Ports[0].TargetPort = 15432, intstr.FromInt32(5432)
	s.Nodes = []*corev1.Node{{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "203.0.113.1"}}}}}
	for asked, want := range map[string]Way{
		"192.0.2.1:15432": ByEntry, "203.0.113.1:30000": ByNodePort, "203.0.113.1:15432": "", "192.0.2.1:5432": "", "203.0.113.2:30000": "",
	} {
		p, err := ParsePoint(asked)
		if err != nil {
			t.Fatal(err)
		}
		found := Find(All(s), p)
		if has := slices.ContainsFunc(found, func(d Door) bool { return d.Way == want }); has == (want == "") || want == "" && len(found) > 0 {
			t.Errorf("%s: got %+v", asked, found)
		}
	}
}
