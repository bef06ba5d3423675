package reconcilers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// writeIngress writes the whole of status.loadBalancer of a Service, as it was read. One that is gone is no error.
//
// A tenant can change its Service all the time, so that each write of what was read comes too late, and can fill it, so that
// there is no room for more. What may not be listed any longer is taken out for all that.
func (r *loadBalancerReconciler) writeIngress(ctx context.Context, svc *corev1.Service, ingress []corev1.LoadBalancerIngress) error {
	if len(ingress) == 0 {
		return r.keepListed(ctx, svc, nil)
	}
	balancer := corev1ac.LoadBalancerStatus()
	for i := range ingress {
		balancer.WithIngress(ingressApply(&ingress[i]))
	}
	apply := corev1ac.Service(svc.Name, svc.Namespace).WithUID(svc.UID).WithResourceVersion(svc.ResourceVersion).
		WithStatus(corev1ac.ServiceStatus().WithLoadBalancer(balancer))
	err := r.writer.Status().Apply(ctx, apply, client.FieldOwner(stream.FieldManager), client.ForceOwnership)
	if isTooLarge(err) {
		err = r.patchStatus(ctx, svc, resetManagedFields,
			operation{"test", "/metadata/resourceVersion", svc.ResourceVersion},
			operation{"add", "/status/loadBalancer", corev1.LoadBalancerStatus{Ingress: ingress}})
	}
	if kept, takes := stillListed(svc.Status.LoadBalancer.Ingress, ingress); takes && (apierrors.IsConflict(err) || isTooLarge(err)) {
		return r.keepListed(ctx, svc, kept)
	}
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

// stillListed is what of a status stands in the next one, too; takes says that something does not.
func stillListed(before, next []corev1.LoadBalancerIngress) (kept []corev1.LoadBalancerIngress, takes bool) {
	listed := loadbalancer.Listed(next)
	for _, i := range before {
		if one := loadbalancer.Listed([]corev1.LoadBalancerIngress{i}); len(one) == 0 || slices.Contains(listed, one[0]) {
			kept = append(kept, i)
		}
	}
	return kept, len(kept) < len(before)
}

// keepListed takes all but a part out of the status of a Service, whoever wrote it there: leaving it out of what is applied
// would not. It depends on nothing of the Service but its UID. If it has changed in the meantime, too much is taken out for a
// moment, and is back with the next look.
func (r *loadBalancerReconciler) keepListed(ctx context.Context, svc *corev1.Service, kept []corev1.LoadBalancerIngress) error {
	part := []operation{
		{"test", "/metadata/uid", svc.UID},
		{"add", "/status/loadBalancer", corev1.LoadBalancerStatus{Ingress: kept}},
	}
	err := r.patchStatus(ctx, svc, part...)
	if isTooLarge(err) {
		err = r.patchStatus(ctx, svc, append(part, resetManagedFields)...)
	}
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("taking addresses out of the status: %w", err)
	}
	return nil
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// resetManagedFields makes the API server forget who wrote what: "Clearing managedFields" in the documentation of
// server-side apply.
var resetManagedFields = operation{"replace", "/metadata/managedFields", []struct{}{{}}}

// patchStatus applies a JSON patch to the status of a Service. A test that fails is a Conflict error.
func (r *loadBalancerReconciler) patchStatus(ctx context.Context, svc *corev1.Service, operations ...operation) error {
	patch, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	err = r.writer.Status().Patch(ctx, svc.DeepCopy(), client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(stream.FieldManager))
	var status apierrors.APIStatus
	if apierrors.IsInvalid(err) && errors.As(err, &status) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0) {
		return apierrors.NewConflict(corev1.Resource("services"), svc.Name, err)
	}
	return err
}

// isTooLarge says whether an object would have become larger than etcd takes. The API server has no reason of its own for
// that: the message is etcd's, or that of its client.
func isTooLarge(err error) bool {
	return err != nil && (apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(err.Error(), "too large") || strings.Contains(err.Error(), "larger than max"))
}

func ingressApply(ingress *corev1.LoadBalancerIngress) *corev1ac.LoadBalancerIngressApplyConfiguration {
	apply := corev1ac.LoadBalancerIngress()
	if ingress.IP != "" {
		apply.WithIP(ingress.IP)
	}
	if ingress.IPMode != nil {
		apply.WithIPMode(*ingress.IPMode)
	}
	for _, p := range ingress.Ports {
		port := corev1ac.PortStatus().WithPort(p.Port).WithProtocol(p.Protocol)
		if p.Error != nil {
			port.WithError(*p.Error)
		}
		apply.WithPorts(port)
	}
	return apply
}
