package streams

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// routed finds out whether a stream that holds its point is open on the Gateway of its class: what we have written, and then what the
// controller of the Gateway says.
func (r *streamReconciler) routed(
	ctx context.Context, si *v1beta1.StreamIngress, v *verdict, port stream.PortKey, refused *v1beta1.RefusedPort,
) (metav1.Condition, error) {
	state, err := r.View.Gateways.State(ctx, v.class)
	if err != nil {
		return metav1.Condition{}, err
	}
	if len(state.Unread) > 0 {
		return metav1.Condition{}, &kube.UnreadError{Kind: state.Unread[0]}
	}
	if problems := state.Problems(v.class); len(problems) > 0 {
		return notOpen(problems[0].Reason, problems[0].Err.Detail)
	}
	if refused != nil {
		return notOpen(refused.Reason, refused.Message)
	}
	number, err := r.backendPort(ctx, si)
	if err != nil {
		return metav1.Condition{}, err
	}
	if number == 0 {
		return notOpen(v1beta1.ReasonUnresolvedRefs, unknownPort)
	}
	d, err := r.gatewayDoor(ctx, si, v, port, number, state.Class.Spec.ControllerName)
	if err != nil {
		return metav1.Condition{}, err
	}
	if d == nil {
		return notOpen(v1beta1.ReasonPending, "the controller of the Gateway is about to be told")
	}
	if len(v.resolved) == 0 {
		v.resolved = d.Resolved(si)
	}
	condition, isProgrammed := d.Programmed(func() string {
		by, ok, err := r.View.Gateways.Foreign(ctx, v.class, port)
		if err != nil || !ok {
			return ""
		}
		return by.String()
	})
	if !isProgrammed {
		return condition, nil
	}
	v.addresses = gatewayAddresses(state.Gateway)
	if len(v.addresses) == 0 {
		return notOpen(v1beta1.ReasonNoAddress, "the listener is programmed, and its Gateway has no address yet")
	}
	return isOpen(v.class, port), nil
}

// gatewayDoor is what the controller of a Gateway has been told of a port, and says of it, nil while it has not been told all.
func (r *streamReconciler) gatewayDoor(
	ctx context.Context, si *v1beta1.StreamIngress, v *verdict, port stream.PortKey, number int32, controller gatewayv1.GatewayController,
) (*stream.GatewayDoor, error) {
	set, err := r.View.Gateways.ListenerSetOf(ctx, v.class, v.at)
	if err != nil || set == nil {
		return nil, err
	}
	route, err := r.View.Gateways.Route(ctx, port.Protocol, kube.RouteKey(v.at, si.UpstreamNamespace()))
	if err != nil || route == nil || !kube.IsRoute(route) || route.GetDeletionTimestamp() != nil {
		return nil, err
	}
	if !routeOf(si, v.at, set, number).IsWritten(route) {
		return nil, nil
	}
	before := meta.FindStatusCondition(si.Status.Conditions, v1beta1.ConditionProgrammed)
	return &stream.GatewayDoor{
		Port: port, Set: set, Parent: stream.ParentOf(route, client.ObjectKeyFromObject(set), port, controller),
		Generation: route.GetGeneration(),
		WasOpen:    before != nil && before.Status == metav1.ConditionTrue && before.ObservedGeneration == si.Generation,
	}, nil
}

// gatewayAddresses are the addresses and host names of a Gateway.
func gatewayAddresses(gateway *gatewayv1.Gateway) []string {
	var addresses []string
	for _, address := range gateway.Status.Addresses {
		if address.Value != "" && len(addresses) < maxAddresses {
			addresses = append(addresses, address.Value)
		}
	}
	return addresses
}

// onGateways is a source of events of a kind of the Gateway API. Once that is read, the status of each class is written, which brings its
// streams.
func onGateways(mgr manager.Manager, b base, kind client.Object, h handler.EventHandler) source.Source {
	return watch.OnGateways(mgr, b.View, kind, h, watch.Nobody[reconcile.Request])
}

// onListenerSet looks at the streams of those ports of a ListenerSet of which something else is said than before.
func (r *streamReconciler) onListenerSet() handler.EventHandler {
	type said struct {
		Entry  *gatewayv1.ListenerEntry
		Status *gatewayv1.ListenerEntryStatus
	}
	of := func(set *gatewayv1.ListenerSet, at claim.Coordinate) (s said) {
		name := gatewayv1.SectionName(stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}.Name())
		for i := range set.Spec.Listeners {
			if set.Spec.Listeners[i].Name == name {
				s.Entry = &set.Spec.Listeners[i]
			}
		}
		for i := range set.Status.Listeners {
			if set.Status.Listeners[i].Name == name {
				status := set.Status.Listeners[i].DeepCopy()
				for c := range status.Conditions { // when it was said counts for nothing
					status.Conditions[c].ObservedGeneration, status.Conditions[c].LastTransitionTime = 0, metav1.Time{}
				}
				status.AttachedRoutes = 0
				s.Status = status
			}
		}
		return s
	}
	return watch.OnChanges(func(ctx context.Context, q watch.Queue, before, after *gatewayv1.ListenerSet) {
		isWhole := before == nil || after == nil || !equality.Semantic.DeepEqual(conditionsSaid(before), conditionsSaid(after))
		for _, set := range []*gatewayv1.ListenerSet{before, after} {
			if set == nil {
				continue
			}
			for _, at := range r.View.ListenersHere(ctx, set) {
				if isWhole || !equality.Semantic.DeepEqual(of(before, at), of(after, at)) {
					watch.Add(q, r.streamAt(ctx, at))
				}
			}
		}
	})
}

// conditionsSaid are the conditions of a ListenerSet as a whole, but for when they were said.
func conditionsSaid(set *gatewayv1.ListenerSet) map[string]string {
	said := map[string]string{}
	for _, c := range set.Status.Conditions {
		said[c.Type] = string(c.Status) + c.Reason + c.Message
	}
	return said
}

// streamAt finds the stream that holds a port.
func (r *streamReconciler) streamAt(ctx context.Context, at claim.Coordinate) []reconcile.Request {
	c, err := r.View.Claim(ctx, at.Name())
	if err != nil {
		log.FromContext(ctx).Error(err, "could not read the claim on a port", "port", at)
	}
	return streamHolding(c)
}

// streamHolding is the stream that holds a claim, if there is one.
func streamHolding(c *v1beta1.EdgeClaim) []reconcile.Request {
	if c == nil || !claim.HolderOf(c).IsStream() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: claim.HolderOf(c).Key()}}
}

// streamOfRoute finds the stream whose port a route is for.
func (r *streamReconciler) streamOfRoute(ctx context.Context, route client.Object) []reconcile.Request {
	c, err := r.View.RoutedBy(ctx, route)
	if err != nil {
		return nil
	}
	return streamHolding(c)
}

// onGateway looks at the streams of a Gateway that has other addresses, or has come or gone. What its class says brings the others.
func (r *streamReconciler) onGateway() handler.EventHandler {
	return watch.OnChanges(func(ctx context.Context, q watch.Queue, before, after *gatewayv1.Gateway) {
		if before != nil && after != nil && equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses) {
			return
		}
		key := client.ObjectKeyFromObject(cmp.Or(after, before))
		for _, class := range r.classesWith(ctx, func(gateway types.NamespacedName) bool { return gateway == key }) {
			watch.Add(q, requestsFor(r.streams(ctx, ofClass(class.Name))))
		}
	})
}
