package loadbalancers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// writeIngress writes the whole of status.loadBalancer of a Service, as it was read. One that is gone is no error.
//
// A tenant can change its Service all the time, so that each write of what was read comes too late, and can fill it, so that
// there is no room for more. What may not be listed any longer is taken out for all that.
func (r *loadBalancerReconciler) writeIngress(ctx context.Context, svc *corev1.Service, ingress []corev1.LoadBalancerIngress) error {
	err := r.replaceIngress(ctx, svc, ingress)
	if apierrors.IsConflict(err) || isTooLarge(err) {
		if gone := goneFrom(svc.Status.LoadBalancer.Ingress, ingress); len(gone) > 0 {
			return r.takeOut(ctx, svc, gone)
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}

// replaceIngress writes status.loadBalancer of a Service that has not changed since it was read: else it is a Conflict error.
// An empty one is not applied, as what others have written there would stay.
func (r *loadBalancerReconciler) replaceIngress(ctx context.Context, svc *corev1.Service, ingress []corev1.LoadBalancerIngress) error {
	if len(ingress) > 0 {
		balancer := corev1ac.LoadBalancerStatus()
		for i := range ingress {
			balancer.WithIngress(ingressApply(&ingress[i]))
		}
		apply := corev1ac.Service(svc.Name, svc.Namespace).WithUID(svc.UID).WithResourceVersion(svc.ResourceVersion).
			WithStatus(corev1ac.ServiceStatus().WithLoadBalancer(balancer))
		err := r.Writer.Status().Apply(ctx, apply, client.FieldOwner(stream.FieldManager), client.ForceOwnership)
		if !isTooLarge(err) {
			return err
		}
	}
	return r.patchStatus(ctx, svc,
		operation{"test", "/metadata/resourceVersion", svc.ResourceVersion},
		operation{"add", "/status/loadBalancer", corev1.LoadBalancerStatus{Ingress: ingress}})
}

// goneFrom are the addresses of a status that the next one does not list.
func goneFrom(before, next []corev1.LoadBalancerIngress) []netip.Addr {
	remaining := loadbalancer.Listed(next)
	return slices.DeleteFunc(loadbalancer.Listed(before), func(ip netip.Addr) bool { return slices.Contains(remaining, ip) })
}

// takeOut takes addresses out of the status of a Service, whoever wrote them there, and whatever else of it changes all the
// time.
//
// By now the Service may have become another's to serve, and forward ports that nobody has judged. So the patch has nothing
// to add: it takes each address out of the place where it is stored, if it is there still. What is to be listed again by now
// is back with the next look.
func (r *loadBalancerReconciler) takeOut(ctx context.Context, svc *corev1.Service, gone []netip.Addr) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now := &corev1.Service{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(svc), now); err != nil || now.UID != svc.UID {
			return err
		}
		removals := removalsOf(gone, now.Status.LoadBalancer.Ingress)
		if len(removals) == 0 {
			return nil
		}
		return r.patchStatus(ctx, svc, append(removals, operation{"test", "/metadata/uid", svc.UID})...)
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("taking addresses out of the status: %w", err)
	}
	return nil
}

// removalsOf take addresses out of a status, the last one first, as each moves what comes after it.
func removalsOf(gone []netip.Addr, ingress []corev1.LoadBalancerIngress) (removals []operation) {
	for i, entry := range slices.Backward(ingress) {
		if ip, err := netip.ParseAddr(entry.IP); err == nil && slices.Contains(gone, ip.Unmap()) {
			place := fmt.Sprintf("/status/loadBalancer/ingress/%d", i)
			removals = append(removals, operation{"test", place + "/ip", entry.IP}, operation{"remove", place, nil})
		}
	}
	return removals
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// resetManagedFields makes the API server forget who wrote what: "Clearing managedFields" in the documentation of
// server-side apply.
var resetManagedFields = operation{"add", "/metadata/managedFields", []struct{}{{}}}

// patchStatus does as tryPatch, and resets the managed fields of a Service that would become too large. A test that fails is a
// Conflict error.
func (r *loadBalancerReconciler) patchStatus(ctx context.Context, svc *corev1.Service, operations ...operation) error {
	err := r.tryPatch(ctx, svc, operations)
	if isTooLarge(err) {
		err = r.tryPatch(ctx, svc, append(operations, resetManagedFields))
	}
	var status apierrors.APIStatus
	if apierrors.IsInvalid(err) && errors.As(err, &status) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0) {
		return apierrors.NewConflict(corev1.Resource("services"), svc.Name, err)
	}
	return err
}

// tryPatch applies a JSON patch to the status of a Service.
func (r *loadBalancerReconciler) tryPatch(ctx context.Context, svc *corev1.Service, operations []operation) error {
	patch, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	return r.Writer.Status().Patch(ctx, svc.DeepCopy(), client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(stream.FieldManager))
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
