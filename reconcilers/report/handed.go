package report

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// HandedOver tells both sides, by an event each, of a claim that has become another's.
func HandedOver(to events.EventRecorder) func(context.Context, v1beta1.ClaimHolder, *v1beta1.EdgeClaim) {
	return func(_ context.Context, from v1beta1.ClaimHolder, c *v1beta1.EdgeClaim) {
		giver, heir := kube.ReferenceTo(from), kube.ReferenceTo(c.Spec.Holder)
		Emit(to, giver, heir, corev1.EventTypeNormal, v1beta1.ReasonHandedOver, "HandOver", fmt.Sprintf(
			"%s of %s is handed over to %s %s/%s", c.Spec.Point, c.Spec.Scope, heir.Kind, heir.Namespace, heir.Name))
		Emit(to, heir, giver, corev1.EventTypeNormal, v1beta1.ReasonTookOver, "HandOver", fmt.Sprintf(
			"%s of %s is taken over from %s %s/%s", c.Spec.Point, c.Spec.Scope, giver.Kind, giver.Namespace, giver.Name))
	}
}
