// Package watch decides who is looked at when something happens in the cluster, and how soon again.
package watch

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the work queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Add adds requests to a queue.
func Add[request comparable](q workqueue.TypedRateLimitingInterface[request], requests []request) {
	for _, r := range requests {
		q.Add(r)
	}
}

// OnChanges looks at each change of an object: before is nil for one that has come, and after for one that is gone.
func OnChanges[kind client.Object](look func(ctx context.Context, q Queue, before, after kind)) handler.EventHandler {
	var none kind
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q Queue) { look(ctx, q, none, e.Object.(kind)) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q Queue) {
			look(ctx, q, e.ObjectOld.(kind), e.ObjectNew.(kind))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q Queue) { look(ctx, q, e.Object.(kind), none) },
	}
}

// ForObject asks for a look at an object.
func ForObject(obj client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
}

// ForName asks for a look at an object without a namespace.
func ForName(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}
