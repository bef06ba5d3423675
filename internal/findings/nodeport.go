package findings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// nearEnd is of how many percent of the range in use there is a finding.
const nearEnd = 90

// nodePorts is the finding that few ports of the nodes are left. A number is given once, for TCP and UDP together.
func nodePorts(s *snapshot.Snapshot) []Finding {
	used, in := sets.New[int32](), map[string]int{}
	for _, svc := range s.Services {
		ports := []int32{svc.Spec.HealthCheckNodePort}
		for i := range svc.Spec.Ports {
			ports = append(ports, svc.Spec.Ports[i].NodePort)
		}
		for _, port := range ports {
			if s.NodePorts.Has(port) && !used.Has(port) {
				used.Insert(port)
				in[svc.Namespace]++
			}
		}
	}
	size := s.NodePorts.Size()
	if used.Len()*100 < size*nearEnd || size == 0 {
		return nil
	}
	namespaces := slices.SortedFunc(maps.Keys(in), func(a, b string) int { return cmp.Or(in[b]-in[a], cmp.Compare(a, b)) })
	var most []string
	objects := []Object{}
	for _, namespace := range namespaces[:min(3, len(namespaces))] {
		most = append(most, fmt.Sprintf("%s (%d)", namespace, in[namespace]))
		objects = append(objects, Object{Kind: "Namespace", Name: namespace})
	}
	return []Finding{{
		Rule: NodePortsNearEnd, Point: fmt.Sprintf("%d-%d", s.NodePorts.From, s.NodePorts.To), Scope: "ports of the nodes", Objects: objects,
		Text: fmt.Sprintf("%d of %d ports are in use, %d are left; most are of %s", used.Len(), size, size-used.Len(), list(most)),
		Advice: "set spec.allocateLoadBalancerNodePorts to false on load balancers that need none, " +
			"or give the API server a larger --service-node-port-range",
	}}
}
