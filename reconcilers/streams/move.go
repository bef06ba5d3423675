package streams

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

// move finds out where a stream stands that moves to another class. The status is what tells all others: the door that it had stays
// open for as long as the status has it.
func (r *streamReconciler) move(ctx context.Context, si *v1beta1.StreamIngress, v *verdict, now time.Time) error {
	if si.Status.Previous == nil && (si.Spec.ClassName == "" || si.Status.ClassName == "" || si.Spec.ClassName == si.Status.ClassName) {
		return nil
	}
	held, err := r.View.Claims.Held(ctx, claim.StreamHolder(si.Namespace, si.Name))
	if err != nil {
		return err
	}
	former := stream.Former(si, held)
	isOpen := len(v.refusal) == 0 && v.programmed.Status == metav1.ConditionTrue
	v.previous = stream.PreviousDoor(former, si.Status.Previous, isOpen, now)
	if before := pointOf(si.Status.Previous); before != v.at && before != pointOf(v.previous) {
		v.left = before
	}
	return nil
}

// pointOf is the point of a door that a stream had, zero for none.
func pointOf(p *v1beta1.PreviousDoor) claim.Coordinate {
	if p == nil {
		return claim.Coordinate{}
	}
	return claim.Stream(p.ClassName, p.Protocol, p.Listen)
}

// staysOpen says of a door that a stream had that it is still open.
func staysOpen(p *v1beta1.PreviousDoor) string {
	if p.CloseTime == nil {
		return fmt.Sprintf("%s/%d of class %s stays open until it is", p.Protocol, p.Listen, p.ClassName)
	}
	return fmt.Sprintf("%s/%d of class %s is about to be closed", p.Protocol, p.Listen, p.ClassName)
}

// tellMoved tells that a stream has left a door that it had.
func (r *streamReconciler) tellMoved(si *v1beta1.StreamIngress, left claim.Coordinate) {
	report.Emit(r.Events, si, nil, corev1.EventTypeNormal, v1beta1.ReasonMoved, "Move", fmt.Sprintf(
		"%s of class %s is closed, the stream has moved to class %s", left.Point(), left.Class(), si.Status.ClassName))
}
