package guards

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
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

// mostPathsTold is how many paths an event is about.
const mostPathsTold = 4

// toldOfPaths is what those are told who serve paths that are another namespace's.
func toldOfPaths(lost []hostname.PathLoss) (now map[types.UID]told, who map[types.UID]hostname.User) {
	now, who = map[types.UID]told{}, map[types.UID]hostname.User{}
	for _, loss := range lost {
		t := now[loss.User.UID]
		t.points++
		if t.points <= mostPathsTold {
			t.text += loss.String() + "; "
		}
		t.key += loss.Key() + "\n"
		t.kind = guard.Kind(loss.User.Kind)
		now[loss.User.UID], who[loss.User.UID] = t, loss.User
	}
	for uid, t := range now {
		t.text += "the Gateway serves both, or the older of the two: choose another host or path"
		now[uid] = t
	}
	return now, who
}
