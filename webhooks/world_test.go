package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/harness"
	"jeffthecoder.xyz/portcullis/test/memory"
)

// world is a cluster in memory that holds a number of claims, with everything that goes with them: the objects that hold
// them, and the ConfigMap, the Service or the Ingresses that they are programmed in.
type world struct {
	view   *kube.View
	ledger *claim.Ledger
	claims *claim.Fake
}

const (
	worldClass = "public"
	// freePort is a TCP port that nobody holds.
	freePort = 8080
	// configMapRoom is how many entries a ConfigMap has room for.
	configMapRoom = 30000
)

// newWorld makes a world of objects and claims.
func newWorld(b testing.TB, objects []client.Object, claims []*v1beta1.EdgeClaim) *world {
	b.Helper()
	for _, c := range claims {
		objects = append(objects, c)
	}
	for i := range teams {
		objects = append(objects, namespace(team(i)))
	}
	objects = append(objects, &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{
		Name: "nginx", Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"},
	}})
	store := claim.NewFake(claims...)
	cached, err := memory.Cache(harness.Scheme(), kube.CacheOptions(), objects...)
	if err != nil {
		b.Fatal(err)
	}
	defaults := exposure.Defaults{Host: "{service}.{namespace}.example.com"}
	if err := errors.Join(kube.AddIndexes(b.Context(), cached), memory.Select(b.Context(), cached)); err != nil {
		b.Fatal(err)
	}
	if err := kube.AddExposureIndexes(b.Context(), cached, kube.Exposing{Defaults: defaults}); err != nil {
		b.Fatal(err)
	}
	options := kube.LoadBalancerOptions{ByDefault: true}
	if err := kube.AddLoadBalancerIndexes(b.Context(), cached, options); err != nil {
		b.Fatal(err)
	}
	view, err := kube.NewView(b.Context(), cached, cached)
	if err != nil {
		b.Fatal(err)
	}
	view.Ingresses.Expose(kube.Exposing{Defaults: defaults})
	view.LoadBalancers.Options = options
	view.Gateways.IndexBy(cached)
	if err := memory.Fill(b.Context(), cached, view.Synced); err != nil {
		b.Fatal(err)
	}
	ledger := kube.NewLedger(nil, nil, view, claim.Ledger{Grace: claim.DefaultGrace})
	ledger.Store = store
	ledger.Promises.Stored = func(context.Context, claim.Claimant) bool { return true } // nothing is, here
	return &world{view: view, ledger: ledger, claims: store}
}

// teams is how many namespaces there are.
const teams = 100

func team(i int) string { return fmt.Sprintf("team-%d", i%teams) }

func namespace(name string) client.Object {
	ns := kube.NamespaceObject()
	ns.Name, ns.Labels = name, map[string]string{"team": name}
	return ns
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), ResourceVersion: "1", Generation: 1}
}

// streamsWorld is a world of n streams of one class.
func streamsWorld(b *testing.B, n int) *world {
	b.Helper()
	var objects []client.Object
	var claims []*v1beta1.EdgeClaim
	var tcp []int32
	for i := range n {
		protocol, port := v1beta1.TCP, int32(i+1) //nolint:gosec // small
		if port >= freePort {
			port++
		}
		if port > 65535 {
			protocol, port = v1beta1.UDP, port-65535
		} else {
			tcp = append(tcp, port)
		}
		s := streamTo(team(i), fmt.Sprintf("stream-%d", i), port)
		s.Spec.Protocol, s.Status.ClassName, s.Status.Listen = protocol, worldClass, port
		objects = append(objects, s)
		claims = append(claims, claim.New(claim.Stream(worldClass, protocol, port),
			claim.Claimant{Holder: claim.StreamHolder(s.Namespace, s.Name), UID: s.UID, Generation: 1}))
	}
	for i := range teams {
		objects = append(objects, serviceWithPorts(team(i), "web", 80))
	}
	class := &v1beta1.StreamIngressClass{ObjectMeta: meta("", worldClass)}
	class.Annotations = map[string]string{v1beta1.AnnotationDefaultClass: "true"}
	class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "tcp"}
	class.Spec.UDPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "udp"}
	class.Spec.Service = &v1beta1.ObjectReference{Namespace: "edge", Name: "proxy"}
	class.Spec.AutoAssign = &v1beta1.PortRange{From: 20000, To: 20999}
	class.Spec.Reserved = []v1beta1.PortRange{{From: 22}}
	objects = append(objects, class, configMapWith("tcp", tcp[:min(len(tcp), configMapRoom)]), configMapWith("udp", nil),
		proxyWith(tcp[:min(len(tcp), stream.MaxServicePorts)]))
	return newWorld(b, objects, claims)
}

func streamTo(namespace, name string, port int32) *v1beta1.StreamIngress {
	s := &v1beta1.StreamIngress{ObjectMeta: meta(namespace, name)}
	s.Spec.Listen = &port
	s.Spec.Upstream = v1beta1.StreamUpstream{Service: "web", Port: intstr.FromInt32(80)}
	return s
}

func serviceWithPorts(namespace, name string, ports ...int32) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: meta(namespace, name)}
	for _, port := range ports {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("tcp-%d", port), Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port),
		})
	}
	return svc
}

// applied marks an object as written by the class, with the fields that it owns.
func applied(obj client.Object, fields string) {
	obj.SetLabels(map[string]string{v1beta1.LabelClass: worldClass})
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: stream.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields),
	}})
}

func configMapWith(name string, ports []int32) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: meta("edge", name), Data: map[string]string{}}
	fields := make([]string, 0, len(ports))
	for _, port := range ports {
		cm.Data[stream.Key(port)] = "team-0/web:80"
		fields = append(fields, fmt.Sprintf(`"f:%d":{}`, port))
	}
	applied(cm, `{"f:data":{`+strings.Join(fields, ",")+`}}`)
	return cm
}

func proxyWith(ports []int32) *corev1.Service {
	svc := serviceWithPorts("edge", "proxy", ports...)
	fields := make([]string, 0, len(ports))
	for _, port := range ports {
		fields = append(fields, fmt.Sprintf(`"k:{\"port\":%d,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{}}`, port))
	}
	applied(svc, `{"f:spec":{"f:ports":{`+strings.Join(fields, ",")+`}}}`)
	return svc
}

// servicesWorld is a world of n Services that ask for an Ingress.
func servicesWorld(b *testing.B, n int) *world {
	b.Helper()
	var objects []client.Object
	var claims []*v1beta1.EdgeClaim
	for i := range n {
		svc := exposed(team(i), fmt.Sprintf("app-%d", i), fmt.Sprintf("app-%d.example.com", i))
		objects = append(objects, svc)
		claims = append(claims, claim.New(claim.HTTP(fmt.Sprintf("app-%d.example.com", i), "/").ServedBy("nginx"), claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID}))
	}
	return newWorld(b, objects, claims)
}

// balancersWorld is a world of n Services with an address each.
func balancersWorld(b *testing.B, n int) *world {
	b.Helper()
	pool := &v1beta1.AddressPool{ObjectMeta: meta("", "pool")}
	pool.Spec.Source, pool.Spec.Addresses = v1beta1.SourceAddresses, []string{"10.0.0.0/8"}
	objects := []client.Object{pool}
	var claims []*v1beta1.EdgeClaim
	for i := range n {
		svc := balanced(team(i), fmt.Sprintf("app-%d", i), "")
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: addressOf(i).String()}}
		objects = append(objects, svc)
		claims = append(claims, claim.New(claim.Address(addressOf(i)), claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID}))
	}
	return newWorld(b, objects, claims)
}

// addressOf is the i-th address of the pool.
func addressOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) //nolint:gosec // the lower 16 bits
}

// balanced is a Service of type LoadBalancer, which may ask for an address.
func balanced(namespace, name, address string) *corev1.Service {
	svc := serviceWithPorts(namespace, name, 80)
	svc.Spec.Type, svc.Spec.ClusterIP, svc.Spec.IPFamilies = corev1.ServiceTypeLoadBalancer, "10.96.0.1", []corev1.IPFamily{corev1.IPv4Protocol}
	if address != "" {
		svc.Annotations = map[string]string{v1beta1.AnnotationAddresses: address}
	}
	return svc
}

func exposed(namespace, name, host string) *corev1.Service {
	svc := serviceWithPorts(namespace, name, 80)
	svc.Annotations = map[string]string{v1beta1.AnnotationHTTP: "host=" + host}
	return svc
}
