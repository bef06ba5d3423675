// Package reconcilers makes the world look like what was granted: the ConfigMaps and the Service of each class, the
// status of each stream, the Ingress of each annotated Service, the ledger, and the PodToIP of each Pod.
package reconcilers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/cluster"
	"jeffthecoder.xyz/portcullis/internal/podtoip"
	"jeffthecoder.xyz/portcullis/reconcilers/pods"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

// Options are what the reconcilers work with.
type Options struct {
	View   *cluster.View
	Ledger *claim.Ledger
	// PodToIP says which Pods get PodToIPs.
	PodToIP podtoip.Mode
	// AuditInterval is how often the ledger is compared with the cluster, 0 for never.
	AuditInterval time.Duration
}

// base is what every reconciler of this package needs.
type base struct {
	view   *cluster.View
	ledger *claim.Ledger
	// writer writes; what is read comes from view, or from live, a few objects at a time, where a cache is not good enough.
	writer client.Client
	live   client.Reader
	events events.EventRecorder
	// kinds know whether an absent object was deleted or has vanished with its kind.
	kinds *cluster.Kinds
	// leftovers are what a former installation has written to.
	leftovers *leftovers
	// told is what was told about the Services that ask for an Ingress, balanced about those of type LoadBalancer.
	told, balanced *report.Bulletin
	// turns are those at Services of type LoadBalancer.
	turns *cluster.Turns[types.NamespacedName]
	// recent are the claims for them that were made here, and that the cache may not show yet.
	recent *recentClaims
}

// liveReads is how many objects, or pages of them, are read past the cache at a time. A tenant can make each object as large as
// the API server takes, 1.5 MiB, which takes several times that in memory.
const liveReads = 8

// Setup adds all reconcilers to the manager.
func Setup(mgr manager.Manager, o Options) error {
	b := base{
		view: o.View, ledger: o.Ledger, writer: mgr.GetClient(), live: cluster.InTurn(mgr.GetAPIReader(), liveReads),
		events: mgr.GetEventRecorder("portcullis"), kinds: cluster.NewKinds(mgr.GetAPIReader(), mgr.GetLogger().WithName("kinds")),
		leftovers: newLeftovers(clock.RealClock{}, o.Ledger.Grace), told: report.NewBulletin(), balanced: report.NewBulletin(),
		turns: cluster.NewTurns[types.NamespacedName](), recent: newRecentClaims(clock.RealClock{}),
	}
	registerMetrics(mgr.GetCache(), b)
	for _, add := range []func(manager.Manager, base) error{
		setupClass, setupFormer, setupStream, setupOrphan, setupClaim, setupIngress, setupForeignIngress, setupPool, setupLoadBalancer,
	} {
		if err := add(mgr, b); err != nil {
			return err
		}
	}
	if err := setupAudit(mgr, b, o.AuditInterval); err != nil {
		return err
	}
	return pods.Setup(mgr, pods.Options{View: o.View, Kinds: b.kinds, Live: b.live, Mode: o.PodToIP})
}

// refusedRetry is how long the API server's refusal of a port or a ConfigMap is left alone before it is tried again.
const refusedRetry = time.Minute
