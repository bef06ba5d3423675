package streams

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// errReading says that EndpointSlices are being read, so that nothing can be said of a stream yet.
var errReading = errors.New("the EndpointSlices of upstreams are still being read")

// forwarded finds out whether the nodes have been told about a stream that holds its point. The addresses are the last that is written.
func (r *streamReconciler) forwarded(
	ctx context.Context, v *verdict, port stream.PortKey, refused *v1beta1.RefusedPort,
) (metav1.Condition, error) {
	svc, err := r.View.Service(ctx, kube.ServiceKey(v.class, port))
	if err != nil {
		return metav1.Condition{}, err
	}
	if refused == nil && svc != nil && kube.IsForwarded(svc) && svc.DeletionTimestamp == nil {
		if v.addresses = addressesOf(svc); len(v.addresses) > 0 {
			return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonProgrammed, Message: "the port is open"}, nil
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

// leftOut says which endpoints of a stream's upstream are not forwarded to, if its class has the kernel forward its ports.
func (r *streamReconciler) leftOut(
	ctx context.Context, si *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass,
) (refusal.Problems, error) {
	if class.Spec.AddressPool == nil {
		return nil, nil
	}
	at := claim.Stream(class.Name, si.ProtocolOrDefault(), max(si.Status.Listen, 1))
	mirrored, known, err := r.View.Mirror(ctx, class, si, at)
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, errReading
	case mirrored.LeftOut == 0:
		return nil, nil
	}
	upstream := field.NewPath("spec", "upstream")
	return refusal.One(v1beta1.ReasonEndpointsLeftOut, field.Invalid(upstream, si.UpstreamService(), mirrored.Text())), nil
}
