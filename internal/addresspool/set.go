// Package addresspool knows which addresses a pool has, and finds one that is free.
//
// Nothing here enumerates addresses. A pool is a Set, a sorted list of disjoint ranges; what is in use is a Taken, a
// sorted list of disjoint ranges that grow together where they meet. The lowest free address of a range is then either
// its first one, or the one behind the range in use that covers it, so that a binary search finds it in a /8 or a /64 as in
// a /24.
package addresspool

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Set is the addresses of a pool. The zero value is the empty set.
type Set struct {
	// ranges are sorted and disjoint, IPv4 before IPv6.
	ranges []entry
	// avoid says that buggy addresses are left out.
	avoid bool
}

// entry is one range of a pool.
type entry struct {
	// Range is what the pool says.
	Range
	// usable is what of it can be given to Services, but for the buggy addresses in its midst.
	usable Range
	// index is the number of the entry in the pool's spec.
	index int
}

// Contains says whether an address is in the set.
func (s Set) Contains(ip netip.Addr) bool {
	ip = ip.Unmap()
	i := s.at(ip)
	return i >= 0 && s.ranges[i].usable.Contains(ip) && !(s.avoid && buggy(ip))
}

// at is the number of the range that has an address, -1 for none.
func (s Set) at(ip netip.Addr) int {
	i, found := s.search(ip)
	if !found {
		i--
	}
	if i < 0 || !s.ranges[i].Contains(ip) {
		return -1
	}
	return i
}

// search is the place of the first range that begins at an address or above it, and whether that begins there.
func (s Set) search(from netip.Addr) (i int, found bool) {
	return slices.BinarySearchFunc(s.ranges, from, func(e entry, from netip.Addr) int { return e.From.Compare(from) })
}

// overlap finds a range that shares addresses with r.
func (s Set) overlap(r Range) (with entry, common Range, ok bool) {
	i, _ := s.search(r.From)
	for _, near := range s.ranges[max(i-1, 0):min(i+1, len(s.ranges))] {
		if common, ok = near.intersect(r); ok {
			return near, common, true
		}
	}
	return entry{}, Range{}, false
}

// Size is how many addresses the set has, of each family and in total, each at most the largest int64.
func (s Set) Size() (ipv4, ipv6, total int64) {
	for _, e := range s.ranges {
		n := s.sizeOf(e.usable)
		if e.From.Is4() {
			ipv4 = sum(ipv4, n)
		} else {
			ipv6 = sum(ipv6, n)
		}
	}
	return ipv4, ipv6, sum(ipv4, ipv6)
}

func (s Set) sizeOf(r Range) int64 {
	n := r.size()
	if s.avoid {
		n -= buggyIn(r)
	}
	return n
}

// Of is the addresses of the set that are of one family.
func (s Set) Of(family corev1.IPFamily) Set {
	of := func(e entry) bool { return FamilyOf(e.From) == family }
	first := slices.IndexFunc(s.ranges, of)
	if first < 0 {
		return Set{}
	}
	behind := first // ranges of a family are side by side
	for behind < len(s.ranges) && of(s.ranges[behind]) {
		behind++
	}
	return Set{ranges: s.ranges[first:behind], avoid: s.avoid}
}

// Ranges lists the ranges of the set in ascending order, with all their addresses.
func (s Set) Ranges() []Range {
	ranges := make([]Range, 0, len(s.ranges))
	for _, e := range s.ranges {
		ranges = append(ranges, e.Range)
	}
	return ranges
}

// Assigned is how many addresses of the set are taken.
func (s Set) Assigned(taken *Taken) int64 {
	var n int64
	for _, e := range s.ranges {
		all, bad := taken.count(e.usable)
		if s.avoid {
			all -= bad
		}
		n += all
	}
	return n
}

// FirstFree is the lowest address of a family that is in the set and in none of taken, ok is false when there is none.
func (s Set) FirstFree(family corev1.IPFamily, taken ...*Taken) (ip netip.Addr, ok bool) {
	for _, e := range s.Of(family).ranges {
		if ip, ok := s.firstFreeIn(e.usable, taken); ok {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

func (s Set) firstFreeIn(r Range, taken []*Taken) (netip.Addr, bool) {
	for ip := r.From; ip.IsValid() && r.Contains(ip); {
		behind := ip
		if s.avoid && buggy(ip) {
			behind = ip.Next()
		}
		for _, t := range taken {
			if behind.IsValid() {
				behind = t.behind(behind)
			}
		}
		if behind == ip {
			return ip, true
		}
		ip = behind
	}
	return netip.Addr{}, false
}
