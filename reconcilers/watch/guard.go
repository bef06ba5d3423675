package watch

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/internal/kube"
)

// UninstalledRetry is how long everything is left as it is before it is asked again whether Portcullis is being
// uninstalled. Nothing else tells that it is installed again.
const UninstalledRetry = 10 * time.Second

// guard keeps a reconciler from taking for absent what it does not see.
//
// At the start, it waits until all that was there has been read and entered where it is looked up: without pools, no address
// is anybody's. Kinds that are installed later need no waiting for here: a read of such a kind waits until all of it has
// been read.
//
// While Portcullis is being uninstalled, it rests: what fails then, as kinds and roles are gone, is no error.
type guard[request comparable] struct {
	reconcile.TypedReconciler[request]
	view  *kube.View
	kinds *kube.Kinds
}

// Guarded has a reconciler rest as guard says.
func Guarded[request comparable](
	view *kube.View, kinds *kube.Kinds, r reconcile.TypedReconciler[request],
) reconcile.TypedReconciler[request] {
	return guard[request]{r, view, kinds}
}

// Reconcile implements reconcile.TypedReconciler.
func (r guard[request]) Reconcile(ctx context.Context, req request) (reconcile.Result, error) {
	if err := r.view.AwaitSync(ctx); err != nil {
		return reconcile.Result{}, err
	}
	result, err := r.TypedReconciler.Reconcile(ctx, req)
	if err == nil || ctx.Err() != nil {
		return result, err
	}
	var uninstalling *kube.UninstallingError
	if _, why := r.kinds.Check(ctx); errors.As(why, &uninstalling) {
		return reconcile.Result{RequeueAfter: UninstalledRetry}, nil
	}
	return result, err
}
