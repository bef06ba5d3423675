package accesstest

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// PointOfPostgres is the point that Postgres asks for on the class of Public.
var PointOfPostgres = claim.Stream("public", v1beta1.TCP, 5432)

// HolderOfPostgres is Postgres as the holder of a claim.
var HolderOfPostgres = claim.StreamHolder("shop", "postgres")

// Claimed is a claim that was promised a while ago; by the zero time it was made for a stored object.
func Claimed(at claim.Coordinate, by claim.Holder, uid types.UID, generation int64, promised time.Time) *v1beta1.EdgeClaim {
	c := claim.New(at, claim.Claimant{Holder: by, UID: uid, Generation: generation})
	if !promised.IsZero() {
		c.Spec.Renewed = &metav1.MicroTime{Time: promised}
	}
	return c
}

// ServedBy has the status of a stream say which class and port it was given.
func ServedBy(class string, port int32) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) { s.Status.ClassName, s.Status.Listen = class, port }
}

// OfClass has a stream name its class.
func OfClass(class string) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) { s.Spec.ClassName = class }
}

// Noon is a time at which the clocks of tests begin.
var Noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// Problem is a problem with a spec.
func Problem(reason, text string) refusal.Problems {
	return refusal.Problems{{Reason: reason, Err: field.Forbidden(field.NewPath("spec"), text)}}
}

// Condition is a condition of a type.
func Condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// Public is the class "public", with the ConfigMap and the Service that it names: TCP/5432 is open for shop/db.
func Public() (*v1beta1.StreamIngressClass, *corev1.ConfigMap, *corev1.Service) {
	ref := func(name string) *v1beta1.ObjectReference {
		return &v1beta1.ObjectReference{Namespace: "edge", Name: name}
	}
	class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}}
	class.Spec.TCPConfigMap, class.Spec.Service = ref("tcp-services"), ref("proxy")
	class.Spec.OutsideUpstreams = v1beta1.OutsideAllowed
	labels := map[string]string{v1beta1.LabelClass: "public"}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "tcp-services", Labels: labels}}
	cm.Data = map[string]string{"5432": "shop/db:5432"}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "proxy", Labels: labels}}
	svc.Spec.Ports = []corev1.ServicePort{
		{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80},
		{Name: "tcp-5432", Protocol: corev1.ProtocolTCP, Port: 5432, TargetPort: intstr.FromInt32(5432)},
	}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example.com"}}
	return class, cm, svc
}

// Postgres is the stream shop/postgres, which asks for TCP/5432.
func Postgres(change ...func(*v1beta1.StreamIngress)) *v1beta1.StreamIngress {
	si := &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "postgres", UID: "uid-of-postgres"}}
	si.Spec.Listen = new(int32(5432))
	si.Spec.Upstream = v1beta1.StreamUpstream{Service: "db", Port: intstr.FromInt32(5432)}
	for _, f := range change {
		f(si)
	}
	return si
}

// AddressAt is the point that is a whole address.
func AddressAt(ip string) claim.Coordinate { return claim.Address(netip.MustParseAddr(ip)) }

// Life is shop/postgres in one of its lives.
func Life(uid types.UID, generation int64, change ...func(*v1beta1.StreamIngress)) *v1beta1.StreamIngress {
	si := Postgres(change...)
	si.UID, si.Generation = uid, generation
	return si
}

// Drawn leaves it to the class which port a stream gets.
func Drawn(s *v1beta1.StreamIngress) { s.Spec.Listen = nil }

// PoolOf is a pool of some addresses.
func PoolOf(name string, addresses ...string) *v1beta1.AddressPool {
	return &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.AddressPoolSpec{Addresses: addresses}}
}
