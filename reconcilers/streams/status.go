package streams

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// verdict is everything that the status of a stream tells.
type verdict struct {
	class *v1beta1.StreamIngressClass
	// at is the point that the stream holds; zero when refusal says why it holds none.
	at      claim.Coordinate
	refusal refusal.Problems
	// resolved is what is wrong with the upstream.
	resolved refusal.Problems
	// programmed is the condition of that type, unless the stream is refused.
	programmed metav1.Condition
	addresses  []string
	// mirrored is what is to be mirrored, if the class has the kernel forward its ports.
	mirrored stream.Mirrored
	// previous is the door that stays open while the stream moves to another class, nil for none, and left the one that did and is
	// closed now, zero for none.
	previous *v1beta1.PreviousDoor
	left     claim.Coordinate
}

// again is when to look again without being told, 0 for never.
func (v *verdict) again(now time.Time) time.Duration {
	var closes time.Duration
	if v.previous != nil && v.previous.CloseTime != nil {
		closes = max(v.previous.CloseTime.Sub(now), time.Millisecond)
	}
	return watch.Soonest(v.retry(), closes)
}

// retry is when to try again what is not as it should be, 0 for never.
func (v *verdict) retry() time.Duration {
	for _, p := range slices.Concat(v.resolved, v.refusal) {
		if wait := retries[p.Reason]; wait > 0 {
			return wait
		}
	}
	return retries[v.programmed.Reason]
}

// retries are the reasons that may go without an event, each with when to try again.
var retries = map[string]time.Duration{
	v1beta1.ReasonBackendRefused:   watch.RefusedRetry,
	v1beta1.ReasonBackendNameTaken: watch.RefusedRetry,
	// The claim that goes wakes us up, perhaps before its port is known to be free.
	v1beta1.ReasonNoFreePort: pendingRetry,
	// Any claim of the namespace that goes may make room, and who waits for that is not looked up.
	v1beta1.ReasonNamespaceLimitReached: watch.RefusedRetry,
	v1beta1.ReasonPending:               pendingRetry,
	// What the class says of it may not have changed meanwhile.
	v1beta1.ReasonGatewayNotFound:     watch.RefusedRetry,
	v1beta1.ReasonGatewayNotServed:    watch.RefusedRetry,
	v1beta1.ReasonGatewayNotSupported: watch.RefusedRetry,
}

// newcomer is how old a stream may be, by a time stamp in whole seconds, without a word about it: more than the two seconds between the
// writes for a proxy, and more than most wait in a burst, in which a word more for each would make them wait longer.
const newcomer = 3 * time.Second

// patience is how long to wait before a stream is reported on, 0 for not at all: the proxy is told of most new ones within a
// fraction of a second, and that brings them back here, so that one write of the status says it all. One that leaves its port
// or class open is reported at once, as it keeps what it was given by its status.
func (v *verdict) patience(si *v1beta1.StreamIngress, now time.Time) time.Duration {
	leavesOpen := si.Spec.Listen == nil || si.Spec.ClassName == ""
	if leavesOpen || len(si.Status.Conditions) > 0 || len(v.refusal) > 0 || v.programmed.Reason != v1beta1.ReasonPending {
		return 0
	}
	age := now.Sub(si.CreationTimestamp.Time)
	if age < 0 { // by another clock
		return 0
	}
	return max(newcomer-age, 0)
}

// unusable are the reasons for which nothing is programmed: the upstream may not be used, or is not there and will not
// be.
var unusable = map[string]bool{
	v1beta1.ReasonRefNotPermitted:           true,
	v1beta1.ReasonProxyProtocolNotSupported: true,
	v1beta1.ReasonBackendNameTaken:          true,
	v1beta1.ReasonBackendRefused:            true,
}

// programmed finds out whether the proxy has been told about a stream that holds its point.
func (r *streamReconciler) programmed(ctx context.Context, si *v1beta1.StreamIngress, v *verdict) (metav1.Condition, error) {
	for _, p := range v.resolved {
		if unusable[p.Reason] {
			return notOpen(v1beta1.ReasonUnresolvedRefs, "the upstream may not be used, so nothing is programmed; the port stays claimed")
		}
	}
	port := stream.PortKey{Protocol: v.at.Protocol(), Port: v.at.Port()}
	refused := refusalOf(v.class, port)
	if v.class.Spec.AddressPool != nil {
		return r.forwarded(ctx, si, v, port, refused)
	}
	if v.class.Spec.Gateway != nil {
		return r.routed(ctx, si, v, port, refused)
	}
	ref := v.class.ConfigMap(port.Protocol)
	if ref == nil {
		return notOpen(v1beta1.ReasonPending, fmt.Sprintf("class %s has no ConfigMap for %s", v.class.Name, port.Protocol))
	}
	cm, err := r.View.Targets.ConfigMap(ctx, *ref)
	if err != nil {
		return metav1.Condition{}, err
	}
	current := ""
	if cm != nil {
		current = cm.Data[stream.Key(port.Port)]
	}
	entry, ok, err := r.entryFor(ctx, si, current)
	switch {
	case err != nil:
		return metav1.Condition{}, err
	case !ok:
		return notOpen(v1beta1.ReasonUnresolvedRefs, unknownPort)
	case current != entry.String() && refused != nil:
		return notOpen(refused.Reason, refused.Message)
	case current != entry.String():
		return notOpen(v1beta1.ReasonPending, aboutToBeTold(v.class))
	}
	return r.opened(ctx, v, port, refused)
}

// opened finds out whether a port whose entry stands is open on the Service of the class, or, without one, is the proxy's on the
// nodes.
func (r *streamReconciler) opened(
	ctx context.Context, v *verdict, port stream.PortKey, refused *v1beta1.RefusedPort,
) (metav1.Condition, error) {
	yes := isOpen(v.class, port)
	ref := v.class.Spec.Service
	if ref == nil {
		taken, err := kube.Decide(ctx, r.View, func(f *kube.Facts) refusal.Problems {
			return stream.FrontOf(f, v.class).Conflicts(f, v.at)
		})
		if err == nil && len(taken) > 0 {
			return notOpen(v1beta1.ReasonPortRefused, takenOnNodes(taken))
		}
		return yes, err
	}
	svc, err := r.View.Targets.Front(ctx, *ref)
	if err != nil {
		return metav1.Condition{}, err
	}
	if svc == nil {
		return notOpen(v1beta1.ReasonServiceNotFound, fmt.Sprintf(
			"the entry is written, but there is no Service %s/%s to open the port on", ref.Namespace, ref.Name))
	}
	v.addresses = addressesOf(svc)
	for _, p := range svc.Spec.Ports {
		if p.Port == port.Port && v1beta1.Protocol(p.Protocol) == port.Protocol {
			return yes, nil
		}
	}
	v.addresses = nil
	if refused != nil {
		return notOpen(refused.Reason, refused.Message)
	}
	return notOpen(v1beta1.ReasonPending, aboutToBeTold(v.class))
}

// isOpen is the condition of a stream whose port is open.
func isOpen(class *v1beta1.StreamIngressClass, port stream.PortKey) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonProgrammed,
		Message: fmt.Sprintf("%s of class %s is open", port, class.Name)}
}

// notOpen is the condition of a stream whose port is not open.
func notOpen(reason, message string) (metav1.Condition, error) {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}, nil
}

// unknownPort is told of a stream whose upstream has no port that could be led to.
const unknownPort = "the number of the upstream's port is not known, so nothing is programmed; the port stays claimed"

// maxAddresses is how many addresses the status of a stream has room for.
const maxAddresses = 64

// addressesOf are the addresses and host names at which a Service can be reached from outside.
func addressesOf(svc *corev1.Service) []string {
	var addresses []string
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		for _, address := range []string{ingress.IP, ingress.Hostname} {
			if address != "" && len(addresses) < maxAddresses {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}

// aboutToBeTold is one message for the time until the ConfigMap is written and for that until the Service is, so that a
// new stream's status is written twice at most.
func aboutToBeTold(class *v1beta1.StreamIngressClass) string {
	return fmt.Sprintf("the proxy of class %s is about to be told", class.Name)
}

// refusalOf finds out why a port could not be programmed, nil when nothing is known. The status of a class lists only the first
// of the refused ports; where it is full, what it says of the last one holds for those after it. That says neither which port
// nor how many, so that all their streams need not be told anew when one comes or goes.
func refusalOf(class *v1beta1.StreamIngressClass, port stream.PortKey) *v1beta1.RefusedPort {
	refused := class.Status.Refused
	for i := range refused {
		if portOf(refused[i]) == port {
			return &refused[i]
		}
	}
	if len(refused) < maxRefused {
		return nil
	}
	last := refused[len(refused)-1]
	if stream.ComparePorts(port, portOf(last)) < 0 {
		return nil
	}
	return &v1beta1.RefusedPort{Protocol: port.Protocol, Port: port.Port, Reason: last.Reason, Message: fmt.Sprintf(
		"class %s has more than %d ports that were refused, such as this one: %s", class.Name, maxRefused, last.Message)}
}

// conditions are the conditions of a stream, in the order in which they build on each other.
func (v *verdict) conditions() []metav1.Condition {
	accepted := metav1.Condition{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonAccepted}
	if len(v.refusal) > 0 {
		accepted = report.Failed(v.refusal)
		v.programmed = metav1.Condition{Status: metav1.ConditionFalse, Reason: v1beta1.ReasonNotAccepted,
			Message: "the request is not accepted"}
	} else {
		accepted.Message = fmt.Sprintf("%s of class %s is claimed", v.at.Point(), v.at.Class())
	}
	resolved := metav1.Condition{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonResolvedRefs, Message: "the upstream exists"}
	if len(v.resolved) > 0 {
		resolved = report.Failed(v.resolved)
	}
	if v.previous != nil {
		v.programmed.Message += "; " + staysOpen(v.previous)
	}
	accepted.Type, resolved.Type, v.programmed.Type = v1beta1.ConditionAccepted, v1beta1.ConditionResolvedRefs, v1beta1.ConditionProgrammed
	return []metav1.Condition{accepted, resolved, v.programmed}
}

// report writes the status of a stream, if it changed, and tells what changed by events. A Conflict error says that the
// stream is no longer what was judged.
func (r *streamReconciler) report(ctx context.Context, si *v1beta1.StreamIngress, v *verdict) error {
	next := si.DeepCopy()
	status := &next.Status
	status.ObservedGeneration, status.Listen, status.Addresses, status.Previous = si.Generation, v.at.Port(), v.addresses, v.previous
	if v.class != nil {
		status.ClassName = v.class.Name
	}
	if si.Status.ClassName != status.ClassName { // since when another door was open is of no matter
		meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionProgrammed)
	}
	conditions := v.conditions()
	for _, c := range conditions {
		c.ObservedGeneration = si.Generation
		report.SetCondition(&status.Conditions, c)
	}
	v.handedOver(si, status)
	if equality.Semantic.DeepEqual(si.Status, next.Status) {
		return nil
	}
	if written, err := write.ChangeStatus(ctx, r.Writer, si, next); err != nil || !written {
		return err
	}
	for _, c := range news(si.Status.Conditions, conditions) {
		report.ConditionChanged(r.Events, next, c)
		if c.Type == v1beta1.ConditionProgrammed && c.Status == metav1.ConditionTrue && v.previous == nil {
			observeProgrammed(si)
		}
	}
	if !v.left.IsZero() {
		r.tellMoved(next, v.left)
	}
	return nil
}

// handedOver has the status of a stream say that it has handed its port over, for as long as the stream says to whom, whatever it is
// refused for meanwhile.
func (v *verdict) handedOver(si *v1beta1.StreamIngress, status *v1beta1.StreamIngressStatus) {
	if _, named := claim.NamedHeir(si); !named || !v.at.IsZero() {
		meta.RemoveStatusCondition(&status.Conditions, v1beta1.ConditionHandedOver)
		return
	}
	if len(v.refusal) > 0 && v.refusal[0].Reason == v1beta1.ReasonHandedOver {
		report.SetCondition(&status.Conditions, metav1.Condition{
			Type: v1beta1.ConditionHandedOver, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonHandedOver,
			Message: v.refusal[0].Err.Detail, ObservedGeneration: si.Generation,
		})
	}
}

// news are the conditions, of all that a stream has now, that are worth an event. A port that is open is claimed: where both are new, as
// they are of most streams, one event says so. Each is a write, and a burst has many.
func news(before, now []metav1.Condition) []metav1.Condition {
	isOpened := func(c metav1.Condition) bool {
		return c.Type == v1beta1.ConditionProgrammed && c.Status == metav1.ConditionTrue
	}
	var changed []metav1.Condition
	for _, c := range now {
		if isNews(meta.FindStatusCondition(before, c.Type), c) {
			changed = append(changed, c)
		}
	}
	if !slices.ContainsFunc(changed, isOpened) {
		return changed
	}
	return slices.DeleteFunc(changed, func(c metav1.Condition) bool {
		return c.Type == v1beta1.ConditionAccepted && c.Status == metav1.ConditionTrue
	})
}

// isNews says whether a condition is worth an event. That a new stream resolves, and that it is about to be programmed,
// is what everybody expects.
func isNews(before *metav1.Condition, now metav1.Condition) bool {
	if before != nil {
		return before.Status != now.Status || before.Reason != now.Reason
	}
	return now.Type != v1beta1.ConditionResolvedRefs && now.Reason != v1beta1.ReasonPending && now.Reason != v1beta1.ReasonNotAccepted ||
		now.Type == v1beta1.ConditionResolvedRefs && now.Status == metav1.ConditionFalse
}
