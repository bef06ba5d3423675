// Package watch decides who is looked at when something happens in the cluster, and how soon again.
package watch

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the work queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Add adds requests to a queue.
func Add(q Queue, requests []reconcile.Request) {
	for _, r := range requests {
		q.Add(r)
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
