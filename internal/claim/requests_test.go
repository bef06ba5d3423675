package claim

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// script lists what begins in a history: requests at random, or a few that are known for trouble, in this order
// or another.
func (w *world) script() []func(*replica) {
	a, b, at, to := StreamHolder("ns", "a"), StreamHolder("ns", "b"), Stream("c", v1beta1.TCP, 1), Stream("c", v1beta1.TCP, 2)
	if w.rng.IntN(2) == 0 { // an address, and one of its ports
		at = Address(netip.AddrFrom4([4]byte{192, 0, 2, 1}))
		to = AddressPort(at.Address(), "TCP", 1)
	}
	var script []func(*replica)
	switch w.rng.IntN(7) {
	case 0: // two creations of one name
		script = []func(*replica){w.creates(a, at), w.creates(a, at), w.deletes(a), w.looks(at), w.creates(b, at), w.creates(b, at)}
	case 1: // deleted and created anew
		w.store(a, &object{uid: w.uid(), generation: 1, at: at})
		script = []func(*replica){w.reconciles(a), w.deletes(a), w.creates(a, at), w.deletes(a), w.looks(at), w.looks(at), w.creates(b, at)}
	case 2: // moved to and fro
		w.store(a, &object{uid: w.uid(), generation: 1, at: to})
		script = []func(*replica){w.moves(a, at), w.moves(a, to), w.moves(a, at), w.edits(a), w.looks(at), w.creates(b, at)}
	case 3: // a point, and another that may not be had beside it
		w.store(a, &object{uid: w.uid(), generation: 1, at: at})
		script = []func(*replica){w.creates(a, at), w.creates(b, to), w.reconciles(a), w.reconciles(b), w.bypasses(b, to), w.moves(b, to), w.looks(to)}
	default:
		for range 12 {
			script = append(script, w.anything(a, b, at, to))
		}
	}
	if w.rng.IntN(2) == 0 {
		return script
	}
	w.rng.Shuffle(len(script), func(i, j int) { script[i], script[j] = script[j], script[i] })
	return script
}

// anything is one request of any kind, or a look of the reconciler at a claim.
func (w *world) anything(a, b Holder, at, to Coordinate) func(*replica) {
	if w.rng.IntN(2) == 0 {
		a = b
	}
	if w.rng.IntN(3) == 0 {
		at = to
	}
	switch n := w.rng.IntN(100); {
	case n < 30:
		return w.creates(a, at)
	case n < 45:
		return w.moves(a, at)
	case n < 50:
		return w.edits(a)
	case n < 65:
		return w.deletes(a)
	case n < 70:
		return w.bypasses(a, at)
	case n < 75:
		return w.reconciles(a)
	default:
		return w.looks(at)
	}
}

func (w *world) creates(h Holder, at Coordinate) func(*replica) {
	return func(r *replica) {
		w.start(fmt.Sprintf("create %s at %s", h, at.Point()), func() { w.create(r, h, at) })
	}
}

func (w *world) bypasses(h Holder, at Coordinate) func(*replica) {
	return func(*replica) {
		w.start(fmt.Sprintf("create %s at %s past admission", h, at.Point()), func() { w.store(h, &object{uid: w.uid(), generation: 1, at: at}) })
	}
}

func (w *world) moves(h Holder, to Coordinate) func(*replica) {
	patch := w.rng.IntN(3) > 0
	return func(r *replica) {
		w.start(fmt.Sprintf("move %s to %s, patch=%v", h, to.Point(), patch), func() { w.update(r, h, to, patch) })
	}
}

func (w *world) edits(h Holder) func(*replica) {
	return func(r *replica) { w.start(fmt.Sprintf("edit %s", h), func() { w.update(r, h, Coordinate{}, true) }) }
}

func (w *world) deletes(h Holder) func(*replica) {
	return func(*replica) { w.start(fmt.Sprintf("delete %s", h), func() { w.delete(h) }) }
}

func (w *world) reconciles(h Holder) func(*replica) {
	return func(r *replica) { w.start(fmt.Sprintf("reconcile %s", h), func() { w.reconcile(r, h) }) }
}

func (w *world) looks(at Coordinate) func(*replica) {
	return func(r *replica) {
		w.start(fmt.Sprintf("look at %s", at), func() { w.release(r, at.Name(), w.hint(at)) })
	}
}

// hint is, most often, the UID of an object that held a point and was deleted, as late as may be.
func (w *world) hint(at Coordinate) types.UID {
	c := w.claims.stored[at.Name()]
	if c == nil || w.rng.IntN(4) == 0 {
		return ""
	}
	if known := w.gone[HolderOf(c)]; len(known) > 0 {
		return known[w.rng.IntN(len(known))]
	}
	return ""
}

// create is an API request that creates a stream.
func (w *world) create(r *replica, h Holder, at Coordinate) {
	began := w.now
	o := &object{uid: w.uid(), generation: 1, at: at, admitted: true}
	w.note("is %s", o.uid)
	if err := w.ledger(r).Promise(context.Background(), at, Claimant{Holder: h, UID: o.uid, Generation: o.generation}, nil); err != nil {
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
		if next.at != before.at {
			next.admitted = true
			if err := w.ledger(r).Promise(context.Background(), to, Claimant{Holder: h, UID: next.uid, Generation: next.generation}, nil); err != nil {
				w.note("refused: %v", err)
				return
			}
			w.note("promised to %s generation %d", next.uid, next.generation)
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

func (w *world) delete(h Holder) {
	if o := w.stored[h]; o != nil {
		delete(w.stored, h)
		w.gone[h] = append(w.gone[h], o.uid)
		w.note("deleted %s", o.uid)
	}
}

// reconcile claims for a stream that got past admission, and opens the point to it.
func (w *world) reconcile(r *replica, h Holder) {
	o := w.stored[h]
	if o == nil || w.looked[h] {
		return
	}
	w.looked[h] = true
	defer delete(w.looked, h)
	w.pause()
	_, err := w.ledger(r).Claim(context.Background(), o.at, Claimant{Holder: h, UID: o.uid, Generation: o.generation}, nil)
	w.note("claimed for %s: %v", o.uid, err)
	if err != nil {
		return
	}
	ok, err := w.ledger(r).Confirm(context.Background(), o.at, Claimant{Holder: h, UID: o.uid, Generation: o.generation})
	w.note("confirmed for %s: %t %v", o.uid, ok, err)
	if ok && w.stored[h] == o {
		o.admitted = true
	}
}

// release is a look of the reconciler at a claim, as its cache has it or as it is stored.
func (w *world) release(r *replica, name string, gone types.UID) {
	look := func(_ context.Context, c *v1beta1.EdgeClaim) (Sighting, error) {
		w.pause()
		return w.sighting(c), nil
	}
	if c := w.claims.stored[name]; w.looksFirst && c != nil {
		early := w.sighting(c)
		look = func(context.Context, *v1beta1.EdgeClaim) (Sighting, error) { return early, nil }
	}
	w.pause()
	c := w.claims.stored[name]
	if w.rng.IntN(2) == 0 {
		c = r.claims[name]
	}
	if c == nil {
		return
	}
	keep, released, err := w.ledger(r).Release(context.Background(), c.DeepCopy(), look, gone)
	w.note("keep=%v released=%v %v", keep, released, err)
}

func (w *world) sighting(c *v1beta1.EdgeClaim) Sighting {
	o := w.stored[HolderOf(c)]
	if o == nil {
		return Sighting{}
	}
	return Sighting{Exists: true, UID: o.uid, Generation: o.generation, Wants: o.at.Name() == c.Name}
}

// abandoned says, sometimes, that a request ends after its promise without being stored.
func (w *world) abandoned() bool { return w.rng.IntN(5) == 0 }

func (w *world) uid() types.UID {
	w.versions++
	return types.UID("u" + strconv.FormatInt(w.versions, 10))
}
