package streams

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// classesOfGateway finds the classes that a Gateway serves, and those whose Gateways have an address in common with it.
func (r *classReconciler) classesOfGateway(ctx context.Context, obj client.Object) []reconcile.Request {
	gateway := obj.(*gatewayv1.Gateway)
	name := v1beta1.ObjectReference{Namespace: gateway.Namespace, Name: gateway.Name}
	addresses := stream.GatewayAddresses(gateway)
	return requestsFor(slices.DeleteFunc(r.classes(ctx), func(class v1beta1.StreamIngressClass) bool {
		ref := class.Spec.Gateway
		isShared := func(ip string) bool { return slices.Contains(class.Status.Addresses, ip) }
		return ref == nil || *ref != name && !slices.ContainsFunc(addresses, isShared)
	}))
}

// isEarly says whether a claim on a port of a class with a Gateway is that of a stream which is yet to be stored: its coming asks for a
// look. One for the claim alone would find nothing to write, and the one for the stream wait behind it.
func (r *classReconciler) isEarly(ctx context.Context, c *v1beta1.EdgeClaim) bool {
	at, err := claim.Parse(c.Name)
	if err != nil || !at.IsStream() || !claim.HolderOf(c).IsStream() {
		return false
	}
	class, err := r.View.Class(ctx, at.Class())
	if err != nil || class == nil || class.Spec.Gateway == nil {
		return false
	}
	si, err := r.View.Streams.Get(ctx, claim.HolderOf(c).Key())
	return err == nil && si == nil
}

// classesSelecting finds the classes whose Gateways let ListenerSets attach by the labels of their namespace.
func (r *classReconciler) classesSelecting(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.classesWith(ctx, func(gateway types.NamespacedName) bool { return r.View.Gateways.Selects(ctx, gateway) })
}

// addressesChanged leaves out what is not about the addresses of a class.
func addressesChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*v1beta1.StreamIngressClass), e.ObjectNew.(*v1beta1.StreamIngressClass)
			return !slices.Equal(before.Status.Addresses, after.Status.Addresses)
		},
	}
}

// classesOfGateways finds all classes with a Gateway.
func (r *classReconciler) classesOfGateways(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.classesWith(ctx, func(types.NamespacedName) bool { return true })
}

// onGateways is a source of events of a kind of the Gateway API. Once that is read, all classes are looked at.
func (r *classReconciler) onGateways(mgr manager.Manager, kind client.Object, h handler.EventHandler) source.Source {
	return watch.OnGateways(mgr, r.View, kind, h, r.everyClass)
}

func (b base) classesWith(ctx context.Context, isMeant func(gateway types.NamespacedName) bool) []reconcile.Request {
	return requestsFor(slices.DeleteFunc(b.classes(ctx), func(class v1beta1.StreamIngressClass) bool {
		ref := class.Spec.Gateway
		return ref == nil || !isMeant(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	}))
}

// classesOfSet finds the class whose listeners a ListenerSet has, and, for one that is foreign, the classes of its Gateway.
func (r *classReconciler) classesOfSet(ctx context.Context, obj client.Object) []reconcile.Request {
	set := obj.(*gatewayv1.ListenerSet)
	var requests []reconcile.Request
	if kube.IsListenerSet(set) {
		class, err := r.View.Class(ctx, set.Labels[v1beta1.LabelClass])
		if err == nil && class != nil && kube.IsHere(class, set) { // anybody can make one look like it elsewhere
			requests = append(requests, watch.ForName(class.Name))
		}
	}
	of, err := r.View.Gateways.AttachedTo(ctx, set)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not read the Gateway of a ListenerSet", "listenerSet", client.ObjectKeyFromObject(set))
	}
	if of == nil { // anybody can write one that names any Gateway
		return requests
	}
	return append(requests, r.classesOfGateway(ctx, of)...)
}

// classOfRoute finds the class that a route of ours was written for.
func (r *classReconciler) classOfRoute(ctx context.Context, route client.Object) []reconcile.Request {
	at, ok := kube.PortOfRoute(route)
	if !ok {
		return nil
	}
	c, err := r.View.Claim(ctx, at.Name())
	if err != nil || c != nil && !slices.Contains(c.Spec.RouteNamespaces, route.GetNamespace()) { // anybody can make one look like it
		return nil
	}
	return []reconcile.Request{watch.ForName(at.Class())}
}

// onListeners looks at the classes of a ListenerSet that has come or gone, or says something else: what its controller says of it is for
// its streams.
func onListeners(find handler.MapFunc) handler.EventHandler {
	all := handler.EnqueueRequestsFromMapFunc(find)
	changed := func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
		before, after := e.ObjectOld.(*gatewayv1.ListenerSet), e.ObjectNew.(*gatewayv1.ListenerSet)
		if before.Generation != after.Generation || before.UID != after.UID || !maps.Equal(before.Labels, after.Labels) ||
			!kube.IsListenerSet(after) {
			all.Update(ctx, e, q)
		}
	}
	return handler.Funcs{CreateFunc: all.Create, UpdateFunc: changed, DeleteFunc: all.Delete}
}

// onEnd looks at whom an object concerns that is about to go, or is gone.
func onEnd(find handler.MapFunc) handler.EventHandler {
	all := handler.EnqueueRequestsFromMapFunc(find)
	goes := func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
		before, after := e.ObjectOld, e.ObjectNew
		if before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil || before.GetUID() != after.GetUID() {
			all.Update(ctx, e, q)
		}
	}
	return handler.Funcs{UpdateFunc: goes, DeleteFunc: all.Delete}
}
