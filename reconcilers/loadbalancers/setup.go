// Package loadbalancers gives Services of type LoadBalancer addresses of the pools, and reports on the pools.
package loadbalancers

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
)

// Setup adds the reconcilers of Services of type LoadBalancer and of pools to the manager. It returns what is to be
// told which points were released. Whoever releases what such a Service holds locks it first.
func Setup(
	mgr manager.Manager, a access.Access, services *kube.KeyMutex[types.NamespacedName],
) (released func(claim.Coordinate), err error) {
	recent := newRecentClaims(clock.RealClock{})
	return recent.remove, errors.Join(setupPool(mgr, a), setupLoadBalancer(mgr, a, services, recent))
}
