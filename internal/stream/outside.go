package stream

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
)

// metadata are the addresses at which clouds tell machines their credentials, as far as they are not link-local: AWS and
// Google Cloud on IPv6, Alibaba Cloud, Azure (its WireServer) and Oracle Cloud, each by its documentation of the instance
// metadata service.
var metadata = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
}

// thisNetwork is no destination (RFC 1122, section 3.2.1.3); some systems take it for the machine itself.
var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")

// embedding are the IPv6 prefixes of which an address stands for an IPv4 address, with the bytes that are that one's.
var embedding = []struct {
	prefix netip.Prefix
	at     [4]int
}{
	{netip.MustParsePrefix("::/96"), [4]int{12, 13, 14, 15}},           // IPv4-compatible, RFC 4291
	{netip.MustParsePrefix("::ffff:0:0:0/96"), [4]int{12, 13, 14, 15}}, // IPv4-translated, RFC 2765
	{netip.MustParsePrefix("64:ff9b::/96"), [4]int{12, 13, 14, 15}},    // NAT64, RFC 6052
	// NAT64 of local use, RFC 8215, with prefixes of 96, 64, 56 and 48 bits: nothing in an address says which, so it is refused
	// for what it is in any of them.
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{12, 13, 14, 15}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{9, 10, 11, 12}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{7, 9, 10, 11}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{6, 7, 9, 10}},
	{netip.MustParsePrefix("2002::/16"), [4]int{2, 3, 4, 5}}, // 6to4, RFC 3056
}

// OutsideHost says why a host, a DNS name or an IP address, can't be the upstream of a stream outside the cluster; empty if
// it can. domain is that of the cluster, such as cluster.local. Where a name leads can't be told from it.
func OutsideHost(host, domain string) string {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return outsideName(host, domain)
	}
	ip = ip.Unmap()
	if why := outsideAddress(ip); why != "" {
		return why
	}
	for _, v4 := range embedded(ip) {
		if why := outsideAddress(v4); why != "" {
			return why
		}
	}
	return ""
}

// embedded are the IPv4 addresses that an IPv6 address may stand for. Read by another length of the prefix than its own, an
// address has zeros where the IPv4 address would begin: such a reading counts unless one of another length is as RFC 6052
// writes it, with nothing but zeros in byte 8 and behind the IPv4 address.
func embedded(ip netip.Addr) (readings []netip.Addr) {
	whole, written := ip.As16(), false
	for _, e := range embedding {
		if !e.prefix.Contains(ip) {
			continue
		}
		v4 := netip.AddrFrom4([4]byte{whole[e.at[0]], whole[e.at[1]], whole[e.at[2]], whole[e.at[3]]})
		written = written || !thisNetwork.Contains(v4) && whole[8] == 0 && len(bytes.Trim(whole[e.at[3]+1:], "\x00")) == 0
		readings = append(readings, v4)
	}
	if written {
		readings = slices.DeleteFunc(readings, thisNetwork.Contains)
	}
	return readings
}

func outsideAddress(ip netip.Addr) string {
	switch {
	case !ip.IsGlobalUnicast() || thisNetwork.Contains(ip):
		return "must be a unicast address that is not loopback or link-local"
	case slices.Contains(metadata, ip):
		return "is where the machine itself is told its credentials"
	default:
		return ""
	}
}

func outsideName(host, domain string) string {
	name := "." + strings.ToLower(strings.TrimSuffix(host, "."))
	for _, inside := range []string{".svc", "." + domain, ".localhost"} {
		if strings.HasSuffix(name, inside) {
			return "must be outside the cluster: name a Service of the cluster in upstream.service, and its namespace in upstream.namespace"
		}
	}
	return ""
}
