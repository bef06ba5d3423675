package loadbalancers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// poolStatus is what the status of a pool is to say. A pool that is not accepted has no addresses to give.
func poolStatus(pool *v1beta1.AddressPool, verdict addresspool.Verdict, count kube.PoolCount) v1beta1.AddressPoolStatus {
	next := *pool.Status.DeepCopy()
	next.ObservedGeneration = pool.Generation
	next.Total, next.Assigned, next.Free = nil, nil, nil
	if count.Known {
		next.Total, next.Assigned, next.Free = new(count.Total), new(count.Assigned), new(count.Total-count.Assigned)
	}
	accepted := metav1.Condition{Status: metav1.ConditionTrue, Reason: v1beta1.ReasonAccepted, Message: "Services are served from the pool"}
	if problems := loadbalancer.PoolProblems(verdict); len(problems) > 0 {
		accepted = report.Failed(problems)
	}
	accepted.Type, accepted.ObservedGeneration = v1beta1.ConditionAccepted, pool.Generation
	report.SetCondition(&next.Conditions, accepted)
	return next
}

func sameStatus(a, b v1beta1.AddressPoolStatus) bool { return equality.Semantic.DeepEqual(a, b) }

// sameVerdict says whether two statuses differ in their counts only, which can wait.
func sameVerdict(a, b v1beta1.AddressPoolStatus) bool {
	a.Total, a.Assigned, a.Free = b.Total, b.Assigned, b.Free
	return sameStatus(a, b)
}

// count counts the addresses of a pool.
func (r *poolReconciler) count(v addresspool.Verdict) kube.PoolCount {
	if !v.Accepted() {
		return kube.PoolCount{}
	}
	return r.View.LoadBalancers.CountPool(v.Pool)
}

// report writes the status of a pool, and tells what changed.
func (r *poolReconciler) report(ctx context.Context, pool *v1beta1.AddressPool, status v1beta1.AddressPoolStatus) error {
	next := pool.DeepCopy()
	next.Status = status
	if written, err := write.ChangeStatus(ctx, r.Writer, pool, next); err != nil || !written {
		return err
	}
	before := meta.FindStatusCondition(pool.Status.Conditions, v1beta1.ConditionAccepted)
	now := meta.FindStatusCondition(status.Conditions, v1beta1.ConditionAccepted)
	if before == nil || before.Status != now.Status || before.Reason != now.Reason {
		report.ConditionChanged(r.Events, next, *now)
	}
	return nil
}

// level is how much is left of the addresses of a pool.
type level int

const (
	plenty level = iota
	nearlyEmpty
	empty
)

// levelOf says how much is left: nearly nothing is less than a tenth.
func levelOf(total, assigned int64) level {
	free := total - assigned
	switch {
	case total == 0:
		return plenty // there is no address of this family to run out of
	case free <= 0:
		return empty
	case free <= (total-1)/10:
		return nearlyEmpty
	default:
		return plenty
	}
}

// levels remember what was last seen of each pool, so that each crossing is told once. What they remember may be lost:
// then what was reported before is not told again. One worker alone uses them.
type levels map[string]seenLevels

type seenLevels struct {
	uid    types.UID
	levels map[corev1.IPFamily]level
}

// note notes the level of a family, and says whether it has become worse since the last time.
func (l levels) note(pool *v1beta1.AddressPool, family corev1.IPFamily, now level) (worse bool) {
	seen := l[pool.Name]
	if seen.uid != pool.UID || seen.levels == nil {
		seen = seenLevels{uid: pool.UID, levels: map[corev1.IPFamily]level{}}
		l[pool.Name] = seen
	}
	before, known := seen.levels[family]
	seen.levels[family] = now
	if !known && pool.Status.ObservedGeneration != 0 {
		return false // another replica, or an earlier process, has seen to it
	}
	return now > before
}

// warn tells by events when the addresses of a pool run out, those of each family by itself: an IPv6 network never does.
func (r *poolReconciler) warn(pool *v1beta1.AddressPool, v addresspool.Verdict) {
	if !v.Accepted() || v.SourceOrDefault() != v1beta1.SourceAddresses {
		return
	}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		set := v.Set.Of(family)
		_, _, total := set.Size()
		assigned := r.View.Addresses.Assigned(set)
		now := levelOf(total, assigned)
		if !r.levels.note(pool, family, now) {
			continue
		}
		reason := v1beta1.ReasonPoolNearlyEmpty
		text := fmt.Sprintf("%d of %d %s addresses are free", total-assigned, total, family)
		if now == empty {
			reason = v1beta1.ReasonPoolEmpty
			text = fmt.Sprintf("none of %d %s addresses is free: Services that need one wait", total, family)
		}
		report.Emit(r.Events, pool, nil, corev1.EventTypeWarning, reason, "Assign", text)
	}
}
