package guards

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// gather is how long a look at a Gateway waits for others of its listeners to change: a look is at all of them.
const gather = 250 * time.Millisecond

// onChange has a look come for all that find finds of an object that comes or goes, or of one that changes so that it matters, as it was
// and as it is.
func onChange(
	find func(context.Context, client.Object) []reconcile.Request, matters func(before, now client.Object) bool,
) handler.EventHandler {
	look := func(ctx context.Context, q watch.Queue, objs ...client.Object) {
		for _, obj := range objs {
			for _, req := range find(ctx, obj) {
				q.AddAfter(req, gather)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q watch.Queue) { look(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			if matters(e.ObjectOld, e.ObjectNew) {
				look(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) { look(ctx, q, e.Object) },
	}
}

// onClaimGone has a look come for all that find finds of a claim that is gone, or somebody else's, or no longer promised to whom it was:
// then whom the holder names by now may have it. find is given the claim as it was, and its point.
func onClaimGone(find func(context.Context, *v1beta1.EdgeClaim, claim.Coordinate) []reconcile.Request) handler.EventHandler {
	look := func(ctx context.Context, was client.Object, q watch.Queue) {
		c := was.(*v1beta1.EdgeClaim)
		at, err := claim.Of(c)
		if err != nil {
			return
		}
		for _, req := range find(ctx, c, at) {
			q.AddAfter(req, gather)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			before, now := e.ObjectOld.(*v1beta1.EdgeClaim), e.ObjectNew.(*v1beta1.EdgeClaim)
			if claim.HolderOf(before) != claim.HolderOf(now) || before.Spec.Heir != nil && now.Spec.Heir == nil {
				look(ctx, before, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) { look(ctx, e.Object, q) },
	}
}

// onGateway looks at a Gateway, but not at what its controller says of it, other than its addresses.
func (r *gatewayReconciler) onGateway() handler.EventHandler {
	look := func(obj client.Object, q watch.Queue) { q.AddAfter(watch.ForObject(obj), gather) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q watch.Queue) { look(e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			before, after := e.ObjectOld.(*gatewayv1.Gateway), e.ObjectNew.(*gatewayv1.Gateway)
			if !sameAddresses(before, after) { // who else has an address in common meets it elsewhere
				watch.Add(q, r.everyGateway(ctx))
			}
			if before.Generation != after.Generation || before.UID != after.UID {
				look(after, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) {
			look(e.Object, q)
			watch.Add(q, r.everyGateway(ctx))
		},
	}
}

func sameAddresses(a, b *gatewayv1.Gateway) bool {
	return slices.EqualFunc(a.Status.Addresses, b.Status.Addresses, func(x, y gatewayv1.GatewayStatusAddress) bool {
		return x.Value == y.Value
	})
}

// onListenerSet looks at the Gateway of a ListenerSet, unless there is nothing to do for that one, as for most: a look is at all of them.
func (r *gatewayReconciler) onListenerSet() handler.EventHandler {
	look := func(obj client.Object, q watch.Queue) {
		q.AddAfter(reconcile.Request{NamespacedName: kube.GatewayOf(obj.(*gatewayv1.ListenerSet))}, gather)
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q watch.Queue) {
			if r.losers.any() || !r.isSettled(ctx, e.Object.(*gatewayv1.ListenerSet)) {
				look(e.Object, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			if e.ObjectOld.GetGeneration() == e.ObjectNew.GetGeneration() && e.ObjectOld.GetUID() == e.ObjectNew.GetUID() {
				return
			}
			if r.losers.any() || !r.isSettled(ctx, e.ObjectNew.(*gatewayv1.ListenerSet)) {
				look(e.ObjectOld, q)
				look(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q watch.Queue) {
			if r.losers.any() { // of whom it may have been one
				look(e.Object, q)
			}
		},
	}
}

// isSettled says whether the ledger has all that a ListenerSet listens on.
func (r *gatewayReconciler) isSettled(ctx context.Context, set *gatewayv1.ListenerSet) bool {
	own, errOwn := r.View.Gateways.IsOwn(ctx, set)
	gateway, err := r.View.Gateways.AttachedTo(ctx, set)
	if own || err != nil || errOwn != nil || gateway == nil {
		return err == nil && errOwn == nil
	}
	opener := guard.OfListenerSet(set, client.ObjectKeyFromObject(gateway))
	enter, lost, err := r.settle(ctx, gateway, opener)
	return err == nil && len(enter)+len(lost) == 0
}

// ofClaim asks for a look at the Gateway on which a claim is gone, where that concerns anybody: who has lost may have the point by now, and
// who still listens there is to have it again.
func (r *gatewayReconciler) ofClaim(ctx context.Context, _ *v1beta1.EdgeClaim, at claim.Coordinate) []reconcile.Request {
	switch {
	case at.IsListener() && (r.losers.any() || r.stands(ctx, at)): // any may have an address in common with its Gateway
		return append(r.everyGateway(ctx), reconcile.Request{NamespacedName: at.Gateway()})
	case at.IsStream() && r.losers.any():
		if class, err := r.View.Class(ctx, at.Class()); err == nil && class != nil {
			return r.gatewaysOfClass(ctx, class)
		}
	}
	return nil
}

// stands says whether anybody listens at a point, or where nobody can be beside it.
func (r *gatewayReconciler) stands(ctx context.Context, at claim.Coordinate) bool {
	stands, err := kube.Decide(ctx, r.View, func(f *kube.Facts) bool {
		return slices.ContainsFunc(append(at.InTheWay(), at), func(point claim.Coordinate) bool { return len(f.Standing(point)) > 0 })
	})
	return err != nil || stands
}

// everyGateway asks for a look at all Gateways.
func (r *gatewayReconciler) everyGateway(ctx context.Context) []reconcile.Request {
	gateways, err := r.View.Gateways.All(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list Gateways")
	}
	requests := make([]reconcile.Request, 0, len(gateways))
	for i := range gateways {
		requests = append(requests, watch.ForObject(&gateways[i]))
	}
	return requests
}

// gatewaysOfClass asks for a look at the Gateway of a class: streams of the class may have come before others.
func (r *gatewayReconciler) gatewaysOfClass(_ context.Context, obj client.Object) []reconcile.Request {
	ref := obj.(*v1beta1.StreamIngressClass).Spec.Gateway
	if ref == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}}}
}

// gatewaysThatSelect asks for a look at the Gateways that let ListenerSets attach by the labels of their namespace, when such labels have
// changed.
func (r *gatewayReconciler) gatewaysThatSelect(ctx context.Context, _ client.Object) (selecting []reconcile.Request) {
	for _, req := range r.everyGateway(ctx) {
		if r.View.Gateways.Selects(ctx, req.NamespacedName) {
			selecting = append(selecting, req)
		}
	}
	return selecting
}
