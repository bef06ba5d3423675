package addresspool

import (
	"iter"
	"net/netip"
	"slices"
)

// Taken is a set of addresses that are in use. To look for one takes time that grows with the logarithm of the number of ranges.
// To add or remove one moves the ranges above it, a copy of memory, and to count or list those in a range visits each range in
// it. The zero value is the empty set. It is not safe for concurrent use.
type Taken struct {
	// ranges are sorted and disjoint, and do not touch.
	ranges []Range
	// size is how many addresses are in them.
	size int64
}

// Has says whether an address is taken.
func (t *Taken) Has(ip netip.Addr) bool {
	_, has := t.search(ip)
	return has
}

// Len is how many addresses are taken.
func (t *Taken) Len() int64 { return t.size }

// Add takes an address. It says whether that was free.
func (t *Taken) Add(ip netip.Addr) bool {
	i, has := t.search(ip)
	if has || !ip.IsValid() {
		return false
	}
	grown, first, behind := Range{From: ip, To: ip}, i, i
	if i > 0 && t.ranges[i-1].To.Next() == ip {
		first--
		grown.From = t.ranges[first].From
	}
	if i < len(t.ranges) && t.ranges[i].From.Prev() == ip {
		grown.To = t.ranges[i].To
		behind++
	}
	t.ranges = slices.Replace(t.ranges, first, behind, grown)
	t.size++
	return true
}

// Remove frees an address. It says whether that was taken.
func (t *Taken) Remove(ip netip.Addr) bool {
	i, has := t.search(ip)
	if !has {
		return false
	}
	whole, rest := t.ranges[i], make([]Range, 0, 2)
	if whole.From != ip {
		rest = append(rest, Range{From: whole.From, To: ip.Prev()})
	}
	if whole.To != ip {
		rest = append(rest, Range{From: ip.Next(), To: whole.To})
	}
	t.ranges = slices.Replace(t.ranges, i, i+1, rest...)
	t.size--
	return true
}

// In goes through the taken addresses of a range, in ascending order. Nothing may be added or removed meanwhile.
func (t *Taken) In(r Range) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for common := range t.within(r) {
			for ip := common.From; ip.IsValid() && common.Contains(ip); ip = ip.Next() {
				if !yield(ip) {
					return
				}
			}
		}
	}
}

// behind is the first address from ip on that is not taken; the zero Addr if all to the end of the family are.
func (t *Taken) behind(ip netip.Addr) netip.Addr {
	if i, has := t.search(ip); has {
		return t.ranges[i].To.Next()
	}
	return ip
}

// count is how many addresses of a range are taken, and how many of these are buggy.
func (t *Taken) count(r Range) (all, bad int64) {
	for common := range t.within(r) {
		all, bad = all+common.size(), bad+buggyIn(common)
	}
	return all, bad
}

// within goes through what the ranges have in common with another one.
func (t *Taken) within(r Range) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		i, _ := t.search(r.From)
		for ; i < len(t.ranges) && !r.To.Less(t.ranges[i].From); i++ {
			if common, ok := t.ranges[i].intersect(r); ok && !yield(common) {
				return
			}
		}
	}
}

// search is the number of the range that has an address, or else that of the first one above it.
func (t *Taken) search(ip netip.Addr) (i int, has bool) {
	return slices.BinarySearchFunc(t.ranges, ip, func(r Range, ip netip.Addr) int {
		switch {
		case r.To.Less(ip):
			return -1
		case ip.Less(r.From):
			return 1
		}
		return 0
	})
}
