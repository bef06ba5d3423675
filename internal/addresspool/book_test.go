package addresspool

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// pool is a pool that was created some minutes after all began.
func pool(name string, minute int, addresses ...string) *v1beta1.AddressPool {
	p := &v1beta1.AddressPool{Spec: v1beta1.AddressPoolSpec{Addresses: addresses}}
	p.Name, p.UID = name, types.UID("uid of "+name)
	p.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))
	return p
}

func priority(p *v1beta1.AddressPool, n int32) *v1beta1.AddressPool {
	p.Spec.Priority = n
	return p
}

func names(pools []*Pool) string {
	var all []string
	for _, p := range pools {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

func TestBook(t *testing.T) {
	nodes := pool("nodes", 9)
	nodes.Spec.Source = v1beta1.SourceNodeIP
	b := NewBook([]*v1beta1.AddressPool{
		pool("later", 2, "10.9.0.1", "192.0.2.128/25"),
		pool("first", 1, "192.0.2.0/24", "2001:db8::/64"),
		pool("bad", 0, "10.0.0.0/8", "10.0.0.256"),
		priority(pool("high", 3, "10.0.0.0/24"), 10),
		pool("twin-b", 4, "10.1.0.0/24"),
		pool("twin-a", 4, "10.1.0.0/24"),
		pool("after-a-loser", 5, "10.9.0.0/24"),
		nodes,
	})
	if got, want := names(b.Pools()), "high after-a-loser first nodes twin-a"; got != want {
		t.Errorf("accepted: %s, want %s", got, want)
	}
	for address, want := range map[string]string{
		"192.0.2.0": "first", "192.0.2.200": "first", "::ffff:192.0.2.1": "first", "2001:db8::1": "first", "10.0.0.255": "high",
		"10.9.0.1": "after-a-loser", "10.1.0.7": "twin-a", "10.2.0.0": "", "1.1.1.1": "", "2001:db8:0:1::": "",
	} {
		got := ""
		if p := b.Of(ip(address)); p != nil {
			got = p.Name
		}
		if got != want {
			t.Errorf("%s is in %q, want %q", address, got, want)
		}
	}
	for name, want := range map[string]string{
		"later":  `spec.addresses[1]: Duplicate value: "192.0.2.128-192.0.2.255": AddressPool first has these addresses already: an address can be in one pool only`,
		"bad":    `spec.addresses[1]: Invalid value: "10.0.0.256": is not an IP address`,
		"twin-b": `AddressPool twin-a has these addresses already`,
		"first":  "",
	} {
		v, ok := b.Verdict(name)
		if !ok || v.Accepted() != (want == "") {
			t.Errorf("%s: %+v", name, v)
		}
		if len(v.Errors()) > 0 && !strings.Contains(v.Errors().ToAggregate().Error(), want) {
			t.Errorf("%s: %v", name, v.Errors().ToAggregate())
		}
	}
	if _, ok := b.Verdict("none"); ok {
		t.Error("there is a pool that there is not")
	}
}

func TestOverlap(t *testing.T) {
	for name, test := range map[string]struct {
		a, b []string
		want string
	}{
		"apart":               {a: []string{"192.0.2.0/25"}, b: []string{"192.0.2.128/25"}},
		"of other families":   {a: []string{"192.0.2.0/24"}, b: []string{"2001:db8::/64"}},
		"an address":          {a: []string{"192.0.2.0/24"}, b: []string{"192.0.2.7"}, want: "192.0.2.7"},
		"ends":                {a: []string{"192.0.2.1-192.0.2.7"}, b: []string{"192.0.2.7-192.0.2.9"}, want: "192.0.2.7"},
		"one in the other":    {a: []string{"10.0.0.0/8"}, b: []string{"10.1.0.0/24"}, want: "10.1.0.0-10.1.0.255"},
		"the last of many":    {a: []string{"10.0.0.1", "10.0.0.3", "2001:db8::5"}, b: []string{"10.0.0.2", "10.0.0.4-10.0.0.9", "2001:db8::/64"}, want: "2001:db8::5"},
		"of which one avoids": {a: []string{"192.0.2.0/24"}, b: []string{"192.0.2.0"}, want: "192.0.2.0"},
	} {
		a, b := pool("a", 1, test.a...), pool("b", 2, test.b...)
		a.Spec.AvoidBuggyIPs = true
		for _, pair := range [][2]*v1beta1.AddressPool{{a, b}, {b, a}} {
			var got string
			for _, o := range NewBook(pair[:1]).Judge(pair[1]).Overlaps {
				got += o.Common.String()
			}
			if got != test.want {
				t.Errorf("%s: %s and %s overlap in %q, want %q", name, pair[0].Name, pair[1].Name, got, test.want)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	b := NewBook([]*v1beta1.AddressPool{pool("a", 1, "192.0.2.0/28", "192.0.2.32/28"), pool("b", 2, "10.0.0.0/8")})
	for name, test := range map[string]struct {
		pool *v1beta1.AddressPool
		// entries are those that overlap, and with which pool.
		entries map[int]string
	}{
		"apart":         {pool: pool("c", 0, "192.0.2.16/28")},
		"itself":        {pool: pool("a", 0, "192.0.2.0/24")},
		"of two pools":  {pool: pool("c", 0, "10.1.0.0/16", "192.0.3.48", "192.0.2.0/24"), entries: map[int]string{0: "b", 2: "a"}},
		"behind itself": {pool: pool("a", 0, "9.255.255.255-10.0.0.0"), entries: map[int]string{0: "b"}},
	} {
		v := b.Judge(test.pool)
		if len(v.Overlaps) != len(test.entries) {
			t.Errorf("%s: got %v", name, v.Overlaps)
		}
		for _, o := range v.Overlaps {
			if o.With.Name != test.entries[o.Entry] {
				t.Errorf("%s: entry %d overlaps %s", name, o.Entry, o.With.Name)
			}
		}
	}
}
