package reconcilers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// loadBalancerWants looks whether the Service that holds an address, or a port of one or of the nodes, is there, and wants
// it. The Service is read by reader.
func (r *claimReconciler) loadBalancerWants(
	ctx context.Context, reader client.Reader, _ claim.Coordinate, holder claim.Holder,
) (claim.Sighting, error) {
	if holder.Group != "" || holder.Kind != "Service" {
		return claim.Sighting{Exists: true, Wants: true}, nil // not made by Portcullis
	}
	svc := &corev1.Service{}
	if there, err := r.read(ctx, reader, holder.Key(), svc); !there {
		return claim.Sighting{}, err
	}
	return claim.Sighting{
		Exists: true, UID: svc.UID, Generation: claim.Version(svc.ResourceVersion),
		Wants: svc.Spec.Type == corev1.ServiceTypeLoadBalancer,
	}, nil
}
