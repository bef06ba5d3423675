package streams

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// errReading says that EndpointSlices are being read, so that nothing can be said of a stream yet.
var errReading = errors.New("the EndpointSlices of upstreams are still being read")

// forwarded finds out whether the nodes have been told about a stream that holds its point.
func (r *streamReconciler) forwarded(
	ctx context.Context, si *v1beta1.StreamIngress, v *verdict, port stream.PortKey, refused *v1beta1.RefusedPort,
) (metav1.Condition, error) {
	svc, err := r.View.Service(ctx, kube.ServiceKey(v.class, port))
	if err != nil {
		return metav1.Condition{}, err
	}
	if svc != nil && kube.IsForwarded(svc) && svc.DeletionTimestamp == nil {
		isListed := refused != nil && slices.ContainsFunc(v.class.Status.Refused, func(p v1beta1.RefusedPort) bool { return portOf(p) == port })
		written, err := r.isForwarded(ctx, si, v, svc)
		switch {
		case err != nil:
			return metav1.Condition{}, err
		case isListed: // and still open at some of the addresses, perhaps
			v.addresses = addressesOf(svc)
		case written:
			v.addresses = addressesOf(svc)
			return isOpen(v.class, port), nil
		}
	}
	pending := metav1.Condition{Status: metav1.ConditionFalse, Reason: v1beta1.ReasonPending,
		Message: "the nodes are about to be told to forward the port"}
	programmed := meta.FindStatusCondition(v.class.Status.Conditions, v1beta1.ConditionProgrammed)
	switch {
	case refused != nil:
		pending.Reason, pending.Message = refused.Reason, refused.Message
	case programmed != nil && programmed.Reason == v1beta1.ReasonNoAddress:
		pending.Reason, pending.Message = v1beta1.ReasonNoAddress, programmed.Message
	}
	return pending, nil
}

// mirror finds out what is to be mirrored for a stream that holds its point and whose upstream is there, if its class has the kernel
// forward its ports, and which endpoints are left out.
func (r *streamReconciler) mirror(ctx context.Context, si *v1beta1.StreamIngress, v *verdict) (err error) {
	if v.class.Spec.AddressPool == nil || len(v.resolved) > 0 {
		return nil
	}
	var known bool
	v.mirrored, known, err = r.View.Mirror(ctx, v.class, si, v.at)
	switch {
	case err != nil:
		return err
	case !known:
		return errReading
	case v.mirrored.LeftOut > 0:
		upstream := field.NewPath("spec", "upstream")
		v.resolved = refusal.One(v1beta1.ReasonEndpointsLeftOut, field.Invalid(upstream, si.UpstreamService(), v.mirrored.Text()))
	}
	return nil
}

// isForwarded says whether all is written that a stream needs. Once it was, endpoints come and go, and that they are written a moment
// later is not told each time.
func (r *streamReconciler) isForwarded(
	ctx context.Context, si *v1beta1.StreamIngress, v *verdict, svc *corev1.Service,
) (bool, error) {
	addresses := servedBy(svc, stream.ClassAddresses(v.class))
	if len(addresses) == 0 || !equality.Semantic.DeepEqual(svc.Status.LoadBalancer.Ingress, ingressOf(addresses)) {
		return false, nil
	}
	before := meta.FindStatusCondition(si.Status.Conditions, v1beta1.ConditionProgrammed)
	if before != nil && before.Status == metav1.ConditionTrue && before.ObservedGeneration == si.Generation {
		return true, nil
	}
	stored, err := r.View.Streams.Mirrors(ctx, client.ObjectKeyFromObject(svc))
	wanted := mirroredFor(svc, v.mirrored)
	if err != nil || len(stored) != len(wanted) {
		return false, err
	}
	digests := map[string]string{}
	for i := range stored {
		digests[stored[i].Name] = kube.MirrorDigest(&stored[i])
	}
	return !slices.ContainsFunc(wanted, func(s discoveryv1.EndpointSlice) bool { return digests[s.Name] != stream.SliceDigest(&s) }), nil
}
