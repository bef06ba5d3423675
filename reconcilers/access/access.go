// Package access is what reconcilers read and write through.
package access

import (
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// Access is what every reconciler reads and writes through.
type Access struct {
	View   *kube.View
	Ledger *claim.Ledger
	// Writer writes; what is read comes from view, or from live, a few objects at a time, where a cache is not good enough.
	Writer client.Client
	Live   client.Reader
	Events events.EventRecorder
	// Kinds know whether an absent object was deleted or has vanished with its kind.
	Kinds *kube.Kinds
}

// liveReads is how many objects, or pages of them, are read past the cache at a time. A tenant can make each object as large as
// the API server takes, 1.5 MiB, which takes several times that in memory.
const liveReads = 8

// New is the access that a manager gives, with a view that its cache fills.
func New(mgr manager.Manager, view *kube.View, ledger *claim.Ledger) Access {
	return Access{
		View: view, Ledger: ledger, Writer: mgr.GetClient(), Live: kube.LimitInFlight(mgr.GetAPIReader(), liveReads),
		Events: mgr.GetEventRecorder("portcullis"), Kinds: kube.NewKinds(mgr.GetAPIReader(), mgr.GetLogger().WithName("kinds")),
	}
}
