package adversary

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// beat is a kind that is watched, and an object of it that is of no use but to be changed.
type beat struct {
	list   client.ObjectList
	object client.Object
}

// beats are all kinds that are watched.
func beats() []beat {
	named := metav1.ObjectMeta{Name: "beat"}
	here := metav1.ObjectMeta{Namespace: platform, Name: "beat"}
	return []beat{
		{&corev1.ServiceList{}, &corev1.Service{ObjectMeta: here, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}},
		{&corev1.ConfigMapList{}, &corev1.ConfigMap{ObjectMeta: here}},
		{&networkingv1.IngressList{}, &networkingv1.Ingress{ObjectMeta: here, Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: "beat", Port: networkingv1.ServiceBackendPort{Number: 80},
			}},
		}}},
		{&v1beta1.StreamIngressClassList{}, &v1beta1.StreamIngressClass{ObjectMeta: named, Spec: v1beta1.StreamIngressClassSpec{
			TCPConfigMap: &v1beta1.ObjectReference{Namespace: platform, Name: "beat-tcp"},
		}}},
		{&v1beta1.StreamIngressList{}, &v1beta1.StreamIngress{ObjectMeta: here, Spec: v1beta1.StreamIngressSpec{
			ClassName: "beat", Listen: new(int32(1)), Upstream: v1beta1.StreamUpstream{Service: "beat", Port: intstr.FromInt(80)},
		}}},
		{&v1beta1.AddressPoolList{}, &v1beta1.AddressPool{ObjectMeta: named, Spec: v1beta1.AddressPoolSpec{
			Addresses: []string{"203.0.113.1"}, AutoAssign: new(false),
		}}},
		{&gatewayv1.GatewayList{}, &gatewayv1.Gateway{ObjectMeta: here, Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "none", Listeners: gateway().Spec.Listeners,
		}}},
		{&gatewayv1.ListenerSetList{}, &gatewayv1.ListenerSet{ObjectMeta: here, Spec: gatewayv1.ListenerSetSpec{
			ParentRef: gatewayv1.ParentGatewayReference{Name: "beat"}, Listeners: []gatewayv1.ListenerEntry{entry(80, "")},
		}}},
		{&v1beta1.EdgeClaimList{}, &v1beta1.EdgeClaim{ObjectMeta: named, Spec: v1beta1.EdgeClaimSpec{
			Scope: "beat", Point: "beat", HeldBy: "ConfigMap " + platform + "/beat",
			Holder: v1beta1.ClaimHolder{Kind: "ConfigMap", Namespace: platform, Name: "beat"},
		}}},
	}
}
