package loadbalancers

import (
	"context"
	"net/netip"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// poolReconciler says in the status of each AddressPool whether it is used, and how many of its addresses are left.
type poolReconciler struct {
	access.Access
	clock  clock.PassiveClock
	levels levels
	// wrote is when the status of a pool was last written. One worker alone uses it.
	wrote map[string]time.Time
}

// poolPace is how often at most the status of a pool is written because of its counts: their number grows with time, and
// not with the number of Services.
const poolPace = 3 * time.Second

func setupPool(mgr manager.Manager, b access.Access) error {
	r := &poolReconciler{Access: b, clock: clock.RealClock{}, levels: levels{}, wrote: map[string]time.Time{}}
	return builder.ControllerManagedBy(mgr).Named("addresspool").
		For(&v1beta1.AddressPool{}).
		WatchesRawSource(source.Func(r.onAddresses)).
		WatchesRawSource(watch.OnPools(b.View, r.allPools)).
		WithOptions(watch.Orderly[reconcile.Request](1)).
		Complete(watch.Guarded(b.View, b.Kinds, r))
}

// onAddresses looks at the pool of an address that is claimed or released.
func (r *poolReconciler) onAddresses(_ context.Context, q watch.Queue) error {
	r.View.Addresses.OnChange(func(ip netip.Addr) {
		if pool := r.View.LoadBalancers.Pools().Of(ip); pool != nil {
			q.Add(watch.ForName(pool.Name))
		}
	})
	return nil
}

// allPools are all pools: what becomes of one depends on the others.
func (r *poolReconciler) allPools(context.Context) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range r.View.LoadBalancers.Pools().Names() {
		requests = append(requests, watch.ForName(name))
	}
	return requests
}

// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=addresspools,verbs=get;list;watch
// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=addresspools/status,verbs=patch

// Reconcile brings the status of one pool up to date.
func (r *poolReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool, err := r.View.AddressPool(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if pool == nil {
		delete(r.levels, req.Name)
		delete(r.wrote, req.Name)
		return reconcile.Result{}, nil
	}
	verdict, known := r.View.LoadBalancers.Pools().Verdict(req.Name)
	if !known || !isOf(verdict, pool) {
		return reconcile.Result{RequeueAfter: watch.CacheLag}, nil // the view is about to learn of it
	}
	next := poolStatus(pool, verdict, r.count(verdict))
	if sameStatus(pool.Status, next) {
		r.warn(pool, verdict)
		return reconcile.Result{}, nil
	}
	if left := r.wrote[req.Name].Add(poolPace).Sub(r.clock.Now()); left > 0 && sameVerdict(pool.Status, next) {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if err := r.report(ctx, pool, next); err != nil {
		return watch.Later(err)
	}
	r.wrote[req.Name] = r.clock.Now()
	r.warn(pool, verdict)
	return reconcile.Result{}, nil
}

// isOf says whether a verdict is about what the cache has of a pool.
func isOf(v addresspool.Verdict, pool *v1beta1.AddressPool) bool {
	return v.UID == pool.UID && v.Generation == pool.Generation
}
