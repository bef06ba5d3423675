package claims

import (
	"context"
	"runtime/debug"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/audit"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

// toldAtOnce bounds the events of one look: when all goes wrong, a few say so as well as thousands.
const toldAtOnce = 16

// auditor compares the ledger with the cluster, and tells where they disagree for longer than an interval. It reads
// everything from the API server itself: a cache that lies, an event that was missed and a reconciler that is stuck are
// what it is there to find. It changes nothing.
type auditor struct {
	access.Access
	interval time.Duration
	watch    audit.Watch
}

func setupAudit(mgr manager.Manager, b access.Access, interval time.Duration) error {
	if interval == 0 {
		return nil
	}
	return mgr.Add(&auditor{Access: b, interval: interval, watch: audit.Watch{Patience: interval}})
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: one auditor is enough.
func (a *auditor) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable. What a look costs says when the next one is: see audit.Pause.
func (a *auditor) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("audit"))
	for _, result := range []string{auditDone, auditFailed} {
		audits.WithLabelValues(result) // so that a first one is a rise
	}
	for wait := a.interval; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		began, used := time.Now(), processorTime()
		err := a.look(ctx, began)
		if err != nil && ctx.Err() == nil {
			audits.WithLabelValues(auditFailed).Inc()
			log.FromContext(ctx).Error(err, "the ledger could not be compared with the cluster")
		}
		// A look reads everything and keeps next to nothing. Go would hold on to what it took for the next look.
		debug.FreeOSMemory()
		// The processor time is that of the whole process, with what else it did meanwhile. A look is one goroutine, so that it is
		// not much more than the time it took.
		cost := min(time.Since(began), processorTime()-used)
		wait = audit.Pause(a.interval, cost, a.watch.Suspects() > 0, err != nil)
	}
}

// processorTime is the processor time that this process has used so far, with that for collecting garbage.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0 // so that every look costs nothing, and there is one an interval
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// look compares once, and tells what is new.
func (a *auditor) look(ctx context.Context, now time.Time) error {
	facts, err := a.gather(ctx)
	if err != nil {
		return err
	}
	news, over := a.watch.Look(now, facts.Disagreements())
	audits.WithLabelValues(auditDone).Inc()
	for kind, n := range a.watch.Standing() {
		disagreements.WithLabelValues(string(kind)).Set(float64(n))
	}
	logger := log.FromContext(ctx)
	for i, d := range news {
		if i == toldAtOnce {
			logger.Info("ledger and cluster disagree about more points", "points", len(news)-i)
			break
		}
		logger.Info("ledger and cluster disagree", "kind", d.Kind, "point", d.Point.String(), "disagreement", d.String())
		report.Emit(a.Events, regarding(d), claimOn(d), corev1.EventTypeWarning, reasonOf[d.Kind], "Audit", d.String())
	}
	if len(over) > 0 {
		logger.Info("ledger and cluster agree again", "points", len(over), "first", over[0].Point.String())
	}
	return nil
}

// reasonOf are the reasons of the events.
var reasonOf = map[audit.Kind]string{
	audit.ClaimWithoutHolder: v1beta1.ReasonClaimWithoutHolder,
	audit.PointWithoutClaim:  v1beta1.ReasonPointWithoutClaim,
}

// regarding is the object that an event about a disagreement is on.
func regarding(d audit.Disagreement) *corev1.ObjectReference {
	version := v1beta1.GroupVersion.String()
	switch d.Object.Group {
	case networkingv1.GroupName:
		version = networkingv1.SchemeGroupVersion.String()
	case corev1.GroupName:
		version = corev1.SchemeGroupVersion.String()
	}
	return &corev1.ObjectReference{
		APIVersion: version, Kind: d.Object.Kind, Namespace: d.Object.Namespace, Name: d.Object.Name, UID: d.Object.UID,
	}
}

// claimOn is the claim that an event is about, whether it is there or missing. Events on one object that differ in
// nothing but their text would be counted as one.
func claimOn(d audit.Disagreement) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "EdgeClaim", Name: d.Point.Name()}
}
