package streams

import (
	"context"
	"fmt"
	"time"

	"jeffthecoder.xyz/portcullis/reconcilers/watch"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// maxRefused is how many refused ports the status of a class lists.
const maxRefused = 128

// classReport is what became of the ConfigMaps of a class, of its Service, or of both, or of its listeners.
type classReport struct {
	wrote          bool
	configMapError error
	serviceMissing bool
	// serviceError is why the Service could not be written, when that says nothing about the ports, and waiting is how many
	// were to be opened.
	serviceError error
	waiting      int
	refused      []v1beta1.RefusedPort
	// retryAfter is when to look again for another reason than what was refused, 0 for never.
	retryAfter time.Duration
	// kept is for how long what Portcullis has applied to objects is kept, by their UID: see mayCloseIn.
	kept map[types.UID]time.Duration
}

// retry has the class looked at again after a time; 0 asks for nothing.
func (r *classReport) retry(after time.Duration) {
	r.retryAfter = watch.Soonest(r.retryAfter, after)
}

func (r *classReport) refuse(port stream.PortKey, reason, message string) {
	r.refused = append(r.refused, refusedPort(port, reason, message))
}

// refusedPort says why a port could not be opened, as far as there is room for it.
func refusedPort(port stream.PortKey, reason, message string) v1beta1.RefusedPort {
	return v1beta1.RefusedPort{
		Protocol: port.Protocol, Port: port.Port, Reason: reason, Message: report.Cut(message, report.MaxRefusal),
	}
}

// compareRefused has refused ports in ascending order.
func compareRefused(a, b v1beta1.RefusedPort) int { return stream.ComparePorts(portOf(a), portOf(b)) }

// portOf is the port that was refused.
func portOf(r v1beta1.RefusedPort) stream.PortKey {
	return stream.PortKey{Protocol: r.Protocol, Port: r.Port}
}

// again is when to look at the class again, 0 for never: to try what the API server has refused, or as retry says.
func (r *classReport) again() time.Duration {
	if len(r.refused) > 0 || r.configMapError != nil {
		r.retry(watch.RefusedRetry)
	}
	return r.retryAfter
}

// reportClass writes the status of a class, if it changed.
func (b base) reportClass(ctx context.Context, class *v1beta1.StreamIngressClass, report classReport) error {
	programmed := metav1.Condition{Type: v1beta1.ConditionProgrammed, Status: metav1.ConditionFalse}
	switch {
	case report.configMapError != nil:
		programmed.Reason, programmed.Message = v1beta1.ReasonConfigMapRefused, report.configMapError.Error()
	case len(report.refused) > 0:
		programmed = someRefused(report.refused, 0)
	case report.serviceError != nil:
		programmed.Reason = v1beta1.ReasonPending
		programmed.Message = fmt.Sprintf("%d port(s) have yet to be opened: %s", report.waiting, report.serviceError)
	case report.serviceMissing:
		programmed.Reason = v1beta1.ReasonServiceNotFound
		programmed.Message = fmt.Sprintf("there is no Service %s/%s; the ConfigMaps are kept up to date",
			class.Spec.Service.Namespace, class.Spec.Service.Name)
	default:
		programmed.Status, programmed.Reason = metav1.ConditionTrue, v1beta1.ReasonProgrammed
		programmed.Message = "the proxy has been told about every stream"
	}
	return b.writeStatus(ctx, class, report.refused, servesStreams(), programmed)
}

// servesStreams is the condition of a class that is accepted.
func servesStreams() metav1.Condition {
	return metav1.Condition{Type: v1beta1.ConditionAccepted, Status: metav1.ConditionTrue,
		Reason: v1beta1.ReasonAccepted, Message: "the class serves streams"}
}

// someRefused is the condition of a class of which ports were refused. It tells of one of them.
func someRefused(refused []v1beta1.RefusedPort, told int) metav1.Condition {
	first := refused[told]
	return metav1.Condition{Type: v1beta1.ConditionProgrammed, Status: metav1.ConditionFalse, Reason: first.Reason,
		Message: fmt.Sprintf("%d port(s) could not be programmed, the first is %s/%d: %s",
			len(refused), first.Protocol, first.Port, first.Message)}
}

// reportConflict says that another class writes where this one would.
func (r *classReconciler) reportConflict(ctx context.Context, class *v1beta1.StreamIngressClass, problems refusal.Problems) error {
	return r.writeStatus(ctx, class, nil,
		metav1.Condition{Type: v1beta1.ConditionAccepted, Status: metav1.ConditionFalse,
			Reason: v1beta1.ReasonTargetConflict, Message: report.Text(problems)},
		metav1.Condition{Type: v1beta1.ConditionProgrammed, Status: metav1.ConditionFalse,
			Reason: v1beta1.ReasonNotAccepted, Message: "the class is not accepted"})
}

func (b base) writeStatus(
	ctx context.Context, class *v1beta1.StreamIngressClass, refused []v1beta1.RefusedPort, conditions ...metav1.Condition,
) error {
	next := class.DeepCopy()
	next.Status.Addresses = nil
	_, err := b.writeStatusOf(ctx, class, next, refused, conditions...)
	return err
}

// writeStatusOf writes the status that a class is to have, with these conditions, if it changed.
func (b base) writeStatusOf(
	ctx context.Context, class, next *v1beta1.StreamIngressClass, refused []v1beta1.RefusedPort, conditions ...metav1.Condition,
) (written bool, err error) {
	next.Status.ObservedGeneration = class.Generation
	next.Status.Refused = refused[:min(len(refused), maxRefused)]
	var changed []metav1.Condition
	for _, c := range conditions {
		c.ObservedGeneration = class.Generation
		before := meta.FindStatusCondition(class.Status.Conditions, c.Type)
		if before == nil || before.Status != c.Status || before.Reason != c.Reason {
			changed = append(changed, c)
		}
		report.SetCondition(&next.Status.Conditions, c)
	}
	if equality.Semantic.DeepEqual(class.Status, next.Status) {
		return false, nil
	}
	if written, err = write.ChangeStatus(ctx, b.Writer, class, next); err != nil || !written {
		return false, err
	}
	for _, c := range changed {
		report.ConditionChanged(b.Events, next, c)
	}
	return true, nil
}
