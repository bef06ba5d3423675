package watch

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// BackOff says how long to wait before a look that failed is tried again. The longest wait is what a user has to bear
// after an outage is over.
func BackOff[request comparable]() workqueue.TypedRateLimiter[request] {
	const shortest, longest = 5 * time.Millisecond, 30 * time.Second
	return workqueue.NewTypedItemExponentialFailureRateLimiter[request](shortest, longest)
}

// CacheLag is how long a cache is given to show what somebody else has written meanwhile.
const CacheLag = 100 * time.Millisecond

// Later ends a reconciliation. One that met a version it had not seen is done again when the cache shows it.
func Later(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: CacheLag}, nil
	}
	return reconcile.Result{}, err
}

// Soonest is the shortest of some waits, of which 0 is none.
func Soonest(waits ...time.Duration) (soonest time.Duration) {
	for _, wait := range waits {
		if wait > 0 && (soonest == 0 || wait < soonest) {
			soonest = wait
		}
	}
	return soonest
}

// RefusedRetry is how long the API server's refusal of a port or a ConfigMap is left alone before it is tried again.
const RefusedRetry = time.Minute
