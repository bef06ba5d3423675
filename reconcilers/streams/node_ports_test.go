package streams

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestNodePortsAreEstimated searches for room when 100 node ports are used.
func TestNodePortsAreEstimated(t *testing.T) {
	const full = "Internal error occurred: failed to allocate a nodePort: range is full"
	for name, tc := range map[string]struct {
		bisect bisect
		want   int // that are free when 150 are used
	}{
		"all that was tried fits":           {bisect{opened: 50}, defaultNodePorts - 150},
		"none is left":                      {bisect{full: full}, 100 - 150},
		"none is left after some":           {bisect{opened: 60, full: full}, 160 - 150},
		"none is left, and some went":       {bisect{opened: 10, stale: 10, full: full}, 100 - 150},
		"there are more than there seem":    {bisect{opened: defaultNodePorts}, unlimited - 150},
		"there is no room for other things": {bisect{full: "exceeded quota"}, defaultNodePorts - 150},
	} {
		t.Run(name, func(t *testing.T) {
			r := newNodePortRange()
			if free := r.free(100); free != defaultNodePorts-100 {
				t.Errorf("%d are free by default", free)
			}
			r.learn(100, &tc.bisect)
			if got := r.free(150); got != tc.want {
				t.Errorf("%d are free, want %d", got, tc.want)
			}
		})
	}
}

func TestTakesNodePorts(t *testing.T) {
	for name, tc := range map[string]struct {
		spec corev1.ServiceSpec
		want bool
	}{
		"inside the cluster":               {corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}, false},
		"on the nodes":                     {corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}, true},
		"a load balancer":                  {corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}, true},
		"a load balancer with node ports":  {corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(true)}, true},
		"a load balancer without any":      {corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(false)}, false},
		"a name for what is outside of it": {corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := takesNodePorts(&corev1.Service{Spec: tc.spec}); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
