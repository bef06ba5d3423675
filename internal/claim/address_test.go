package claim

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestAddressNames(t *testing.T) {
	ip := netip.MustParseAddr
	for _, tc := range []struct {
		at                 Coordinate
		name, scope, point string
	}{
		{Address(ip("192.0.2.7")), "addr.192-0-2-7", "addr", "192.0.2.7"},
		{Address(ip("::ffff:192.0.2.7")), "addr.192-0-2-7", "addr", "192.0.2.7"},
		{Address(ip("2001:db8::1")), "addr.2001-db8--1", "addr", "2001:db8::1"},
		{Address(ip("::1")), "addr.0--1", "addr", "::1"},
		{Address(ip("fd00::")), "addr.fd00--0", "addr", "fd00::"},
		{Address(ip("::")), "addr.0--0", "addr", "::"},
		{Address(ip("1:2:3:4:5:6:7:8")), "addr.1-2-3-4-5-6-7-8", "addr", "1:2:3:4:5:6:7:8"},
		{AddressPort(ip("192.0.2.7"), "TCP", 443), "addr.192-0-2-7.tcp.443", "addr/192.0.2.7", "TCP/443"},
		{AddressPort(ip("fd00::"), "UDP", 53), "addr.fd00--0.udp.53", "addr/fd00::", "UDP/53"},
		{NodePort("SCTP", 65535), "node.sctp.65535", "node", "SCTP/65535"},
	} {
		if tc.at.Name() != tc.name || tc.at.Scope() != tc.scope || tc.at.Point() != tc.point {
			t.Errorf("%s: name %q, scope %q, point %q", tc.at, tc.at.Name(), tc.at.Scope(), tc.at.Point())
		}
		if back, err := Parse(tc.name); err != nil || back != tc.at {
			t.Errorf("Parse(%q) = %v, %v", tc.name, back, err)
		}
		if family, want := ScopeFamily(tc.scope), tc.scope[:4]; family != want {
			t.Errorf("%q is of the family %q", tc.scope, family)
		}
		if errs := validation.IsDNS1123Subdomain(tc.name); len(errs) > 0 {
			t.Errorf("%q can't be the name of an object: %v", tc.name, errs)
		}
	}
	for name, at := range map[string]Coordinate{
		"no address":        Address(netip.Addr{}),
		"a zone":            Address(ip("fe80::1%eth0")),
		"port 0":            AddressPort(ip("192.0.2.7"), "TCP", 0),
		"no such protocol":  NodePort("ICMP", 80),
		"a port too large":  NodePort("TCP", 65536),
		"a port of nowhere": AddressPort(netip.Addr{}, "TCP", 80),
	} {
		if !at.IsZero() {
			t.Errorf("%s: %v", name, at)
		}
	}
}
