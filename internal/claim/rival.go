package claim

import (
	"context"
	"fmt"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// rival finds a claim of somebody else that a point can't be held beside, nil for none: on the whole address of a port, or
// on any port of a whole address. version is that of the holder's own claim, empty where there is none.
//
// Those are two points, with two names, so that creating one does not keep others from the other. Both are wanted at once
// where a pool is made anew with another sharing, and replicas do not know of it at the same time. Therefore everybody looks
// for the other form once its own claim is stored: of two that write, and look then, one at least sees the other. If both
// do, neither has it, and whoever asks again does.
func (l *Ledger) rival(ctx context.Context, at Coordinate, holder Holder, version string) (*v1beta1.EdgeClaim, error) {
	if at.IsListener() {
		return l.listenerRival(ctx, at, holder, version)
	}
	if at.IsHostname() {
		return l.hostnameRival(ctx, at, holder, version)
	}
	if at.IngressClass() != "" {
		return l.classlessRival(ctx, at, holder)
	}
	if !at.IsAddress() {
		return nil, nil
	}
	if at.Port() != 0 {
		whole, err := l.live(ctx, Address(at.Address()).Name())
		if err != nil || whole == nil || HolderOf(whole) == holder && !isAnothersSoon(whole, holder) {
			return nil, err
		}
		return whole, nil
	}
	ports, err := l.Store.List(ctx, PortsScope(at.Address()), version)
	if err != nil {
		return nil, err
	}
	for i := range ports {
		if HolderOf(&ports[i]) != holder {
			return &ports[i], nil
		}
	}
	return nil, nil
}

// checkRival is a *HeldError where rival finds a claim of somebody else.
func (l *Ledger) checkRival(ctx context.Context, at Coordinate, holder Holder, version string) error {
	rival, err := l.rival(ctx, at, holder, version)
	if err != nil {
		return fmt.Errorf("reading what %s can't be held beside: %w", at, err)
	}
	if rival != nil {
		return &HeldError{At: at, Claim: rival}
	}
	return nil
}

// mayBeTakenBack says whether an admission that made a claim on a point may yet find a rival, and delete it. A stored
// object that is to count on such a claim has to renew it first.
func mayBeTakenBack(c *v1beta1.EdgeClaim, at Coordinate, by Claimant) bool {
	hasRivals := at.IsAddress() || at.IsListener() || at.IsHostname()
	return hasRivals && !settled(c, HolderState{Exists: true, UID: by.UID, Generation: by.Generation}, "")
}

// isAnothersSoon says whether somebody else is the heir of a claim: with the whole of an address all of its ports are handed over, and its
// holder is to have no other claim there by then.
func isAnothersSoon(c *v1beta1.EdgeClaim, holder Holder) bool {
	heir := HeirOf(c)
	return heir != Holder{} && heir != holder
}
