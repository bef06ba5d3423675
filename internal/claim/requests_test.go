package claim

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// create is an API request that creates a stream.
func (w *world) create(r *replica, h Holder, at Coordinate) {
	began := w.now
	o := &object{uid: w.uid(), generation: 1, at: at, admitted: true}
	w.note("is %s", o.uid)
	if err := w.ledger(r).Reserve(context.Background(), Claimant{Holder: h, UID: o.uid, Generation: o.generation}, nil, at); err != nil {
		w.note("refused: %v", err)
		return
	}
	w.note("promised")
	w.pause()
	if w.abandoned() || w.now.Sub(began) >= requestLife {
		w.note("abandoned")
		return
	}
	w.store(h, o)
}

// store is the last step of a creation: it fails if there is an object of that name.
func (w *world) store(h Holder, o *object) {
	if w.stored[h] != nil {
		w.note("exists")
		return
	}
	w.versions++
	o.version = w.versions
	w.uids = append(w.uids, o.uid)
	w.stored[h] = o
	w.note("stored %s", o.uid)
}

// update is an API request that changes a stream, the zero Coordinate leaving its point alone. A patch that loses
// against another write is tried again, and admitted again.
func (w *world) update(r *replica, h Holder, to Coordinate, patch bool) {
	began := w.now
	for range 3 {
		before := w.stored[h]
		if before == nil {
			return
		}
		next := *before
		next.generation++
		if !to.IsZero() {
			next.at = to
		}
		if next.at != before.at && !w.admits(r, h, before, &next) {
			return
		}
		w.pause()
		if w.abandoned() || w.now.Sub(began) >= requestLife {
			w.note("abandoned")
			return
		}
		if now := w.stored[h]; now != nil && now.version == before.version {
			w.versions++
			next.version = w.versions
			w.stored[h] = &next
			w.note("stored %s generation %d", next.uid, next.generation)
			return
		}
		w.note("conflict")
		if !patch {
			return
		}
		w.pause()
	}
}

// admits judges an object that moves to another point. One that is being deleted gets nothing that it does not have.
func (w *world) admits(r *replica, h Holder, before, next *object) bool {
	if before.deleted && w.deletedPass {
		return true
	}
	if before.deleted && !slices.Contains(before.has(), next.at) {
		w.note("refused: it is being deleted")
		return false
	}
	next.admitted = true
	if err := w.ledger(r).Reserve(context.Background(), Claimant{Holder: h, UID: next.uid, Generation: next.generation}, nil, next.at); err != nil {
		w.note("refused: %v", err)
		return false
	}
	w.note("promised to %s generation %d", next.uid, next.generation)
	return true
}

// finalize is the deletion of an object that lives on.
func (w *world) finalize(h Holder) {
	if o := w.stored[h]; o != nil && !o.deleted {
		w.versions++
		next := *o
		next.deleted, next.version = true, w.versions
		w.stored[h] = &next
		w.note("%s is being deleted", o.uid)
	}
}

func (w *world) delete(h Holder) {
	if o := w.stored[h]; o != nil {
		delete(w.stored, h)
		w.gone[h] = append(w.gone[h], o.uid)
		w.note("deleted %s", o.uid)
	}
}

// reconcile claims for an object what it asks for, which it may have got past admission, and then opens the point to it, by its
// status. One that is being deleted keeps what it has.
func (w *world) reconcile(r *replica, h Holder) {
	o := w.stored[h]
	if o == nil || w.looked[h] || o.deleted {
		return
	}
	w.looked[h] = true
	defer delete(w.looked, h)
	w.pause()
	_, err := w.ledger(r).Claim(context.Background(), Claimant{Holder: h, UID: o.uid, Generation: o.generation}, nil, o.at)
	w.note("claimed for %s: %v", o.uid, err)
	if err != nil {
		return
	}
	if o.at.IsListener() { // which is open already, whatever is found here: it counts as told once it is entered
		// Where the cache shows a claim that is gone, the reconciler looks again as it learns of that.
		if c := w.claims.stored[o.at.Name()]; w.stored[h] == o && c != nil && HolderOf(c) == h {
			next := *o
			next.admitted = true
			w.stored[h] = &next
		}
		return
	}
	ok, err := w.ledger(r).Confirm(context.Background(), Claimant{Holder: h, UID: o.uid, Generation: o.generation}, o.at)
	w.note("confirmed for %s: %t %v", o.uid, ok, err)
	if !ok {
		return
	}
	err = w.writeStatus(h, o)
	w.note("listed %s for %s: %v", o.at, o.uid, err)
	if c := w.claims.stored[o.listed.Name()]; w.trustsStatus && c != nil && HolderOf(c) == h && o.listed != o.at {
		_ = w.ledger(r).Store.Delete(context.Background(), c.DeepCopy())
	}
}

// writeStatus lists the point that an object asks for. The write fails if the object is another by now, and may fail without a
// reason, before or after it has taken effect.
func (w *world) writeStatus(h Holder, o *object) error {
	w.pause()
	fate := w.fate(6)
	if fate == failsBefore {
		return errAway
	}
	now := w.stored[h]
	if now == nil || now.uid != o.uid || now.version != o.version && !w.statusAny {
		return errors.New("conflict")
	}
	w.versions++
	next := *now
	next.listed, next.version = o.at, w.versions
	next.admitted = now.admitted || now.at == o.at
	w.stored[h] = &next
	if fate == failsAfter {
		return errAway
	}
	return nil
}

// release is a look of the reconciler at a claim, as its cache has it or as it is stored.
func (w *world) release(r *replica, name string, gone types.UID) {
	look := func(_ context.Context, c *v1beta1.EdgeClaim) (HolderState, error) {
		w.pause()
		return w.stateOf(c), nil
	}
	if c := w.claims.stored[name]; w.looksFirst && c != nil {
		early := w.stateOf(c)
		look = func(context.Context, *v1beta1.EdgeClaim) (HolderState, error) { return early, nil }
	}
	w.pause()
	c := w.claims.stored[name]
	if w.rng.IntN(2) == 0 {
		c = r.claims[name]
	}
	if c == nil {
		return
	}
	if at, _ := Of(c); at.IsHosts() && !w.hostsAtOnce && w.ledger(r).GraceLeft(c) > 0 { // as Reconcile of package claims does
		return
	}
	keep, released, err := w.ledger(r).Release(context.Background(), c.DeepCopy(), look, gone)
	w.note("keep=%v released=%v %v", keep, released, err)
}

func (w *world) stateOf(c *v1beta1.EdgeClaim) HolderState {
	if at, _ := Of(c); at.IsHosts() {
		return HolderState{Exists: true, Wants: len(w.claims.scopes[at.HostsScope()]) > 0}
	}
	o := w.stored[HolderOf(c)]
	if o == nil {
		return HolderState{}
	}
	if o.deleted && w.deletedGo {
		return HolderState{}
	}
	wants := o.at.Name() == c.Name || o.listed.Name() == c.Name && !w.statusForgotten
	return HolderState{Exists: true, UID: o.uid, Generation: o.generation, Wants: wants}
}

// abandoned says, sometimes, that a request ends after its promise without being stored.
func (w *world) abandoned() bool { return w.rng.IntN(5) == 0 }

func (w *world) uid() types.UID {
	w.versions++
	return types.UID("u" + strconv.FormatInt(w.versions, 10))
}
