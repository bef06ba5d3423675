// Package loadbalancers gives Services of type LoadBalancer addresses of the pools, and reports on the pools.
package loadbalancers

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
)

// Setup adds the reconcilers of Services of type LoadBalancer and of pools to the manager. Whoever releases what such a Service
// holds locks it first. handOverWait is how long a Service stays listed at an address that it has handed over, while its heir is not.
func Setup(mgr manager.Manager, a access.Access, services *kube.KeyMutex[types.NamespacedName], handOverWait time.Duration) error {
	return errors.Join(setupPool(mgr, a), setupLoadBalancer(mgr, a, services, handOverWait))
}
