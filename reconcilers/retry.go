package reconcilers

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// backOff says how long to wait before a look that failed is tried again. The longest wait is what a user has to bear
// after an outage is over.
func backOff[request comparable]() workqueue.TypedRateLimiter[request] {
	const shortest, longest = 5 * time.Millisecond, 30 * time.Second
	return workqueue.NewTypedItemExponentialFailureRateLimiter[request](shortest, longest)
}

// cacheLag is how long a cache is given to show what somebody else has written meanwhile.
const cacheLag = 100 * time.Millisecond

// later ends a reconciliation. One that met a version it had not seen is done again when the cache shows it.
func later(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: cacheLag}, nil
	}
	return reconcile.Result{}, err
}
