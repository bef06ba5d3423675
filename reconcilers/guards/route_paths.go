package guards

import (
	"context"
	"time"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// reconcilePaths enters the paths of a host that routes serve on Gateways and nobody has, and finds who serves one that is another
// namespace's. again is when to look again, as enterAll has it.
func (r *hostReconciler) reconcilePaths(ctx context.Context, host string) (lost []hostname.PathLoss, again time.Duration, err error) {
	if !r.View.Hosts.GuardsPaths() {
		return nil, 0, nil
	}
	var entries []claim.Entry
	_, err = kube.Decide(ctx, r.View, func(f *kube.Facts) struct{} {
		entries, lost = hostname.SettlePaths(f, host)
		return struct{}{}
	})
	if err != nil {
		return nil, 0, err
	}
	again, err = enterAll(ctx, r.Access, entries)
	return lost, again, err
}
