package addresspool

import (
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Range is all addresses from one to another of the same family, both included.
type Range struct{ From, To netip.Addr }

// FamilyOf is the family of an address, empty for none.
func FamilyOf(ip netip.Addr) corev1.IPFamily {
	switch {
	case ip.Is4(), ip.Is4In6():
		return corev1.IPv4Protocol
	case ip.Is6():
		return corev1.IPv6Protocol
	}
	return ""
}

// Contains says whether an address is in the range.
func (r Range) Contains(ip netip.Addr) bool { return !ip.Less(r.From) && !r.To.Less(ip) }

// String is the range as it is written in a pool: one address, or two with a dash between them.
func (r Range) String() string {
	if r.From == r.To {
		return r.From.String()
	}
	return r.From.String() + "-" + r.To.String()
}

// intersect is what two ranges have in common.
func (r Range) intersect(other Range) (common Range, ok bool) {
	common = r
	if common.From.Less(other.From) {
		common.From = other.From
	}
	if other.To.Less(common.To) {
		common.To = other.To
	}
	return common, !common.To.Less(common.From) && common.From.BitLen() == common.To.BitLen()
}

// size is the number of addresses in the range, at most the largest int64.
func (r Range) size() int64 {
	if r.To.Less(r.From) {
		return 0
	}
	fromHigh, fromLow := halves(r.From)
	toHigh, toLow := halves(r.To)
	low, borrow := bits.Sub64(toLow, fromLow, 0)
	high, _ := bits.Sub64(toHigh, fromHigh, borrow)
	if high > 0 || low >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low) + 1
}

// halves are the bits of an address as two numbers.
func halves(ip netip.Addr) (high, low uint64) {
	bytes := ip.As16()
	return binary.BigEndian.Uint64(bytes[:8]), binary.BigEndian.Uint64(bytes[8:])
}

// buggy says whether old devices take an address for a broadcast: it is IPv4 and ends in .0 or .255.
func buggy(ip netip.Addr) bool {
	if !ip.Is4() {
		return false
	}
	last := ip.As4()[3]
	return last == 0 || last == math.MaxUint8
}

// buggyIn is how many buggy addresses are in a range.
func buggyIn(r Range) int64 {
	if !r.From.Is4() || r.To.Less(r.From) {
		return 0
	}
	// before counts them below a number: two in each 256 addresses, of which one is at the start.
	before := func(n int64) int64 { return n>>8*2 + min(n&math.MaxUint8, 1) }
	return before(number(r.To)+1) - before(number(r.From))
}

// number is an IPv4 address as a number.
func number(ip netip.Addr) int64 {
	bytes := ip.As4()
	return int64(binary.BigEndian.Uint32(bytes[:]))
}

// sum adds sizes, up to the largest int64.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Everything is all addresses that there are.
var Everything = []Range{
	{From: netip.AddrFrom4([4]byte{}), To: LastOf(netip.PrefixFrom(netip.AddrFrom4([4]byte{}), 0))},
	{From: netip.IPv6Unspecified(), To: LastOf(netip.PrefixFrom(netip.IPv6Unspecified(), 0))},
}
