package streams

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// A port that was refused is tried again each watch.RefusedRetry, and as soon as there may be what it waits for: a cluster IP, the name
// of its Service or of an EndpointSlice, its namespace.

// wake has ports looked at that wait for what may be there now.
func (r *forwardReconciler) wake(build *builder.Builder) *builder.Builder {
	namespace := handler.EnqueueRequestsFromMapFunc(r.waitingForNamespace)
	slices := afterLag(r.waitingForName)
	return build.
		Watches(&corev1.Service{}, r.onRoom()).
		Watches(kube.NamespaceObject(), namespace, builder.OnlyMetadata, builder.WithPredicates(replaced())).
		Watches(&discoveryv1.EndpointSlice{}, slices, builder.WithPredicates(gone()))
}

// gone leaves out all but the end of an object.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}

// replaced leaves out changes of an object that is there, and its end.
func replaced() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// onRoom wakes a port for the cluster IP of each Service that goes, and the one that waits for its name; and two for each Service that a
// port got: where one found a cluster IP, there may be more, as after a ServiceCIDR was added. What each of them meets decides whether
// others follow, so that however many wait, few ask in vain.
func (r *forwardReconciler) onRoom() handler.EventHandler {
	const forOneGone, forOneMade = 1, 2
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q watch.Queue) {
			if !e.IsInInitialList && isForwarded(e.Object) {
				watch.Add(q, r.refused.waiting(forOneMade, isExhausted))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) {
			// The API server frees the cluster IP after it has told of the end.
			for _, request := range r.refused.waiting(forOneGone, isExhausted) {
				q.AddAfter(request, watch.CacheLag)
			}
			if class, _, err := r.View.PortAt(ctx, client.ObjectKeyFromObject(e.Object)); err == nil && class != nil {
				q.Add(r.portAt(ctx, client.ObjectKeyFromObject(e.Object)))
			}
		},
	}
}

func isExhausted(_ string, p v1beta1.RefusedPort) bool {
	return p.Reason == v1beta1.ReasonClusterIPsExhausted
}

// waitingForNamespace finds the ports that could not be written to a namespace that is new.
func (r *forwardReconciler) waitingForNamespace(ctx context.Context, ns client.Object) []reconcile.Request {
	classes := r.classesWritingTo(ctx, ns.GetName())
	return r.refused.waiting(math.MaxInt, func(class string, p v1beta1.RefusedPort) bool {
		return p.Reason == v1beta1.ReasonServiceRefused && classes.Has(class)
	})
}

// waitingForName finds the ports that may wait for the name of an EndpointSlice that is gone.
func (r *forwardReconciler) waitingForName(ctx context.Context, slice client.Object) []reconcile.Request {
	classes := r.classesWritingTo(ctx, slice.GetNamespace())
	if len(classes) == 0 {
		return nil
	}
	return r.refused.waiting(math.MaxInt, func(class string, p v1beta1.RefusedPort) bool {
		return p.Reason == v1beta1.ReasonServiceNameTaken && classes.Has(class)
	})
}

// classesWritingTo are the names of the classes that have the Services of their streams in a namespace.
func (r *forwardReconciler) classesWritingTo(ctx context.Context, namespace string) sets.Set[string] {
	classes, err := r.View.Classes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the classes")
	}
	names := sets.New[string]()
	for i := range classes {
		if pool := classes[i].Spec.AddressPool; pool != nil && pool.Namespace == namespace {
			names.Insert(classes[i].Name)
		}
	}
	return names
}
