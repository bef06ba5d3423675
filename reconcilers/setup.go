// Package reconcilers makes the world look like what was granted: the ConfigMaps and the Service of each class, the
// status of each stream, the Ingress of each annotated Service, the ledger, and the PodToIP of each Pod.
package reconcilers

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/podtoip"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/claims"
	"jeffthecoder.xyz/portcullis/reconcilers/guards"
	"jeffthecoder.xyz/portcullis/reconcilers/ingresses"
	"jeffthecoder.xyz/portcullis/reconcilers/loadbalancers"
	"jeffthecoder.xyz/portcullis/reconcilers/pods"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/streams"
)

// Options are what the reconcilers work with.
type Options struct {
	View   *kube.View
	Ledger *claim.Ledger
	// PodToIP says which Pods get PodToIPs.
	PodToIP podtoip.Mode
	// AuditInterval is the least time between two comparisons of the ledger with the cluster, 0 for none at all.
	AuditInterval time.Duration
	// HandOverWait is how long a Service stays listed at an address that it has handed over, while its heir is not.
	HandOverWait time.Duration
	// HeirPatience is how long the Ingress of a Service keeps what that has handed over until the Ingress of the other one serves it.
	HeirPatience time.Duration
}

// Setup adds all reconcilers to the manager.
func Setup(mgr manager.Manager, o Options) error {
	a := access.New(mgr, o.View, o.Ledger)
	o.Ledger.HandedOver = report.HandedOver(a.Events)
	services, ports := &kube.KeyMutex[types.NamespacedName]{}, &kube.KeyMutex[claim.Coordinate]{}
	return errors.Join(
		loadbalancers.Setup(mgr, a, services, o.HandOverWait),
		streams.Setup(mgr, a, services, ports),
		ingresses.Setup(mgr, a, o.HeirPatience),
		guards.Setup(mgr, a),
		claims.Setup(mgr, a, claims.Options{Services: services, Ports: ports, AuditInterval: o.AuditInterval}),
		pods.Setup(mgr, pods.Options{View: o.View, Kinds: a.Kinds, Live: a.Live, Mode: o.PodToIP}))
}
