package doors

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// open is a Service that has TCP/5432 at an address, of a class if one is named.
func open(key, class string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: meta(key), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 5432}},
	}}
	svc.Labels = map[string]string{v1beta1.LabelClass: class}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	return svc
}

// behind is a cluster in which a class of each sort serves a stream. What it is served by is in a namespace that sorts before the stream's.
var behind = map[string]func(class *v1beta1.StreamIngressClass) *snapshot.Snapshot{
	"a proxy": func(class *v1beta1.StreamIngressClass) *snapshot.Snapshot {
		class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "tcp"}
		class.Spec.Service = &v1beta1.ObjectReference{Namespace: "edge", Name: "front"}
		return &snapshot.Snapshot{
			Services:   []*corev1.Service{open("edge/front", class.Name)},
			ConfigMaps: []*corev1.ConfigMap{{ObjectMeta: meta("edge/tcp"), Data: map[string]string{"5432": "shop/db:5432"}}},
		}
	},
	"an address of a pool": func(class *v1beta1.StreamIngressClass) *snapshot.Snapshot {
		class.Spec.AddressPool = &v1beta1.ClassAddressPool{Name: "example", Namespace: "edge"}
		return &snapshot.Snapshot{Services: []*corev1.Service{open("edge/public-tcp-5432", class.Name)}}
	},
	"a Gateway": func(class *v1beta1.StreamIngressClass) *snapshot.Snapshot {
		class.Spec.Gateway = &v1beta1.ObjectReference{Namespace: "edge", Name: "gw"}
		gateway := &gatewayv1.Gateway{ObjectMeta: meta("edge/gw")}
		all := gatewayv1.NamespacesFromAll
		gateway.Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: &all}}
		gateway.Status.Addresses = []gatewayv1.GatewayStatusAddress{{Value: "192.0.2.1"}}
		port := stream.PortKey{Protocol: v1beta1.TCP, Port: 5432}
		set := &gatewayv1.ListenerSet{ObjectMeta: meta("edge/public"), Spec: stream.ListenerSetSpec(
			*class.Spec.Gateway, []stream.Listener{{Port: port, Namespace: "shop"}},
		)}
		set.Labels = map[string]string{v1beta1.LabelClass: class.Name}
		return &snapshot.Snapshot{
			Services: []*corev1.Service{open("edge/front", "")}, Gateways: []*gatewayv1.Gateway{gateway}, ListenerSets: []*gatewayv1.ListenerSet{set},
		}
	},
}

// TestAdviceNamesTheHolder holds that whoever asks for a port of a class is sent to the holder that a refusal names, in the same words, and
// not to those who run what is in front of it.
func TestAdviceNamesTheHolder(t *testing.T) {
	at := claim.Stream("public", v1beta1.TCP, 5432)
	held := claim.New(at, claim.Claimant{Holder: claim.StreamHolder("shop", "postgres")})
	held.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for name, served := range behind {
		class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}}
		s := served(class)
		s.Classes, s.Claims = []*v1beta1.StreamIngressClass{class}, []*v1beta1.EdgeClaim{held}
		for _, asked := range []string{"tcp/5432", "192.0.2.1:5432", "192.0.2.1"} {
			p, err := ParsePoint(asked)
			if err != nil {
				t.Fatal(err)
			}
			got := Advice(p, Find(All(s), p), s)
			if !strings.HasPrefix(got, stream.HeldBy(held, at)+"; ask the owners of namespace shop: ") || !strings.Contains(got, v1beta1.AnnotationHandOverTo) {
				t.Errorf("behind %s, who %s: %s", name, asked, got)
			}
		}
		if shop := Of(All(s), "shop"); len(shop) == 0 || shop[0].Holder != "StreamIngress shop/postgres" || !shop[0].Claimed {
			t.Errorf("behind %s, the doors of shop: %+v", name, shop)
		}
	}
}

// TestAdviceForEachClass holds that of a port which several classes have for streams the holder in each is named, once.
func TestAdviceForEachClass(t *testing.T) {
	s := &snapshot.Snapshot{}
	for name, namespace := range map[string]string{"public": "shop", "internal": "blog"} {
		class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: name, Name: "tcp"}
		data := map[string]string{"5432": namespace + "/db:5432"}
		s.Classes = append(s.Classes, class)
		s.ConfigMaps = append(s.ConfigMaps, &corev1.ConfigMap{ObjectMeta: meta(name + "/tcp"), Data: data})
		at := claim.Stream(name, v1beta1.TCP, 5432)
		s.Claims = append(s.Claims, claim.New(at, claim.Claimant{Holder: claim.StreamHolder(namespace, "postgres")}))
	}
	p, err := ParsePoint("5432")
	if err != nil {
		t.Fatal(err)
	}
	got := Advice(p, Find(All(s), p), s)
	for _, want := range []string{
		`held by StreamIngress shop/postgres on class "public"`, "ask the owners of namespace shop",
		`held by StreamIngress blog/postgres on class "internal"`, "ask the owners of namespace blog",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not said once: %s", want, got)
		}
	}
}

// TestALabelIsNoProof holds that a Service which says that it is of a class, but is not where that has its own, is its owner's.
func TestALabelIsNoProof(t *testing.T) {
	at := claim.Stream("public", v1beta1.TCP, 5432)
	held := claim.New(at, claim.Claimant{Holder: claim.StreamHolder("shop", "postgres")})
	for name, served := range behind {
		class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}}
		served(class)
		s := &snapshot.Snapshot{
			Classes: []*v1beta1.StreamIngressClass{class}, Claims: []*v1beta1.EdgeClaim{held}, Services: []*corev1.Service{open("liar/db", "public")},
		}
		for _, d := range All(s) {
			if d.Namespace != "liar" || d.Holder != "Service liar/db" {
				t.Errorf("beside %s: %+v", name, d)
			}
		}
	}
}
