package streams

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// formerListenersReconciler takes out ListenerSets that bear the label of a class, and are not where those of the class are: it is gone, or
// its Gateway is in another namespace, or it has none. They go as the routes do that lead from them. The unit of work is the ListenerSet:
// tenants can make some that look so, and then nothing but these is looked at, in the turn of their namespace.
type formerListenersReconciler struct {
	base
}

// formerWorkers is how many ListenerSets are taken out at a time.
const formerWorkers = 4

func setupFormerListeners(mgr manager.Manager, b base) error {
	r := &formerListenersReconciler{base: b}
	return builder.ControllerManagedBy(mgr).Named("formerlistenerset").
		Watches(&v1beta1.StreamIngressClass{}, handler.EnqueueRequestsFromMapFunc(r.setsOf),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(watch.OnGateways(mgr, b.View, &gatewayv1.ListenerSet{}, handler.EnqueueRequestsFromMapFunc(r.ifFormer), r.everySet)).
		WatchesRawSource(watch.OnGateways(mgr, b.View, &gatewayv1.TCPRoute{}, onEnd(r.setOfRoute), r.everySet)).
		WatchesRawSource(watch.OnGateways(mgr, b.View, &gatewayv1.UDPRoute{}, onEnd(r.setOfRoute), r.everySet)).
		WithOptions(watch.Fairly(formerWorkers, func(req reconcile.Request) string { return req.Namespace })).
		Complete(watch.Guarded(b.View, b.Kinds, r))
}

// Reconcile takes out what may go of one ListenerSet, if it is not where those of its class are.
func (r *formerListenersReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	set := &gatewayv1.ListenerSet{}
	if err := r.View.Reader.Get(ctx, req.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if is, err := r.isFormer(ctx, set); !is || err != nil {
		return reconcile.Result{}, err
	}
	stored := stream.StoredSetOf(set, gatewayOf(set))
	kept, again, err := r.standing(ctx, set, stored.Listeners)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case len(kept) == 0:
		err = write.RemoveUnchanged(ctx, r.Writer, set)
	case len(kept) < len(set.Spec.Listeners):
		next := set.DeepCopy()
		next.Spec = stream.ListenerSetSpec(gatewayOf(set), kept)
		err = write.Change(ctx, r.Writer, set, next)
	}
	if err != nil {
		return watch.Later(err)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// gatewayOf is the Gateway that a ListenerSet names.
func gatewayOf(set *gatewayv1.ListenerSet) v1beta1.ObjectReference {
	gateway := kube.GatewayOf(set)
	return v1beta1.ObjectReference{Namespace: gateway.Namespace, Name: gateway.Name}
}

// isFormer says whether a ListenerSet looks like one of ours, and is not where those of its class are.
func (b base) isFormer(ctx context.Context, set *gatewayv1.ListenerSet) (bool, error) {
	if !kube.IsListenerSet(set) || set.DeletionTimestamp != nil {
		return false, nil
	}
	class, err := b.View.Class(ctx, set.Labels[v1beta1.LabelClass])
	return class == nil || !kube.IsHere(class, set), err
}

func (r *formerListenersReconciler) ifFormer(ctx context.Context, obj client.Object) []reconcile.Request {
	if is, err := r.isFormer(ctx, obj.(*gatewayv1.ListenerSet)); !is || err != nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
}

// setsOf finds the ListenerSets that bear the label of a class, of all for "", and are not where its are.
func (r *formerListenersReconciler) setsOf(ctx context.Context, class client.Object) []reconcile.Request {
	sets, err := r.View.Gateways.ListenerSets(ctx, class.GetName())
	if err != nil && !kube.IsUnread(err) { // once they are read, all are looked at
		log.FromContext(ctx).Error(err, "could not list the ListenerSets of a class")
	}
	return forEach(ctx, sets, r.ifFormer)
}

func (r *formerListenersReconciler) everySet(ctx context.Context) []reconcile.Request {
	return r.setsOf(ctx, &v1beta1.StreamIngressClass{})
}

// setOfRoute finds the ListenerSet that a route of ours leads from.
func (r *formerListenersReconciler) setOfRoute(_ context.Context, route client.Object) []reconcile.Request {
	if _, ok := kube.PortOfRoute(route); !ok {
		return nil
	}
	var requests []reconcile.Request
	for _, parent := range stream.SetsOf(route) {
		requests = append(requests, reconcile.Request{NamespacedName: parent})
	}
	return requests
}

// standing are those listeners of a ListenerSet, of some that nobody wants, that have to stay for a while. again is when to look again, 0
// for never.
func (b base) standing(
	ctx context.Context, set *gatewayv1.ListenerSet, unwanted []stream.Listener,
) (kept []stream.Listener, again time.Duration, err error) {
	if len(unwanted) == 0 {
		return nil, 0, nil
	}
	if keep, err := b.mayClose(ctx, set); err != nil || keep > 0 {
		return unwanted, keep, err
	}
	for _, l := range unwanted {
		at := claim.Stream(set.Labels[v1beta1.LabelClass], l.Port.Protocol, l.Port.Port)
		route, err := b.View.Gateways.Route(ctx, l.Port.Protocol, kube.RouteKey(at, l.Namespace))
		if err != nil {
			return nil, 0, err
		}
		if route == nil || !stream.LeadsFrom(route, client.ObjectKeyFromObject(set), l.Port) {
			continue
		}
		settled, err := b.isSettled(ctx, route)
		if err != nil {
			return nil, 0, err
		}
		if settled {
			kept, again = append(kept, l), settles // its end brings it back here before
		}
	}
	return kept, again, nil
}

// settles is how old a route is that a listener waits for. One that is taken out, and comes again and again, keeps none.
const settles = 10 * time.Second

// isSettled says whether a route is one that Portcullis has made, for longer than a moment, and is yet to take out. One that is being
// deleted, and kept by a finalizer, is closed by its listener.
func (b base) isSettled(ctx context.Context, route client.Object) (bool, error) {
	if route.GetDeletionTimestamp() != nil || time.Since(route.GetCreationTimestamp().Time) <= settles {
		return false, nil
	}
	c, err := b.View.RoutedBy(ctx, route)
	return c != nil, err
}
