package main

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// garbagePercent is how much garbage may pile up, in percent of the memory in use, before it is collected. Most of what is
	// in use are caches: Go's own 100 would double them, to save CPU time of which little is used.
	garbagePercent = 50
	// settled is how long after the caches are full the first replica has looked at everything. In a full house of 12,000 streams that
	// takes it some 10 s on two cores that it shares with the control plane: what is returned earlier is taken again, and then kept.
	settled = 30 * time.Second
)

// economize makes garbage be collected earlier, unless GOGC in the environment says when.
func economize() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}

// returner gives back to the operating system, once, what filling the caches has left behind. Where little happens afterwards,
// Go itself would keep it for minutes.
type returner struct{}

var _ manager.LeaderElectionRunnable = returner{}

// NeedLeaderElection implements manager.LeaderElectionRunnable: each replica reads the cluster.
func (returner) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It is called when the caches are full.
func (returner) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(settled):
		debug.FreeOSMemory()
	}
	return nil
}
