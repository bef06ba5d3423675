// Package access is what reconcilers read and write through.
package reconcilers

import (
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/cluster"
)

// access is what every reconciler reads and writes through.
type access struct {
	view   *cluster.View
	ledger *claim.Ledger
	// writer writes; what is read comes from view, or from live, a few objects at a time, where a cache is not good enough.
	writer client.Client
	live   client.Reader
	events events.EventRecorder
	// kinds know whether an absent object was deleted or has vanished with its kind.
	kinds *cluster.Kinds
}

// liveReads is how many objects, or pages of them, are read past the cache at a time. A tenant can make each object as large as
// the API server takes, 1.5 MiB, which takes several times that in memory.
const liveReads = 8

// newAccess is the access that a manager gives, with a view that its cache fills.
func newAccess(mgr manager.Manager, view *cluster.View, ledger *claim.Ledger) access {
	return access{
		view: view, ledger: ledger, writer: mgr.GetClient(), live: cluster.InTurn(mgr.GetAPIReader(), liveReads),
		events: mgr.GetEventRecorder("portcullis"), kinds: cluster.NewKinds(mgr.GetAPIReader(), mgr.GetLogger().WithName("kinds")),
	}
}
