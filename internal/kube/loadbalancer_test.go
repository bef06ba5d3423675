package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodePorts(t *testing.T) {
	svc := func(name string, healthCheck int32, nodePorts ...int32) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: name}}
		s.Spec.HealthCheckNodePort = healthCheck
		for _, p := range nodePorts {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{NodePort: p})
		}
		return s
	}
	// TCP and UDP may have the same one.
	v := viewOf(t, svc("inside", 0, 0, 0), svc("proxy", 30001, 30002, 30003), svc("dns", 0, 30004, 30004))
	if got, err := v.LoadBalancers.NodePorts(t.Context()); err != nil || got != 4 {
		t.Errorf("got %d, %v", got, err)
	}
}
