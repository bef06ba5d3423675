package guards

import (
	"context"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// reconcilePaths enters the paths of a host that routes serve on Gateways and nobody has, and finds who serves one that is another
// namespace's. again says that there is more to be entered, or that somebody else was faster.
func (r *hostReconciler) reconcilePaths(ctx context.Context, host string) (lost []hostname.PathLoss, again bool, err error) {
	if !r.View.Hosts.GuardsPaths() {
		return nil, false, nil
	}
	var entries []claim.Entry
	_, err = kube.Decide(ctx, r.View, func(f *kube.Facts) struct{} {
		entries, lost = hostname.SettlePaths(f, host)
		return struct{}{}
	})
	if err != nil {
		return nil, false, err
	}
	again = len(entries) > entriesAtOnce
	held, err := enter(entries[:min(len(entries), entriesAtOnce)], func(e claim.Entry) error {
		_, err := r.Ledger.Claim(ctx, e.By, nil, e.At)
		return err
	})
	return lost, again || held, err
}
