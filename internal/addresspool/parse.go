package addresspool

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

var addressesPath = field.NewPath("spec", "addresses")

// examples ends every refusal of what can't be read.
const examples = "write a CIDR (192.0.2.0/24), a range (192.0.2.10-192.0.2.20) or a single address, IPv4 or IPv6"

// Parse reads the addresses of a pool. Those of other sources than Addresses are the empty set.
func Parse(spec *v1beta1.AddressPoolSpec) (Set, field.ErrorList) {
	var errs field.ErrorList
	set := Set{avoid: spec.AvoidBuggyIPs}
	for i, text := range spec.Addresses {
		path := addressesPath.Index(i)
		e, problem := parseEntry(text, spec.AvoidBuggyIPs)
		if problem != "" {
			errs = append(errs, field.Invalid(path, text, problem))
			continue
		}
		if other, common, overlaps := set.overlap(e.Range); overlaps {
			errs = append(errs, duplicate(path, text, fmt.Sprintf("%s is in %s (%s), too: an address can be in a pool once",
				common, addressesPath.Index(other.index), spec.Addresses[other.index])))
			continue
		}
		e.index = i
		place, _ := set.search(e.From)
		set.ranges = slices.Insert(set.ranges, place, e)
	}
	return set, errs
}

func duplicate(path *field.Path, value, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeDuplicate, Field: path.String(), BadValue: value, Detail: detail}
}

// parseEntry reads one entry of a pool; the problem is empty when it is good.
func parseEntry(text string, avoid bool) (e entry, problem string) {
	r, isCIDR, problem := parseRange(text)
	if problem != "" {
		return entry{}, problem
	}
	if special := specialIn(r); special != "" {
		return entry{}, special
	}
	e = entry{Range: r, usable: r}
	if !avoid {
		return e, ""
	}
	if isCIDR && r.From.Is4() && r.size() > 2 {
		e.usable = Range{From: r.From.Next(), To: r.To.Prev()}
	}
	if (Set{avoid: true}).sizeOf(e.usable) == 0 {
		return entry{}, "avoidBuggyIPs leaves no address of it: take it out"
	}
	return e, ""
}

// parseRange reads a CIDR, a range or a single address.
func parseRange(text string) (r Range, isCIDR bool, problem string) {
	if from, to, found := strings.Cut(text, "-"); found {
		r, problem = parseEnds(strings.TrimSpace(from), strings.TrimSpace(to))
		return r, false, problem
	}
	if strings.Contains(text, "/") {
		r, problem = parseCIDR(text)
		return r, true, problem
	}
	ip, problem := parseAddr(text)
	return Range{From: ip, To: ip}, false, problem
}

func parseEnds(from, to string) (r Range, problem string) {
	if r.From, problem = parseAddr(from); problem != "" {
		return Range{}, "the first address of the range: " + problem
	}
	if r.To, problem = parseAddr(to); problem != "" {
		return Range{}, "the last address of the range: " + problem
	}
	switch {
	case r.From.BitLen() != r.To.BitLen():
		return Range{}, "one end of the range is IPv4 and the other is IPv6: write a range for each"
	case r.To.Less(r.From):
		return Range{}, fmt.Sprintf("the range ends before it begins: write %s-%s", r.To, r.From)
	}
	return r, ""
}

func parseCIDR(text string) (r Range, problem string) {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return Range{}, "is not a CIDR: " + examples
	case prefix.Addr().Is4In6():
		return Range{}, mapped(prefix.Addr())
	case prefix.Masked() != prefix:
		return Range{}, fmt.Sprintf("%s is in the midst of its network: write %s for all of that, or %s for the one address",
			prefix.Addr(), prefix.Masked(), prefix.Addr())
	}
	return Range{From: prefix.Addr(), To: LastOf(prefix)}, ""
}

func parseAddr(text string) (ip netip.Addr, problem string) {
	ip, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return netip.Addr{}, "is not an IP address: " + examples
	case ip.Zone() != "":
		return netip.Addr{}, fmt.Sprintf("an address of a pool has no zone: write %s", ip.WithZone(""))
	case ip.Is4In6():
		return netip.Addr{}, mapped(ip)
	}
	return ip, ""
}

func mapped(ip netip.Addr) string {
	return fmt.Sprintf("is an IPv4 address that is mapped to IPv6: write it as IPv4, %s", ip.Unmap())
}

// LastOf is the last address of a network.
func LastOf(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for i := range bytes {
		host := min(max(8*(i+1)-prefix.Bits(), 0), 8) // how many of these bits are the host's
		bytes[i] |= byte(1<<host - 1)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// special are the networks whose addresses can't be a Service's.
var special = []struct {
	network, what string
	within        Range
}{
	{network: "0.0.0.0/8", what: "means this host"},
	{network: "127.0.0.0/8", what: "is loopback"},
	{network: "169.254.0.0/16", what: "is link-local"},
	{network: "224.0.0.0/4", what: "is multicast"},
	{network: "255.255.255.255/32", what: "is the broadcast address"},
	{network: "::/128", what: "means no address"},
	{network: "::1/128", what: "is loopback"},
	{network: "::ffff:0:0/96", what: "is IPv4 that is mapped to IPv6"},
	{network: "fe80::/10", what: "is link-local"},
	{network: "ff00::/8", what: "is multicast"},
}

func init() {
	for i := range special {
		prefix := netip.MustParsePrefix(special[i].network)
		special[i].within = Range{From: prefix.Addr(), To: LastOf(prefix)}
	}
}

// specialIn says which addresses of a range can't be a Service's, and nothing if all can.
func specialIn(r Range) string {
	for _, s := range special {
		if common, ok := s.within.intersect(r); ok {
			return fmt.Sprintf("%s %s (%s): no Service can have such an address", common, s.what, s.network)
		}
	}
	return ""
}
