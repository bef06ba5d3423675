package addresspool

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// set reads addresses that are good.
func set(t testing.TB, avoid bool, addresses ...string) Set {
	t.Helper()
	s, errs := Parse(&v1beta1.AddressPoolSpec{Addresses: addresses, AvoidBuggyIPs: avoid})
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return s
}

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestParseReads(t *testing.T) {
	for name, test := range map[string]struct {
		addresses []string
		avoid     bool
		// has and hasNot are addresses; total is of both families.
		has, hasNot string
		total       int64
	}{
		"a CIDR":                     {addresses: []string{"192.0.2.0/24"}, has: "192.0.2.0 192.0.2.255", hasNot: "192.0.1.255 192.0.3.0 2001:db8::1", total: 256},
		"a range":                    {addresses: []string{"192.0.2.10-192.0.2.20"}, has: "192.0.2.10 192.0.2.20", hasNot: "192.0.2.9 192.0.2.21", total: 11},
		"a range with blanks":        {addresses: []string{"192.0.2.10 - 192.0.2.20"}, has: "192.0.2.10", total: 11},
		"an address":                 {addresses: []string{"192.0.2.10"}, has: "192.0.2.10 ::ffff:192.0.2.10", hasNot: "192.0.2.9", total: 1},
		"a range of one":             {addresses: []string{"192.0.2.10-192.0.2.10"}, has: "192.0.2.10", total: 1},
		"the shortest IPv6 address":  {addresses: []string{"2000::"}, has: "2000::", total: 1},
		"an IPv6 CIDR":               {addresses: []string{"2001:db8::/120"}, has: "2001:db8:: 2001:db8::ff", hasNot: "2001:db8::100", total: 256},
		"an IPv6 range":              {addresses: []string{"2001:db8::1-2001:db8::1:0"}, has: "2001:db8::ffff", total: 65536},
		"more than can be counted":   {addresses: []string{"2001:db8::/64"}, has: "2001:db8::1", total: math.MaxInt64},
		"both, the total is bounded": {addresses: []string{"10.0.0.0/8", "2001:db8::/65"}, has: "10.1.2.3", total: math.MaxInt64},
		"in any order":               {addresses: []string{"192.0.2.7", "2001:db8::/127", "192.0.2.1-192.0.2.3"}, has: "192.0.2.2 2001:db8::1", hasNot: "192.0.2.4", total: 6},
		"side by side":               {addresses: []string{"192.0.2.0/25", "192.0.2.128/25"}, has: "192.0.2.127 192.0.2.128", total: 256},
		"without buggy ones":         {addresses: []string{"192.0.2.0/24"}, avoid: true, has: "192.0.2.1 192.0.2.254", hasNot: "192.0.2.0 192.0.2.255", total: 254},
		"ends of a smaller network":  {addresses: []string{"192.0.2.64/26"}, avoid: true, has: "192.0.2.65 192.0.2.126", hasNot: "192.0.2.64 192.0.2.127", total: 62},
		"a network of two":           {addresses: []string{"192.0.2.64/31"}, avoid: true, has: "192.0.2.64 192.0.2.65", total: 2},
		"ends of a range stay":       {addresses: []string{"192.0.2.64-192.0.2.127"}, avoid: true, has: "192.0.2.64 192.0.2.127", total: 64},
		"buggy ones in the midst":    {addresses: []string{"10.0.0.0/22"}, avoid: true, has: "10.0.1.1", hasNot: "10.0.0.255 10.0.1.0 10.0.3.255", total: 4 * 254},
		"a /8 without buggy ones":    {addresses: []string{"10.0.0.0/8"}, avoid: true, hasNot: "10.20.30.255", total: 1<<24 - 2<<16},
		"IPv6 has no buggy ones":     {addresses: []string{"2001:db8::/120"}, avoid: true, has: "2001:db8:: 2001:db8::ff", total: 256},
		"nothing":                    {},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, test.avoid, test.addresses...)
			for _, a := range strings.Fields(test.has) {
				if !s.Contains(ip(a)) {
					t.Errorf("%s is missing", a)
				}
			}
			for _, a := range strings.Fields(test.hasNot) {
				if s.Contains(ip(a)) {
					t.Errorf("%s is there", a)
				}
			}
			if _, _, total := s.Size(); total != test.total {
				t.Errorf("%d addresses, want %d", total, test.total)
			}
			if s.Contains(netip.Addr{}) {
				t.Error("it has no address")
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		addresses []string
		avoid     bool
		want      string
	}{
		"words":                  {addresses: []string{"all of them"}, want: `spec.addresses[0]: Invalid value: "all of them": is not an IP address: ` + examples},
		"a host name":            {addresses: []string{"lb-1.example.com"}, want: "the first address of the range: is not an IP address"},
		"half a range":           {addresses: []string{"192.0.2.1-"}, want: "the last address of the range: is not an IP address"},
		"the last byte only":     {addresses: []string{"192.0.2.1-20"}, want: "the last address of the range: is not an IP address"},
		"leading zeros":          {addresses: []string{"192.0.2.010"}, want: "is not an IP address"},
		"an impossible network":  {addresses: []string{"192.0.2.0/33"}, want: "is not a CIDR: " + examples},
		"host bits":              {addresses: []string{"192.0.2.5/24"}, want: "192.0.2.5 is in the midst of its network: write 192.0.2.0/24 for all of that, or 192.0.2.5 for the one address"},
		"backwards":              {addresses: []string{"192.0.2.20-192.0.2.10"}, want: "the range ends before it begins: write 192.0.2.10-192.0.2.20"},
		"two families":           {addresses: []string{"192.0.2.20-2001:db8::1"}, want: "one end of the range is IPv4 and the other is IPv6"},
		"a zone":                 {addresses: []string{"2001:db8::1%eth0"}, want: "an address of a pool has no zone: write 2001:db8::1"},
		"mapped":                 {addresses: []string{"::ffff:192.0.2.1"}, want: "is an IPv4 address that is mapped to IPv6: write it as IPv4, 192.0.2.1"},
		"mapped networks":        {addresses: []string{"::ffff:192.0.2.0/120"}, want: "write it as IPv4, 192.0.2.0"},
		"everything":             {addresses: []string{"0.0.0.0/0"}, want: "0.0.0.0-0.255.255.255 means this host (0.0.0.0/8): no Service can have such an address"},
		"everything, IPv6":       {addresses: []string{"::/0"}, want: ":: means no address (::/128)"},
		"loopback":               {addresses: []string{"127.0.0.1"}, want: "127.0.0.1 is loopback"},
		"loopback, IPv6":         {addresses: []string{"::1"}, want: "::1 is loopback"},
		"link-local":             {addresses: []string{"169.254.169.254"}, want: "169.254.169.254 is link-local"},
		"link-local, IPv6":       {addresses: []string{"fe80::/64"}, want: "is link-local (fe80::/10)"},
		"multicast in the midst": {addresses: []string{"223.255.255.250-224.0.0.3"}, want: "224.0.0.0-224.0.0.3 is multicast (224.0.0.0/4)"},
		"multicast, IPv6":        {addresses: []string{"ff02::1"}, want: "ff02::1 is multicast"},
		"broadcast":              {addresses: []string{"255.255.255.255"}, want: "is the broadcast address"},
		"twice the same":         {addresses: []string{"192.0.2.1", "192.0.2.1"}, want: `spec.addresses[1]: Duplicate value: "192.0.2.1": 192.0.2.1 is in spec.addresses[0] (192.0.2.1), too: an address can be in a pool once`},
		"an address of a CIDR":   {addresses: []string{"192.0.2.0/24", "10.0.0.1", "192.0.2.9"}, want: `spec.addresses[2]: Duplicate value: "192.0.2.9": 192.0.2.9 is in spec.addresses[0] (192.0.2.0/24), too`},
		"a CIDR of an address":   {addresses: []string{"192.0.2.9", "192.0.2.0/24"}, want: `192.0.2.9 is in spec.addresses[0] (192.0.2.9), too`},
		"ends that meet":         {addresses: []string{"192.0.2.1-192.0.2.5", "192.0.2.5-192.0.2.9"}, want: `192.0.2.5 is in spec.addresses[0]`},
		"nothing is left":        {addresses: []string{"192.0.2.255"}, avoid: true, want: "avoidBuggyIPs leaves no address of it: take it out"},
		"nothing is left of two": {addresses: []string{"192.0.2.255-192.0.3.0"}, avoid: true, want: "avoidBuggyIPs leaves no address of it"},
		"only the bad ones":      {addresses: []string{"10.0.0.1", "x", "y"}, want: `spec.addresses[2]: Invalid value: "y"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := Parse(&v1beta1.AddressPoolSpec{Addresses: test.addresses, AvoidBuggyIPs: test.avoid})
			if len(errs) == 0 {
				t.Fatal("it passes")
			}
			if got := errs.ToAggregate().Error(); !strings.Contains(got, test.want) {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestSelectors(t *testing.T) {
	pool := &v1beta1.AddressPool{Spec: v1beta1.AddressPoolSpec{
		Addresses:         []string{"192.0.2.1"},
		ServiceSelector:   &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}},
	}}
	p, errs := New(pool)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	edge, a := map[string]string{"tier": "edge"}, map[string]string{"team": "a"}
	if !p.Serves(edge, a) || p.Serves(nil, a) || p.Serves(edge, nil) || !p.Nodes.Matches(nil) {
		t.Error("the selectors do not select")
	}
	pool.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
	pool.Spec.Addresses = []string{"x"}
	if _, errs = New(pool); len(errs) != 2 || errs[1].Field != "spec.nodeSelector" {
		t.Errorf("got %v", errs)
	}
}

// FuzzParse holds that whatever is read can be written and read again, and that nothing is in a set that no Service can
// have.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"192.0.2.0/24", "192.0.2.10-192.0.2.20", "192.0.2.1\n2001:db8::/64", "192.0.2.0/24\n192.0.2.7", "::/0", "1.2.3.4/0\n-\n/", "fe80::1%eth0", "192.0.2.255-192.0.3.0",
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, avoid bool) {
		spec := &v1beta1.AddressPoolSpec{Addresses: strings.Split(text, "\n"), AvoidBuggyIPs: avoid}
		s, errs := Parse(spec)
		for _, err := range errs {
			if err.Detail == "" || err.Field == "" {
				t.Errorf("%v says nothing", err)
			}
		}
		if len(s.ranges)+len(errs) != len(spec.Addresses) {
			t.Errorf("%d ranges and %d refusals of %d entries", len(s.ranges), len(errs), len(spec.Addresses))
		}
		var again []string
		for i, e := range s.ranges {
			if e.To.Less(e.From) || e.From.BitLen() != e.To.BitLen() || specialIn(e.Range) != "" || s.sizeOf(e.usable) < 1 {
				t.Errorf("range %s of %q", e, text)
			}
			if i > 0 && !s.ranges[i-1].To.Less(e.From) {
				t.Errorf("ranges %s and %s of %q are not apart", s.ranges[i-1], e, text)
			}
			again = append(again, e.String())
		}
		if avoid {
			return // which ends are left out depends on how the range is written
		}
		other, errs := Parse(&v1beta1.AddressPoolSpec{Addresses: again})
		if len(errs) > 0 || !slices.Equal(other.Ranges(), s.Ranges()) {
			t.Errorf("%q is read as %v, and that as %v, %v", text, again, other.ranges, errs)
		}
	})
}
