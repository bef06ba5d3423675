package allocator

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// pooled is a class that has addresses of the pool "pool", or asks for some.
func pooled(asks []string, has ...string) *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{}
	c.Name = "kernel"
	c.Spec.AddressPool = &v1beta1.ClassAddressPool{Name: "pool", Namespace: "streams", Addresses: asks}
	c.Status.Addresses = has
	return c
}

func shares(s *v1beta1.AddressPoolSpec) { s.Sharing = v1beta1.SharingPorts }

// TestForClass gives classes their addresses.
func TestForClass(t *testing.T) {
	kernel, other := claim.ClassHolder("kernel"), claim.ServiceHolder("shop", "web")
	both46 := poolOfSource(v1beta1.SourceAddresses, lists("192.0.2.0/30", "2001:db8::/126"))
	for name, tc := range map[string]struct {
		class *v1beta1.StreamIngressClass
		pool  *v1beta1.AddressPool
		held  map[claim.Coordinate]*v1beta1.EdgeClaim
		// want are the addresses, with * behind those of which it has the whole; reason that of the first problem.
		want   []string
		reason string
	}{
		"the lowest that is free":                   {pooled(nil), poolOfSource(v1beta1.SourceAddresses), claims(other, at("192.0.2.0")), []string{"192.0.2.1*"}, ""},
		"one of each family":                        {pooled(nil), both46, nil, []string{"192.0.2.0*", "2001:db8::*"}, ""},
		"one family is enough where one is used up": {pooled(nil), poolOfSource(v1beta1.SourceAddresses, lists("192.0.2.7", "2001:db8::7")), claims(other, at("192.0.2.7")), []string{"2001:db8::7*"}, ""},
		"the one that it has":                       {pooled(nil, "192.0.2.5"), poolOfSource(v1beta1.SourceAddresses), claims(kernel, at("192.0.2.5")), []string{"192.0.2.5*"}, ""},
		"the one that it holds already":             {pooled(nil), poolOfSource(v1beta1.SourceAddresses), claims(kernel, at("192.0.2.5")), []string{"192.0.2.5*"}, ""},
		"another, when the pool has it no longer":   {pooled(nil, "192.0.2.99"), poolOfSource(v1beta1.SourceAddresses), nil, []string{"192.0.2.0*"}, ""},
		"another, when it became somebody else's":   {pooled(nil, "192.0.2.5"), poolOfSource(v1beta1.SourceAddresses), claims(other, at("192.0.2.5")), []string{"192.0.2.0*"}, ""},
		"the one that it asks for":                  {pooled([]string{"192.0.2.9"}, "192.0.2.5"), poolOfSource(v1beta1.SourceAddresses), nil, []string{"192.0.2.9*"}, ""},
		"one that another has":                      {pooled([]string{"192.0.2.9"}), poolOfSource(v1beta1.SourceAddresses), claims(other, at("192.0.2.9")), nil, v1beta1.ReasonAddressConflict},
		"one of which another has a port":           {pooled([]string{"192.0.2.9"}), poolOfSource(v1beta1.SourceAddresses), claims(other, portAt("192.0.2.9", 80)), nil, v1beta1.ReasonAddressConflict},
		"one that is in no pool":                    {pooled([]string{"198.51.100.9"}), poolOfSource(v1beta1.SourceAddresses), nil, nil, v1beta1.ReasonAddressNotInPool},
		"what is no address":                        {pooled([]string{"::ffff:192.0.2.9"}), poolOfSource(v1beta1.SourceAddresses), nil, nil, v1beta1.ReasonInvalid},
		"of a pool that is used up":                 {pooled(nil), poolOfSource(v1beta1.SourceAddresses, lists("192.0.2.7")), claims(other, at("192.0.2.7")), nil, v1beta1.ReasonNoFreeAddress},
		"of a pool that does not exist":             {pooled(nil), nil, nil, nil, v1beta1.ReasonAddressPoolNotFound},
		"of a pool without addresses of its own":    {pooled(nil), poolOfSource(v1beta1.SourceNodeIP), nil, nil, v1beta1.ReasonAddressPoolNotAllowed},
		"where addresses are shared, no claim":      {pooled(nil), poolOfSource(v1beta1.SourceAddresses, shares), claims(other, portAt("192.0.2.0", 80)), []string{"192.0.2.0"}, ""},
		"shared, and asked for":                     {pooled([]string{"192.0.2.9"}), poolOfSource(v1beta1.SourceAddresses, shares), claims(other, portAt("192.0.2.9", 80)), []string{"192.0.2.9"}, ""},
		"shared by all but one who has the whole":   {pooled([]string{"192.0.2.9"}), poolOfSource(v1beta1.SourceAddresses, shares), claims(other, at("192.0.2.9")), nil, v1beta1.ReasonAddressConflict},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{claims: tc.held}
			if tc.pool != nil {
				c.pools = []*v1beta1.AddressPool{tc.pool}
			}
			decide := func() Decision {
				return ForClass(c, tc.class, func(*v1beta1.EdgeClaim) time.Duration { return 0 })
			}
			d := decide()
			var got []string
			for _, allocation := range d.Allocations {
				text := allocation.Address.String()
				if slices.Equal(allocation.Points, []claim.Coordinate{claim.Address(allocation.Address)}) {
					text += "*"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			reason := ""
			if len(d.Problems) > 0 {
				reason = d.Problems[0].Reason
			}
			if reason != tc.reason {
				t.Errorf("got the problems %v, want %q", d.Problems, tc.reason)
			}
			c.failAfterEach(func() { decide() })
		})
	}
}
