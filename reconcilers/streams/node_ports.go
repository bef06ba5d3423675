package streams

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// defaultNodePorts is how many node ports there are, unless --service-node-port-range says otherwise (30000-32767).
const defaultNodePorts = 2768

// nodePortRange estimates how many node ports are free. Nothing shows how many there are, so the first guess is the default,
// and what happens corrects it. An estimate only saves attempts, each of which costs the API server a write for every node port.
type nodePortRange struct {
	mu   sync.Mutex
	size int
}

func newNodePortRange() *nodePortRange { return &nodePortRange{size: defaultNodePorts} }

// free estimates how many node ports are left when so many are used; it may be less than none.
func (r *nodePortRange) free(used int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size - used
}

// learn makes use of what a bisect has found out, before which so many were used.
func (r *nodePortRange) learn(used int, s *bisect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := used - s.stale + s.opened
	switch {
	case write.OutOfNodePorts(s.full):
		r.size = now
	case now > r.size:
		r.size = unlimited // it is larger, and nobody knows by how much
	}
}

// takesNodePorts says whether each port of a Service takes a node port.
func takesNodePorts(svc *corev1.Service) bool {
	switch svc.Spec.Type {
	case corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeLoadBalancer:
		return svc.Spec.AllocateLoadBalancerNodePorts == nil || *svc.Spec.AllocateLoadBalancerNodePorts
	default:
		return false
	}
}
