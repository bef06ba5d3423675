package streams

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// A port that was refused is tried again each watch.RefusedRetry, and as soon as there may be what it waits for: a cluster IP or a
// node port, the name of its Service or of an EndpointSlice, its namespace.

// onRoom wakes a port for the cluster IP, or the node port, of each Service that goes, and the one that waits for its name; and two for
// each Service that a port got: where one found a cluster IP, there may be more, as after a ServiceCIDR was added. What each of them
// meets decides whether others follow, so that however many wait, few ask in vain. That a Service is one of ours is told by its name: by
// what it says, anybody could wake ports at will.
func (r *forwardReconciler) onRoom() handler.EventHandler {
	const forOneGone, forOneMade = 1, 2
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q watch.Queue) {
			if !e.IsInInitialList && r.isOfPort(ctx, e.Object) {
				watch.Add(q, r.refused.waiting(forOneMade, isExhausted))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) {
			if ip := e.Object.(*corev1.Service).Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
				for _, request := range r.refused.waiting(forOneGone, isExhausted) {
					q.AddAfter(request, watch.CacheLag) // the API server frees a cluster IP after it has told of the end
				}
			}
			if r.isOfPort(ctx, e.Object) {
				q.Add(r.portAt(ctx, client.ObjectKeyFromObject(e.Object)))
			}
		},
	}
}

// isOfPort says whether an object has the name that the Service of a port has.
func (r *forwardReconciler) isOfPort(ctx context.Context, svc client.Object) bool {
	class, _, err := r.View.PortAt(ctx, client.ObjectKeyFromObject(svc))
	return err == nil && class != nil
}

// isExhausted says whether a port waits for what the cluster has none left of.
func isExhausted(_ string, p v1beta1.RefusedPort) bool {
	return p.Reason == v1beta1.ReasonClusterIPsExhausted || p.Reason == v1beta1.ReasonNodePortsExhausted
}

// onNamespace wakes the ports that could not be written to a namespace when one of that name is made.
func (r *forwardReconciler) onNamespace() handler.EventHandler {
	return handler.Funcs{CreateFunc: func(ctx context.Context, e event.CreateEvent, q watch.Queue) {
		watch.Add(q, r.waitingIn(ctx, e.Object.GetName(), v1beta1.ReasonServiceRefused))
	}}
}

// onFreeName wakes the ports that may wait for the name of an EndpointSlice when that is gone.
func (r *forwardReconciler) onFreeName() handler.EventHandler {
	return handler.Funcs{DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) {
		watch.Add(q, r.waitingIn(ctx, e.Object.GetNamespace(), v1beta1.ReasonServiceNameTaken))
	}}
}

// waitingIn finds the ports that were refused for a reason, of the classes that have the Services of their streams in a namespace.
func (r *forwardReconciler) waitingIn(ctx context.Context, namespace, reason string) []reconcile.Request {
	names := sets.New[string]()
	for _, class := range r.classes(ctx) {
		if pool := class.Spec.AddressPool; pool != nil && pool.Namespace == namespace {
			names.Insert(class.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return r.refused.waiting(math.MaxInt, func(class string, p v1beta1.RefusedPort) bool {
		return p.Reason == reason && names.Has(class)
	})
}
