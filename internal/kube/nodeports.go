package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// NodePorts counts the node ports that Services have, by the cache.
func (v *View) NodePorts(ctx context.Context) (int, error) {
	var services corev1.ServiceList
	if err := v.Reader.List(ctx, &services); err != nil {
		return 0, err
	}
	used := map[int32]bool{}
	for i := range services.Items {
		spec := &services.Items[i].Spec
		used[spec.HealthCheckNodePort] = true
		for _, p := range spec.Ports {
			used[p.NodePort] = true
		}
	}
	delete(used, 0) // has none
	return len(used), nil
}
