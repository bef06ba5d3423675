package loadbalancer

import (
	"net/netip"
	"testing"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

func TestListedAndBacked(t *testing.T) {
	points := func(names ...string) []claim.Coordinate {
		t.Helper()
		var all []claim.Coordinate
		for _, name := range names {
			at, err := claim.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, at)
		}
		return all
	}
	addresses := func(texts ...string) []netip.Addr {
		var all []netip.Addr
		for _, text := range texts {
			all = append(all, netip.MustParseAddr(text))
		}
		return all
	}
	const one4, shared80, node80 = "addr.192-0-2-1", "addr.198-51-100-1.tcp.80", "node.tcp.80"
	for name, tc := range map[string]struct {
		held   []string
		listed []netip.Addr
		// isListed says so of the first point that is held, backs of all.
		isListed, backs bool
	}{
		"nothing is listed":                     {[]string{one4}, nil, false, true},
		"the address is":                        {[]string{one4}, addresses("192.0.2.1"), true, true},
		"another is":                            {[]string{one4}, addresses("192.0.2.2"), false, false},
		"one of two is not held":                {[]string{one4}, addresses("192.0.2.1", "192.0.2.2"), true, false},
		"a port of the address":                 {[]string{shared80}, addresses("198.51.100.1"), true, true},
		"ports of the nodes":                    {[]string{node80}, addresses("10.0.0.1", "10.0.0.2"), true, true},
		"ports of the nodes, nothing is listed": {[]string{node80}, nil, false, true},
		"ports of the nodes, listed is an address that is held": {[]string{node80, one4}, addresses("192.0.2.1"), false, true},
		"ports of the nodes, and one of those is not held":      {[]string{node80, one4}, addresses("192.0.2.1", "10.0.0.1"), true, true},
	} {
		held := points(tc.held...)
		if got := IsListed(held, held[0], tc.listed); got != tc.isListed {
			t.Errorf("%s: is listed: %v", name, got)
		}
		if got := Backs(held, tc.listed); got != tc.backs {
			t.Errorf("%s: backs: %v", name, got)
		}
	}
	if Backs(nil, addresses("192.0.2.1")) || !Backs(nil, nil) {
		t.Error("who holds nothing backs nothing but what lists nothing")
	}
}
