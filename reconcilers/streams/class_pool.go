package streams

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// allocate gives a class its addresses, and reports on it. What its streams need is left to forwardReconciler, which is told of the
// addresses by the status.
func (r *classReconciler) allocate(ctx context.Context, class *v1beta1.StreamIngressClass) (reconcile.Result, error) {
	began := time.Now()
	r.View.Endpoints.Ask()
	by := claim.Claimant{Holder: claim.ClassHolder(class.Name), UID: class.UID, Generation: class.Generation}
	unlock, err := r.holders.Lock(ctx, by.Key())
	if err != nil {
		return reconcile.Result{}, err
	}
	defer unlock()
	decided, err := kube.Decide(ctx, r.View, func(f *kube.Facts) allocator.Decision {
		return allocator.ForClass(f, class, r.Ledger.GraceLeft)
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	var addresses []string
	for _, allocation := range decided.Allocations {
		held, err := r.claimAddress(ctx, class, by, allocation)
		if err != nil {
			return watch.Later(err)
		}
		if len(held) > 0 {
			decided.Problems = append(decided.Problems, held...)
			continue
		}
		addresses = append(addresses, allocation.Address.String())
	}
	// A pool is not there, too, when it has vanished with its kind, and then all that is open stays so.
	if !sets.New(addresses...).HasAll(class.Status.Addresses...) {
		if _, err := r.Kinds.Check(ctx); err != nil {
			return reconcile.Result{}, err
		}
	}
	wrote, err := r.reportForwarding(ctx, class, addresses, decided.Problems, r.refusedHere(ctx, class))
	r.pacer.done(class.Name, wrote, time.Since(began)) // each write has all streams of the class looked at
	if err != nil {
		return watch.Later(err)
	}
	if len(decided.Problems) > 0 {
		return reconcile.Result{RequeueAfter: pendingRetry}, nil
	}
	return reconcile.Result{}, nil
}

// claimAddress claims an address that a class has whole. problems say who else has it.
func (r *classReconciler) claimAddress(
	ctx context.Context, class *v1beta1.StreamIngressClass, by claim.Claimant, allocation allocator.Allocation,
) (refusal.Problems, error) {
	for _, at := range allocation.Points {
		c, err := r.View.Claim(ctx, at.Name())
		if err != nil {
			return nil, err
		}
		if c != nil && claim.HolderOf(c) == by.Holder && c.Spec.Holder.UID == by.UID {
			continue
		}
		_, err = r.Ledger.Claim(ctx, by, nil, at)
		if held, ok := errors.AsType[*claim.HeldError](err); ok {
			return kube.Decide(ctx, r.View, func(f *kube.Facts) refusal.Problems {
				return allocator.ClassConflict(f, class, allocation.Address, held.Claim, r.Ledger.GraceLeft(held.Claim))
			})
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// reportForwarding writes the status of a class with an addressPool, if it changed.
func (r *classReconciler) reportForwarding(
	ctx context.Context, class *v1beta1.StreamIngressClass, addresses []string, problems refusal.Problems, refused []v1beta1.RefusedPort,
) (wrote bool, err error) {
	programmed := metav1.Condition{Type: v1beta1.ConditionProgrammed, Status: metav1.ConditionTrue,
		Reason: v1beta1.ReasonProgrammed, Message: "the nodes have been told about every stream"}
	switch {
	case len(problems) > 0:
		programmed.Status, programmed.Reason = metav1.ConditionFalse, v1beta1.ReasonNoAddress
		programmed.Message = report.Text(problems)
	case len(refused) > 0:
		exhausted := slices.IndexFunc(refused, func(p v1beta1.RefusedPort) bool { return isExhausted(class.Name, p) })
		programmed = someRefused(refused, max(exhausted, 0))
	}
	next := class.DeepCopy()
	next.Status.Addresses = addresses
	return r.writeStatusOf(ctx, class, next, refused, servesStreams(), programmed)
}
