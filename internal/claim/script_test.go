package claim

import (
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// script lists what begins in a history: requests at random, or a few that are known for trouble, in this order
// or another.
func (w *world) script() []func(*replica) {
	a, b, at, to := StreamHolder("ns", "a"), StreamHolder("ns", "b"), Stream("c", v1beta1.TCP, 1), Stream("c", v1beta1.TCP, 2)
	switch w.rng.IntN(4) {
	case 0, 1: // an address, and one of its ports
		at = Address(netip.AddrFrom4([4]byte{192, 0, 2, 1}))
		to = AddressPort(at.Address(), "TCP", 1)
	case 2: // a host name at a port of a Gateway, and the whole port, or the other way round
		at, to = HostListener(edgeGateway, HTTPListener, 1, "example.com"), Listener(edgeGateway, v1beta1.TCP, 1)
		if w.rng.IntN(2) == 0 {
			at, to = to, at
		}
	}
	var script []func(*replica)
	switch n := w.rng.IntN(13); {
	case n == 0: // two creations of one name
		script = []func(*replica){w.creates(a, at), w.comesAndGoes(a, b, at), w.creates(a, at), w.creates(b, at)}
	case n == 1: // deleted and created anew
		w.store(a, &object{uid: w.uid(), generation: 1, at: at})
		script = []func(*replica){w.reconciles(a), w.deletes(a), w.creates(a, at), w.deletes(a), w.looks(at), w.looks(at), w.creates(b, at)}
	case n == 2: // moved to and fro
		w.store(a, &object{uid: w.uid(), generation: 1, at: to})
		script = []func(*replica){w.moves(a, at), w.moves(a, to), w.moves(a, at), w.edits(a), w.looks(at), w.creates(b, at)}
	case n == 3: // a point, and another that may not be had beside it
		w.store(a, &object{uid: w.uid(), generation: 1, at: at})
		script = []func(*replica){w.creates(a, at), w.creates(b, to), w.reconciles(a), w.reconciles(b), w.bypasses(b, to), w.moves(b, to), w.looks(to)}
	case n == 4: // deleted, and changed behind a finalizer
		w.store(a, &object{uid: w.uid(), generation: 1, at: at})
		script = []func(*replica){w.reconciles(a), w.finalizes(a), w.moves(a, to), w.looks(at), w.creates(b, to), w.creates(b, at), w.deletes(a)}
	case n == 5: // open at one point, and moved to another
		w.store(a, &object{uid: w.uid(), generation: 1, at: at})
		script = []func(*replica){w.settles(a, to), w.looks(at), w.creates(b, at), w.reconciles(b)}
	case n == 6: // about to be opened at a point, and moved to another
		w.store(a, &object{uid: w.uid(), generation: 1, at: at})
		script = []func(*replica){w.reconciles(a), w.leaves(a, b, at, to), w.reconciles(b)}
	case n > 10 && at.IsListener(): // the last host name at a port has gone, and another comes
		age := []time.Duration{0, DefaultGrace / 2, DefaultGrace - time.Second, DefaultGrace + maxSkew}[w.rng.IntN(4)]
		w.claims.put(held(hostsAt(at), GatewayHolder("edge", "public"), "", 0, w.now.Add(-age)))
		script = []func(*replica){w.looksAtHosts(at), w.creates(a, at), w.creates(b, to)}
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
	case n < 60:
		return w.deletes(a)
	case n < 65:
		return w.finalizes(a)
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

func (w *world) finalizes(h Holder) func(*replica) {
	return func(*replica) {
		w.start(fmt.Sprintf("delete %s, which has a finalizer", h), func() { w.finalize(h) })
	}
}

func (w *world) reconciles(h Holder) func(*replica) {
	return func(r *replica) { w.start(fmt.Sprintf("reconcile %s", h), func() { w.reconcile(r, h) }) }
}

// settles has an object be open at a point, then ask for another, and be open there.
func (w *world) settles(h Holder, to Coordinate) func(*replica) {
	return func(r *replica) {
		w.start(fmt.Sprintf("settle %s, and move it to %s", h, to.Point()), func() {
			w.reconcile(r, h)
			w.update(r, h, to, true)
			w.reconcile(r, h)
		})
	}
}

// comesAndGoes has an object be created and deleted at once, and another ask for its point.
func (w *world) comesAndGoes(h, next Holder, at Coordinate) func(*replica) {
	return func(r *replica) {
		w.start(fmt.Sprintf("create %s at %s, delete it, and create %s there", h, at.Point(), next), func() {
			w.create(r, h, at)
			w.delete(h)
			w.release(r, at.Name(), w.hint(at))
			w.create(r, next, at)
		})
	}
}

// leaves has an object leave a point, and another ask for it.
func (w *world) leaves(h, next Holder, at, to Coordinate) func(*replica) {
	return func(r *replica) {
		w.start(fmt.Sprintf("move %s to %s, and create %s in its place", h, to.Point(), next), func() {
			w.update(r, h, to, true)
			w.release(r, at.Name(), "")
			w.create(r, next, at)
		})
	}
}

func (w *world) looks(at Coordinate) func(*replica) {
	return func(r *replica) {
		w.start(fmt.Sprintf("look at %s", at), func() { w.release(r, at.Name(), w.hint(at)) })
		if at.IsListener() {
			w.looksAtHosts(at)(r)
		}
	}
}

// looksAtHosts looks whether host names share a port of a Gateway yet.
func (w *world) looksAtHosts(at Coordinate) func(*replica) {
	return func(r *replica) {
		w.start(fmt.Sprintf("look whether host names share port %d", at.Port()), func() { w.release(r, hostsAt(at).Name(), "") })
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
