package claim

import (
	"context"
	"net/netip"
	"testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestServicesHandOverAddresses covers what of the claims of a Service is handed over, and to whom: addresses, and ports of addresses, that
// it has for itself.
func TestServicesHandOverAddresses(t *testing.T) {
	ip := netip.MustParseAddr("192.0.2.7")
	giver, heir := ServiceHolder("shop", "old"), ServiceHolder("data", "new")
	external := func(c *v1beta1.EdgeClaim) { c.Spec.ExternalIP = true }
	ofProxy := func(c *v1beta1.EdgeClaim) { c.Spec.ClassName = "public" }
	as := func(c *v1beta1.EdgeClaim) {}
	for name, tc := range map[string]struct {
		at     Coordinate
		change func(*v1beta1.EdgeClaim)
		by     Claimant
		want   bool
	}{
		"an address":                        {Address(ip), as, Claimant{Holder: heir}, true},
		"a port of one":                     {AddressPort(ip, "TCP", 80), as, Claimant{Holder: heir}, true},
		"a port of the nodes":               {NodePort("TCP", 80), as, Claimant{Holder: heir}, false},
		"a path":                            {HTTP("shop.example.com", "/"), as, Claimant{Holder: heir}, true},
		"a name":                            {Hostname("shop.example.com"), as, Claimant{Holder: heir}, false},
		"what it names itself":              {AddressPort(ip, "TCP", 80), external, Claimant{Holder: heir}, false},
		"what it has for a proxy":           {AddressPort(ip, "TCP", 80), ofProxy, Claimant{Holder: heir}, false},
		"to who names it itself":            {AddressPort(ip, "TCP", 80), as, Claimant{Holder: heir, ExternalIP: true}, false},
		"to who asks for a proxy":           {AddressPort(ip, "TCP", 80), as, Claimant{Holder: heir, ClassName: "public"}, false},
		"to a class, which is no Service":   {Address(ip), as, Claimant{Holder: ClassHolder("public")}, false},
		"to a Service that is not the heir": {Address(ip), as, Claimant{Holder: ServiceHolder("data", "old")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := held(tc.at, giver, "g", 1, start)
			tc.change(c)
			m := NewFake(c)
			l := ledgerAt(m, start)
			l.HandsOver = func(_ context.Context, found *v1beta1.EdgeClaim, to Claimant, _ bool) (bool, error) {
				return HolderOf(found) == giver && to.Holder == heir, nil
			}
			if err := l.Check(t.Context(), tc.by, nil, tc.at); IsHeld(err) == tc.want || !IsHeld(err) && err != nil {
				t.Errorf("checked: %v", err)
			}
			if err := l.Reserve(t.Context(), tc.by, nil, tc.at); IsHeld(err) == tc.want || !IsHeld(err) && err != nil {
				t.Errorf("reserved: %v", err)
			}
			if heirs := HeirOf(m.stored[tc.at.Name()]) == heir; heirs != tc.want {
				t.Errorf("it is promised to the heir: %v", heirs)
			}
		})
	}
}
