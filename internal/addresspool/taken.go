package addresspool

import (
	"iter"
	"math/rand/v2"
	"net/netip"
)

// Taken is a set of addresses that are in use. To add and to remove one, to look for one, and to count those in a range
// takes time that grows with the logarithm of their number. The zero value is the empty set. It is not safe for
// concurrent use.
type Taken struct {
	// root is of a treap: by From it is a search tree, by priority a heap, and as priorities are random it is balanced.
	// Its ranges are disjoint and do not touch.
	root *node
}

type node struct {
	Range
	priority    uint64
	left, right *node
	// all is how many addresses are in the ranges of this node and those below it, bad how many of them are buggy.
	all, bad int64
}

// Has says whether an address is taken.
func (t *Taken) Has(ip netip.Addr) bool {
	r, ok := t.floor(ip)
	return ok && r.Contains(ip)
}

// Len is how many addresses are taken.
func (t *Taken) Len() int64 {
	all, _ := t.root.counts()
	return all
}

// Add takes an address. It says whether that was free.
func (t *Taken) Add(ip netip.Addr) bool {
	below, ok := t.floor(ip)
	if !ip.IsValid() || ok && below.Contains(ip) {
		return false
	}
	grown := Range{From: ip, To: ip}
	if ok && below.To.Next() == ip {
		grown.From = below.From
		t.cut(below)
	}
	if next := ip.Next(); next.IsValid() {
		if above, ok := t.floor(next); ok && above.From == next {
			grown.To = above.To
			t.cut(above)
		}
	}
	t.insert(grown)
	return true
}

// Remove frees an address. It says whether that was taken.
func (t *Taken) Remove(ip netip.Addr) bool {
	whole, ok := t.floor(ip)
	if !ok || !whole.Contains(ip) {
		return false
	}
	t.cut(whole)
	if whole.From != ip {
		t.insert(Range{From: whole.From, To: ip.Prev()})
	}
	if whole.To != ip {
		t.insert(Range{From: ip.Next(), To: whole.To})
	}
	return true
}

// In goes through the taken addresses of a range, in ascending order. Nothing may be added or removed meanwhile.
func (t *Taken) In(r Range) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) { t.root.walk(r, yield) }
}

func (n *node) walk(r Range, yield func(netip.Addr) bool) bool {
	if n == nil {
		return true
	}
	if r.From.Less(n.From) && !n.left.walk(r, yield) {
		return false
	}
	if common, ok := n.intersect(r); ok {
		for ip := common.From; ip.IsValid() && common.Contains(ip); ip = ip.Next() {
			if !yield(ip) {
				return false
			}
		}
	}
	return !n.To.Less(r.To) || n.right.walk(r, yield)
}

// behind is the first address from ip on that is not taken; the zero Addr if all to the end of the family are.
func (t *Taken) behind(ip netip.Addr) netip.Addr {
	if r, ok := t.floor(ip); ok && r.Contains(ip) {
		return r.To.Next()
	}
	return ip
}

// floor is the range that begins at an address, or else the one next below.
func (t *Taken) floor(ip netip.Addr) (r Range, ok bool) {
	for n := t.root; n != nil; {
		if ip.Less(n.From) {
			n = n.left
		} else {
			r, ok = n.Range, true
			n = n.right
		}
	}
	return r, ok
}

// count is how many addresses of a range are taken, and how many of these are buggy.
func (t *Taken) count(r Range) (all, bad int64) {
	for n := t.root; n != nil; {
		switch {
		case n.To.Less(r.From):
			n = n.right
		case r.To.Less(n.From):
			n = n.left
		default: // This range is the topmost one that touches r; from here on, each side is cut off at one end only.
			common, _ := n.intersect(r)
			all, bad = common.size(), buggyIn(common)
			for m := n.left; m != nil; {
				m = m.countTail(r.From, &all, &bad)
			}
			for m := n.right; m != nil; {
				m = m.countHead(r.To, &all, &bad)
			}
			return all, bad
		}
	}
	return 0, 0
}

// countTail adds what there is from an address on in this node and on its right, and returns where to go on.
func (n *node) countTail(from netip.Addr, all, bad *int64) (next *node) {
	if n.To.Less(from) {
		return n.right
	}
	n.right.addTo(all, bad)
	part := Range{From: later(n.From, from), To: n.To}
	*all, *bad = *all+part.size(), *bad+buggyIn(part)
	return n.left
}

// countHead adds what there is up to an address in this node and on its left, and returns where to go on.
func (n *node) countHead(to netip.Addr, all, bad *int64) (next *node) {
	if to.Less(n.From) {
		return n.left
	}
	n.left.addTo(all, bad)
	part := n.Range
	if to.Less(part.To) {
		part.To = to
	}
	*all, *bad = *all+part.size(), *bad+buggyIn(part)
	return n.right
}

func (n *node) addTo(all, bad *int64) {
	more, worse := n.counts()
	*all, *bad = *all+more, *bad+worse
}

func (n *node) counts() (all, bad int64) {
	if n == nil {
		return 0, 0
	}
	return n.all, n.bad
}

// insert adds a range that touches no other.
func (t *Taken) insert(r Range) {
	below, above := split(t.root, r.From)
	one := &node{Range: r, priority: rand.Uint64()}
	one.recount()
	t.root = join(join(below, one), above)
}

// cut removes a range that is there.
func (t *Taken) cut(r Range) {
	below, rest := split(t.root, r.From)
	t.root = join(below, withoutFirst(rest))
}

func withoutFirst(n *node) *node {
	if n.left == nil {
		return n.right
	}
	n.left = withoutFirst(n.left)
	n.recount()
	return n
}

func (n *node) recount() {
	n.all, n.bad = n.size(), buggyIn(n.Range)
	n.left.addTo(&n.all, &n.bad)
	n.right.addTo(&n.all, &n.bad)
}

// split divides a tree into the ranges that begin below an address and those that begin at or above it.
func split(n *node, at netip.Addr) (below, rest *node) {
	if n == nil {
		return nil, nil
	}
	if n.From.Less(at) {
		n.right, rest = split(n.right, at)
		n.recount()
		return n, rest
	}
	below, n.left = split(n.left, at)
	n.recount()
	return below, n
}

// join makes one tree of two, of which the first is all below the second.
func join(below, above *node) *node {
	switch {
	case below == nil:
		return above
	case above == nil:
		return below
	case below.priority > above.priority:
		below.right = join(below.right, above)
		below.recount()
		return below
	default:
		above.left = join(below, above.left)
		above.recount()
		return above
	}
}
