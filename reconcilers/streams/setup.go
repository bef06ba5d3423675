// Package streams opens what StreamIngresses ask for: it writes the ConfigMaps and the Service of each
// class, or listeners and a route, or a Service for each stream, and reports on all of them.
package streams

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
)

// Setup adds the reconcilers of streams and of their classes to the manager.
// holders locks each holder of addresses, and ports each port of a class without a proxy.
func Setup(
	mgr manager.Manager, a access.Access, holders *kube.KeyMutex[types.NamespacedName], ports *kube.KeyMutex[claim.Coordinate],
) error {
	registerMetrics(mgr.GetCache(), a.View.Gateways)
	b := base{a, newLeftovers(clock.RealClock{}, a.Ledger.Grace)}
	refused := newRefusedDoors()
	return errors.Join(
		setupClass(mgr, b, refused, holders), setupForward(mgr, b, refused, ports), setupRoutes(mgr, b, refused, ports),
		setupFormer(mgr, b), setupFormerListeners(mgr, b), setupStream(mgr, b), setupOrphan(mgr, b))
}
