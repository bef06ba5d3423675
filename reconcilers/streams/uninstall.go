package streams

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
)

// Entries, ports and addresses are closed because the object that asked for them is absent. When Portcullis is uninstalled,
// all such objects vanish with their kinds, and everything is to stay as it is. So before anything is closed, and only then,
// the API server is asked for the kinds: after the absence was seen, as cluster.Kinds explains.
//
// When Portcullis is installed again, those objects are absent, too, until somebody creates them anew. What a former
// installation has opened is therefore kept for a while.

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=addresspools.nginx-stream.jeffthecoder.xyz;edgeclaims.nginx-stream.jeffthecoder.xyz;hostpolicies.nginx-stream.jeffthecoder.xyz;streamingressclasses.nginx-stream.jeffthecoder.xyz;streamingresses.nginx-stream.jeffthecoder.xyz,verbs=get

// base is what the reconcilers of streams and their classes have in common.
type base struct {
	access.Access
	// leftovers are what a former installation has written to.
	leftovers *leftovers
}

// mayClose says for how long what Portcullis has applied to an object is kept although nobody asks for it, 0 for no
// longer. With an error nothing is to be closed, and the reconciliation ends.
func (b base) mayClose(ctx context.Context, obj metav1.Object) (keep time.Duration, err error) {
	since, err := b.Kinds.Check(ctx)
	if err != nil {
		return 0, err
	}
	return b.leftovers.keep(obj, since), nil
}

// mayCloseIn does the same within a pass. What is kept once is kept to the end of the pass, and looked at again: where an entry
// could not be written back yet, nothing else is to close its port.
func (r *classReconciler) mayCloseIn(ctx context.Context, obj metav1.Object, report *classReport) (keep time.Duration, err error) {
	if keep := report.kept[obj.GetUID()]; keep > 0 {
		return keep, nil
	}
	if keep, err = r.mayClose(ctx, obj); err != nil || keep == 0 {
		return 0, err
	}
	if report.kept == nil {
		report.kept = map[types.UID]time.Duration{}
	}
	report.kept[obj.GetUID()] = keep
	report.retry(keep)
	return keep, nil
}

// leftovers are the objects that Portcullis last wrote to before it was installed, that is, by a former installation. What
// they have is kept for a grace, so that it does not close and open again while classes and streams are created anew. The
// grace begins with the installation, or with this process, if that began later.
type leftovers struct {
	clock clock.PassiveClock
	grace time.Duration
	begun time.Time
	mu    sync.Mutex
	known map[leftover]bool
}

// leftover is an object of that UID, found by the installation of that time.
type leftover struct {
	uid   types.UID
	since time.Time
}

func newLeftovers(c clock.PassiveClock, grace time.Duration) *leftovers {
	return &leftovers{clock: c, grace: grace, begun: c.Now(), known: map[leftover]bool{}}
}

// keep says for how long what Portcullis has applied to an object is kept when it is installed since then. What is written
// to it meanwhile does not make it an object of this installation.
func (l *leftovers) keep(obj metav1.Object, since time.Time) time.Duration {
	until := since.Add(l.grace)
	if l.begun.After(since) {
		until = l.begun.Add(l.grace)
	}
	left := until.Sub(l.clock.Now())
	if left <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := leftover{obj.GetUID(), since}
	if !l.known[key] && !writtenBefore(obj, since) {
		return 0
	}
	l.known[key] = true
	return left
}

// writtenBefore says whether Portcullis has written to an object, and for the last time before then.
func writtenBefore(obj metav1.Object, then time.Time) bool {
	last := kube.LastWritten(obj)
	return last != nil && last.Time.Before(then)
}
