// Package watch decides who is looked at when something happens in the cluster, and how soon again.
package reconcilers

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queue is the work queue of a controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// add adds requests to a queue.
func add(q queue, requests []reconcile.Request) {
	for _, r := range requests {
		q.Add(r)
	}
}

// forObject asks for a look at an object.
func forObject(obj client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
}

// forName asks for a look at an object without a namespace.
func forName(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}
