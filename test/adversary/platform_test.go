package adversary

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// The platform's own objects, as their owner writes them.

// foreign is what the platform has in the ConfigMap for TCP. Two entries lead to Services of the platform, which no tenant may
// take over; one leads to a tenant's.
var foreign = map[string]string{"7000": platform + "/web:80", "7001": platform + "/api:80", adoptable: "tenant-a/lb-0:80", "note": "keep me"}

// adoptable is the port of the entry that tenant-a may take over.
const adoptable = "7005"

func entries() *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: platform, Name: "tcp-services"}, Data: map[string]string{}}
	for key, value := range foreign {
		cm.Data[key] = value
	}
	return cm
}

// foreignPorts are what the platform has on the proxy's Service.
func foreignPorts() []corev1.ServicePort {
	return []corev1.ServicePort{
		{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}, {Name: "https", Port: 443, Protocol: corev1.ProtocolTCP},
	}
}

func proxy() *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: platform, Name: "proxy",
		Annotations: map[string]string{v1beta1.AnnotationAddressPool: "shared", "note": "keep me"},
	}}
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	svc.Spec.AllocateLoadBalancerNodePorts, svc.Spec.Ports = new(false), foreignPorts()
	return svc
}

func class() *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: className}}
	c.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: platform, Name: "tcp-services"}
	c.Spec.UDPConfigMap = &v1beta1.ObjectReference{Namespace: platform, Name: "udp-services"}
	c.Spec.Service = &v1beta1.ObjectReference{Namespace: platform, Name: "proxy"}
	c.Spec.AutoAssign = &v1beta1.PortRange{From: 7000, To: 7006}
	c.Spec.OutsideUpstreams = v1beta1.OutsideAllowed
	return c
}

// hostClass is that of a proxy which listens on the nodes, and has no Service.
func hostClass() *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: hostClassName}}
	c.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: platform, Name: "host-services"}
	c.Spec.AutoAssign = &v1beta1.PortRange{From: 8080, To: 8083}
	return c
}

// directClass is one without a proxy.
func directClass() *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: directClassName}}
	c.Spec.AddressPool = &v1beta1.ClassAddressPool{Name: "shared", Namespace: directNamespace}
	c.Spec.AutoAssign = &v1beta1.PortRange{From: 7002, To: 7006}
	return c
}

// hostEntries is the ConfigMap of that proxy, in which the platform has nothing.
func hostEntries() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: platform, Name: "host-services"}}
}
