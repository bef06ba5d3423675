package streams

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// orphanReconciler deletes the EndpointSlices of outside upstreams that have lost their stream. Whoever deletes a stream can ask
// the garbage collector to orphan what it had (propagationPolicy: Orphan): the stream is then taken off the owners of the Service
// and the EndpointSlice, and both stay. Tenants can't write EndpointSlices, so that one to any address is not to be theirs for
// good.
//
// The Service stays: it is its namespace's then, and leads nowhere without the EndpointSlice. What a stream that is gone still
// owns is left to the garbage collector.
type orphanReconciler struct {
	base
}

func setupOrphan(mgr manager.Manager, b base) error {
	return builder.ControllerManagedBy(mgr).Named("orphanedendpointslice").
		For(&discoveryv1.EndpointSlice{}, builder.WithPredicates(predicate.NewPredicateFuncs(isOrphaned))).
		WithOptions(watch.Orderly[reconcile.Request](1)).
		Complete(watch.Guarded(b.View, b.Kinds, &orphanReconciler{base: b}))
}

// isOrphaned says whether an EndpointSlice is one of ours, which all have a stream that controls them, and has none. Tenants
// can't write its owners.
func isOrphaned(slice client.Object) bool {
	return kube.IsOwnSlice(slice) && metav1.GetControllerOfNoCopy(slice) == nil
}

// Reconcile deletes one EndpointSlice, if it is orphaned. A stream of the same name makes its own.
func (r *orphanReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	slice := &discoveryv1.EndpointSlice{}
	if err := r.View.Reader.Get(ctx, req.NamespacedName, slice); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !isOrphaned(slice) {
		return reconcile.Result{}, nil
	}
	return watch.Later(write.RemoveUnchanged(ctx, r.Writer, slice))
}
