package claim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

var (
	edgeGateway = types.NamespacedName{Namespace: "edge", Name: "public"}
	wholePort   = Listener(edgeGateway, v1beta1.TCP, 80)
	itsHost     = HostListener(edgeGateway, HTTPListener, 80, "example.com")
	nextHost    = HostListener(edgeGateway, TLSListener, 80, "*.example.com")
	itsHosts    = hostsAt(itsHost)
	setAlice    = ListenerSetHolder("shop", "alice")
	setBob      = ListenerSetHolder("shop", "bob")
)

// hostsAt says of the port of a listener that host names share it.
func hostsAt(at Coordinate) Coordinate { return Listener(at.Gateway(), HTTPListener, at.Port()) }

// marked is the claim which says that host names share port 80, as it was renewed at a time.
func marked(renewed time.Time) *v1beta1.EdgeClaim {
	return held(itsHosts, GatewayHolder("edge", "public"), "", 0, renewed)
}

// longest is a DNS name of so many bytes.
func longest(n int) string {
	label := strings.Repeat("a", 62) + "."
	return strings.TrimSuffix((strings.Repeat(label, n/len(label)) + strings.Repeat("b", n%len(label)+1))[:n], ".")
}

func TestListenerCoordinates(t *testing.T) {
	dotted := types.NamespacedName{Namespace: "edge", Name: "public.v1.tcp"}
	type forms struct{ Scope, Point string }
	for name, tc := range map[string]struct {
		at   Coordinate
		want forms
	}{
		"a TCP port":                      {wholePort, forms{"gateway/edge/public", "TCP/80"}},
		"a UDP port":                      {Listener(edgeGateway, v1beta1.UDP, 53), forms{"gateway/edge/public", "UDP/53"}},
		"all host names at a port":        {itsHosts, forms{"gateway/edge/public", "HTTP/80"}},
		"a Gateway with dots":             {Listener(dotted, v1beta1.TCP, 65535), forms{"gateway/edge/public.v1.tcp", "TCP/65535"}},
		"a host name":                     {itsHost, forms{"gateway/edge/public/80", "HTTP/example.com"}},
		"a host name of TLS":              {HostListener(edgeGateway, TLSListener, 443, "example.com"), forms{"gateway/edge/public/443", "TLS/example.com"}},
		"a host name that is a number":    {HostListener(edgeGateway, HTTPListener, 80, "80"), forms{"gateway/edge/public/80", "HTTP/80"}},
		"a wildcard":                      {nextHost, forms{"gateway/edge/public/80", "TLS/*.example.com"}},
		"every host name":                 {HostListener(edgeGateway, HTTPListener, 80, AllHosts), forms{"gateway/edge/public/80", "HTTP/*"}},
		"port 0":                          {Listener(edgeGateway, v1beta1.TCP, 0), forms{}},
		"port 65536":                      {Listener(edgeGateway, v1beta1.TCP, 65536), forms{}},
		"a port that wraps to one":        {Listener(edgeGateway, v1beta1.TCP, -65456), forms{}},
		"a port that is TLS":              {Listener(edgeGateway, TLSListener, 443), forms{}},
		"a port without a protocol":       {Listener(edgeGateway, "", 443), forms{}},
		"a port in lower case":            {Listener(edgeGateway, "tcp", 443), forms{}},
		"a Gateway without a name":        {Listener(types.NamespacedName{Namespace: "edge"}, v1beta1.TCP, 80), forms{}},
		"a Gateway without a namespace":   {Listener(types.NamespacedName{Name: "public"}, v1beta1.TCP, 80), forms{}},
		"a Gateway whose name is a path":  {Listener(types.NamespacedName{Namespace: "edge", Name: "public/80"}, HTTPListener, 443), forms{}},
		"a namespace that is a path":      {Listener(types.NamespacedName{Namespace: "edge/a", Name: "public"}, HTTPListener, 443), forms{}},
		"no host name":                    {HostListener(edgeGateway, HTTPListener, 80, ""), forms{}},
		"a host name of TCP":              {HostListener(edgeGateway, v1beta1.TCP, 80, "example.com"), forms{}},
		"a host name of HTTPS":            {HostListener(edgeGateway, "HTTPS", 443, "example.com"), forms{}},
		"a host name in upper case":       {HostListener(edgeGateway, HTTPListener, 80, "Example.com"), forms{}},
		"a host name with a path":         {HostListener(edgeGateway, HTTPListener, 80, "example.com/a"), forms{}},
		"a host name with two asterisks":  {HostListener(edgeGateway, HTTPListener, 80, "*.*.com"), forms{}},
		"a host name with a late one":     {HostListener(edgeGateway, HTTPListener, 80, "a.*.com"), forms{}},
		"a host name that is only dots":   {HostListener(edgeGateway, HTTPListener, 80, ".."), forms{}},
		"a host name that is a * and dot": {HostListener(edgeGateway, HTTPListener, 80, "*."), forms{}},
		"a host name at port 0":           {HostListener(edgeGateway, HTTPListener, 0, "example.com"), forms{}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.at.IsZero() != (tc.want == forms{}) {
				t.Fatalf("got %#v", tc.at)
			}
			if tc.at.IsZero() {
				return
			}
			if diff := cmp.Diff(tc.want, forms{tc.at.Scope(), tc.at.Point()}); diff != "" {
				t.Error(diff)
			}
			reads(t, tc.at)
			if !tc.at.IsListener() || tc.at.IsStream() || tc.at.IsHTTP() || tc.at.IsHost() || tc.at.IsAddress() || tc.at.IsNode() {
				t.Errorf("%s is something else, too", tc.at)
			}
			if tc.at.IsHosts() != (name == "all host names at a port") {
				t.Errorf("%s stands for all host names: %t", tc.at, tc.at.IsHosts())
			}
		})
	}
}

// reads makes sure that a claim on a point can be stored, and says which point that is.
func reads(t *testing.T, at Coordinate) {
	t.Helper()
	if errs := validation.IsDNS1123Subdomain(at.Name()); len(errs) > 0 {
		t.Errorf("%q can't be the name of an object: %v", at.Name(), errs)
	}
	if back, err := Of(New(at, Claimant{Holder: setAlice})); err != nil || back != at {
		t.Errorf("Of the claim on %#v = %#v, %v", at, back, err)
	}
	if Listener(at.Gateway(), at.Protocol(), at.Port()) != at && HostListener(at.Gateway(), at.Protocol(), at.Port(), at.ListenerHost()) != at {
		t.Errorf("%#v is not the sum of its parts", at)
	}
}

// TestListenerNamesAreUnique has points that look alike, and the longest ones there are.
func TestListenerNamesAreUnique(t *testing.T) {
	var gateways []types.NamespacedName
	for _, namespace := range []string{"a", "a-b", "tcp", "80", longest(63)} {
		for _, name := range []string{"a", "b.a", "a.tcp.80", "a.http.80", "tcp", "a.http.80.any", longest(211), longest(252), longest(253)} {
			gateways = append(gateways, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	hosts := []string{AllHosts, "any", "80", "8080", "any.com", "*.com", "*.any.com", "tcp", "tcp.80", "a.b", "a-b",
		longest(253), longest(252), longest(180), "*." + longest(251), "*." + longest(248), "any." + longest(248)}
	seen := map[string]Coordinate{}
	for _, gateway := range gateways {
		for _, port := range []int32{8, 80, 65535} {
			points := []Coordinate{Listener(gateway, v1beta1.TCP, port), Listener(gateway, v1beta1.UDP, port), Listener(gateway, HTTPListener, port)}
			for _, host := range hosts {
				points = append(points, HostListener(gateway, HTTPListener, port, host), HostListener(gateway, TLSListener, port, host))
			}
			for _, at := range points {
				if at.IsZero() {
					t.Fatalf("one of port %d of %s is no point", port, gateway)
				}
				reads(t, at)
				if other, twice := seen[at.Name()]; twice {
					t.Fatalf("%s and %s have the name %s", at, other, at.Name())
				}
				seen[at.Name()] = at
			}
		}
	}
}

func TestOfRefusesForgedListeners(t *testing.T) {
	for name, forge := range map[string]func(*v1beta1.EdgeClaim){
		"another port":                func(c *v1beta1.EdgeClaim) { c.Spec.Point = "TCP/81" },
		"another protocol":            func(c *v1beta1.EdgeClaim) { c.Spec.Point = "UDP/80" },
		"another Gateway":             func(c *v1beta1.EdgeClaim) { c.Spec.Scope = "gateway/edge/private" },
		"a name of a host":            func(c *v1beta1.EdgeClaim) { c.Name = itsHost.Name() },
		"a name that is too long":     func(c *v1beta1.EdgeClaim) { c.Name += strings.Repeat("0", 253) },
		"a name that looks like it":   func(c *v1beta1.EdgeClaim) { c.Name = c.Name[:len(c.Name)-1] + "x" },
		"no name":                     func(c *v1beta1.EdgeClaim) { c.Name = "" },
		"no point":                    func(c *v1beta1.EdgeClaim) { c.Spec.Point = "" },
		"a point that is a slash":     func(c *v1beta1.EdgeClaim) { c.Spec.Point = "/" },
		"no Gateway":                  func(c *v1beta1.EdgeClaim) { c.Spec.Scope = "gateway/" },
		"only slashes":                func(c *v1beta1.EdgeClaim) { c.Spec.Scope = "gateway////" },
		"half a Gateway":              func(c *v1beta1.EdgeClaim) { c.Spec.Scope = "gateway/edge" },
		"a slash behind":              func(c *v1beta1.EdgeClaim) { c.Spec.Scope += "/" },
		"a slash more":                func(c *v1beta1.EdgeClaim) { c.Spec.Scope = "gateway//edge/public" },
		"more than a port":            func(c *v1beta1.EdgeClaim) { c.Spec.Scope += "/80/80" },
		"a port with a leading zero":  func(c *v1beta1.EdgeClaim) { c.Spec.Point = "TCP/080" },
		"a port with a sign":          func(c *v1beta1.EdgeClaim) { c.Spec.Point = "TCP/+80" },
		"a port that is no number":    func(c *v1beta1.EdgeClaim) { c.Spec.Point = "TCP/http" },
		"a port that wraps to it":     func(c *v1beta1.EdgeClaim) { c.Spec.Point = "TCP/4294967376" },
		"a port of more than 64 bits": func(c *v1beta1.EdgeClaim) { c.Spec.Point = "TCP/18446744073709551696" },
		"no scope":                    func(c *v1beta1.EdgeClaim) { c.Spec.Scope = "" },
		"the scope of hosts":          func(c *v1beta1.EdgeClaim) { c.Spec.Scope = HTTPScope },
		"the scope of a class":        func(c *v1beta1.EdgeClaim) { c.Spec.Scope = "stream/public" },
	} {
		t.Run(name, func(t *testing.T) {
			c := New(wholePort, Claimant{Holder: setAlice})
			forge(c)
			if at, err := Of(c); err == nil || !at.IsZero() {
				t.Errorf("Of(%q, %q, %q) = %#v, %v", c.Spec.Scope, c.Name, c.Spec.Point, at, err)
			}
		})
	}
	for name, scope := range map[string]string{
		"a leading zero": "gateway/edge/public/080", "a sign": "gateway/edge/public/+80", "a wrapped port": "gateway/edge/public/65616",
	} {
		c := New(itsHost, Claimant{Holder: setAlice})
		c.Spec.Scope = scope
		if at, err := Of(c); err == nil {
			t.Errorf("%s: it is read as %s", name, at)
		}
	}
}

// FuzzOfListeners reads claims that anybody may have written in the scope of a Gateway.
func FuzzOfListeners(f *testing.F) {
	for _, at := range []Coordinate{wholePort, itsHosts, itsHost, nextHost, HostListener(edgeGateway, TLSListener, 443, AllHosts)} {
		f.Add(at.Gateway().Namespace, at.Gateway().Name, at.Name(), at.Point())
	}
	f.Add("edge", "public/080", itsHost.Name(), itsHost.Point())
	f.Add("edge", "public", wholePort.Name(), "TCP/+80")
	f.Add("", "", "", "/")
	f.Add("edge", "public/80", "\x00", "HTTP/\xff")
	f.Fuzz(func(t *testing.T, namespace, gateway, name, point string) {
		c := New(Coordinate{}, Claimant{})
		c.Name, c.Spec.Scope, c.Spec.Point = name, "gateway/"+namespace+"/"+gateway, point
		// As it is, and under the name that its scope and point would have.
		parsed := Listener(types.NamespacedName{Namespace: namespace, Name: gateway}, v1beta1.Protocol(strings.Split(point, "/")[0]), 80)
		for _, name := range []string{name, parsed.Name()} {
			c.Name = name
			at, err := Of(c)
			if (err == nil) == at.IsZero() {
				t.Fatalf("Of(%q, %q, %q) = %#v, %v", c.Spec.Scope, name, point, at, err)
			}
			if err != nil {
				continue
			}
			if at.Name() != name || at.Scope() != c.Spec.Scope || at.Point() != point || !at.IsListener() {
				t.Errorf("Of(%q, %q, %q) = %#v", c.Spec.Scope, name, point, at)
			}
		}
	})
}

func TestInTheWay(t *testing.T) {
	for name, tc := range map[string]struct {
		at   Coordinate
		want []string
	}{
		"a whole port":             {wholePort, []string{"gateway/edge/public HTTP/80"}},
		"a UDP port":               {Listener(edgeGateway, v1beta1.UDP, 80), nil},
		"a host name":              {itsHost, []string{"gateway/edge/public TCP/80"}},
		"a host name of TLS":       {nextHost, []string{"gateway/edge/public TCP/80"}},
		"all host names at a port": {itsHosts, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, at := range tc.at.InTheWay() {
				got = append(got, at.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAPortOfAGatewayIsHadWholeOrByHostNames covers what may be claimed beside what. What is refused leaves nothing behind but, at most,
// the word that host names share the port.
func TestAPortOfAGatewayIsHadWholeOrByHostNames(t *testing.T) {
	elsewhere := types.NamespacedName{Namespace: "edge", Name: "private"}
	for name, tc := range map[string]struct {
		stored  []*v1beta1.EdgeClaim
		at      Coordinate
		refused string
	}{
		"a host name at a port that another has whole": {
			stored: []*v1beta1.EdgeClaim{held(wholePort, setBob, "b1", 1, start)}, at: itsHost, refused: "TCP/80 of gateway/edge/public is held by ListenerSet shop/bob",
		},
		"a whole port at which another has a host name": {
			stored: []*v1beta1.EdgeClaim{held(nextHost, setBob, "b1", 1, start), marked(start)}, at: wholePort,
			refused: "TLS/*.example.com of gateway/edge/public/80 is held by ListenerSet shop/bob",
		},
		"a whole port at which it has a host name, and another has, too": {
			stored: []*v1beta1.EdgeClaim{held(nextHost, setBob, "b1", 1, start), held(itsHost, setAlice, "a1", 1, start), marked(start)}, at: wholePort,
			refused: "TLS/*.example.com of gateway/edge/public/80 is held by ListenerSet shop/bob",
		},
		"a whole port at which nobody has a host name any more": {stored: []*v1beta1.EdgeClaim{marked(start)}, at: wholePort},
		"a host name that another has": {
			stored: []*v1beta1.EdgeClaim{held(itsHost, setBob, "b1", 1, start), marked(start)}, at: itsHost,
			refused: "HTTP/example.com of gateway/edge/public/80 is held by ListenerSet shop/bob",
		},
		"a host name beside another":                  {stored: []*v1beta1.EdgeClaim{held(nextHost, setBob, "b1", 1, start), marked(start)}, at: itsHost},
		"a host name at a port that it has whole":     {stored: []*v1beta1.EdgeClaim{held(wholePort, setAlice, "a1", 1, start)}, at: itsHost},
		"a whole port at which it has a host name":    {stored: []*v1beta1.EdgeClaim{held(itsHost, setAlice, "a1", 1, start), marked(start)}, at: wholePort},
		"a UDP port whose TCP port has host names":    {stored: []*v1beta1.EdgeClaim{held(itsHost, setBob, "b1", 1, start), marked(start)}, at: Listener(edgeGateway, v1beta1.UDP, 80)},
		"a host name at a port that is had by UDP":    {stored: []*v1beta1.EdgeClaim{held(Listener(edgeGateway, v1beta1.UDP, 80), setBob, "b1", 1, start)}, at: itsHost},
		"a whole port, a host name at the next":       {stored: []*v1beta1.EdgeClaim{held(HostListener(edgeGateway, HTTPListener, 8, "0"), setBob, "b1", 1, start)}, at: wholePort},
		"a whole port, a host name of the next":       {stored: []*v1beta1.EdgeClaim{held(HostListener(elsewhere, HTTPListener, 80, "example.com"), setBob, "b1", 1, start)}, at: wholePort},
		"a whole port, and a StreamIngress elsewhere": {stored: []*v1beta1.EdgeClaim{held(tcp(80), bob, "b1", 1, start)}, at: wholePort},
	} {
		t.Run(name, func(t *testing.T) {
			by := Claimant{Holder: setAlice, UID: "a1", Generation: 1}
			for verb, call := range map[string]func(*Ledger) error{
				"Reserve":    func(l *Ledger) error { return l.Reserve(t.Context(), by, nil, tc.at) },
				"ReserveAll": func(l *Ledger) error { _, err := l.ReserveAll(t.Context(), by, tc.at); return err },
				"Claim":      func(l *Ledger) error { _, err := l.Claim(t.Context(), by, nil, tc.at); return err },
				"Check":      func(l *Ledger) error { return l.Check(t.Context(), by, nil, tc.at) },
			} {
				m := NewFake(tc.stored...)
				err := call(ledgerAt(m, start))
				if (err == nil) != (tc.refused == "") || err != nil && (!IsHeld(err) || err.Error() != tc.refused) {
					t.Errorf("%s: %v, want %q", verb, err, tc.refused)
				}
				own := m.stored[tc.at.Name()]
				if has := own != nil && HolderOf(own) == setAlice; has != (tc.refused == "" && verb != "Check") {
					t.Errorf("%s leaves a claim: %t", verb, has)
				}
				if err == nil && verb != "Check" && tc.at.ListenerHost() != "" && m.stored[hostsAt(tc.at).Name()] == nil {
					t.Errorf("%s does not say that host names share the port", verb)
				}
				if verb == "Check" && m.writes > 0 {
					t.Errorf("Check writes %d times", m.writes)
				}
			}
		})
	}
}

// TestAPortIsSaidToBeShared covers when the word that host names share a port is written, and when it is left alone.
func TestAPortIsSaidToBeShared(t *testing.T) {
	now := start.Add(time.Hour)
	for name, tc := range map[string]struct {
		before *v1beta1.EdgeClaim
		want   time.Time
	}{
		"there is none":                          {nil, now},
		"it is fresh":                            {marked(now), now},
		"less than half of its grace has passed": {marked(now.Add(time.Second - DefaultGrace/2)), now.Add(time.Second - DefaultGrace/2)},
		"half of its grace has passed":           {marked(now.Add(-DefaultGrace / 2)), now},
		"its grace is over":                      {marked(start), now},
		"it is from a clock that is ahead":       {marked(now.Add(time.Minute)), now.Add(time.Minute)},
		"it has no time":                         {marked(time.Time{}), now},
	} {
		t.Run(name, func(t *testing.T) {
			for verb, call := range map[string]func(*Ledger) error{
				"Reserve": func(l *Ledger) error {
					return l.Reserve(t.Context(), Claimant{Holder: setAlice, UID: "a1"}, nil, itsHost)
				},
				"Claim": func(l *Ledger) error {
					_, err := l.Claim(t.Context(), Claimant{Holder: setAlice, UID: "a1"}, nil, itsHost)
					return err
				},
			} {
				m := &Fake{}
				if tc.before != nil {
					m = NewFake(tc.before.DeepCopy())
				}
				if err := call(ledgerAt(m, now)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(marked(tc.want), m.stored[itsHosts.Name()], fromStore); diff != "" {
					t.Errorf("%s: (-want +got):\n%s", verb, diff)
				}
				writes := 1
				if tc.before == nil || !tc.before.Spec.Renewed.Equal(marked(tc.want).Spec.Renewed) {
					writes = 2
				}
				if m.writes != writes {
					t.Errorf("%s writes %d times, want %d", verb, m.writes, writes)
				}
			}
		})
	}
}

// TestThoseWhoShareAPortWriteLittle has many host names at one port: the word that they share it is written once.
func TestThoseWhoShareAPortWriteLittle(t *testing.T) {
	m := &Fake{}
	l := ledgerAt(m, start)
	for i := range 50 {
		at := HostListener(edgeGateway, TLSListener, 443, fmt.Sprintf("%d.example.com", i))
		if err := l.Reserve(t.Context(), Claimant{Holder: ListenerSetHolder("shop", fmt.Sprint(i)), UID: "u"}, nil, at); err != nil {
			t.Fatal(err)
		}
	}
	if m.writes != 51 {
		t.Errorf("50 host names take %d writes", m.writes)
	}
}

// TestTheWordIsTakenBackMeanwhile releases, before each call to the store in turn, the word that host names share a port: by its rule, or
// as somebody else renews it. Whoever gets the port whole then sees the host name, or the other one sees that.
func TestTheWordIsTakenBackMeanwhile(t *testing.T) {
	for _, age := range []time.Duration{0, DefaultGrace/2 - 1, DefaultGrace / 2, DefaultGrace - 1, DefaultGrace, 2 * DefaultGrace} {
		for at := range 8 {
			for then := range 8 {
				word := marked(start.Add(-age))
				m := NewFake(word)
				calls := 0
				release := func(l *Ledger) {
					c := m.stored[itsHosts.Name()]
					if c == nil || l.GraceLeft(c) > 0 || len(m.scopes[itsHost.Scope()]) > 0 {
						return
					}
					m.Drop(c.Name)
				}
				var whole error
				claimsWhole := func() {
					whole = ledgerAt(m, start).Reserve(t.Context(), Claimant{Holder: setBob, UID: "b1"}, nil, wholePort)
				}
				m.Before = func(string) {
					calls++
					before := m.Before
					m.Before = nil
					if calls == at+1 {
						release(ledgerAt(m, start))
					}
					if calls == then+1 {
						claimsWhole()
					}
					m.Before = before
				}
				host := ledgerAt(m, start).Reserve(t.Context(), Claimant{Holder: setAlice, UID: "a1"}, nil, itsHost)
				m.Before = nil
				if calls <= then {
					claimsWhole()
				}
				if host == nil && whole == nil {
					t.Errorf("aged %s, released before call %d, had whole before call %d: both have it", age, at, then)
				}
				if IgnoreHeld(host) != nil || IgnoreHeld(whole) != nil {
					t.Errorf("aged %s, released before call %d, had whole before call %d: %v, %v", age, at, then, host, whole)
				}
				if word := m.stored[itsHosts.Name()]; host == nil && word == nil {
					t.Errorf("aged %s, released before call %d: a host name is had, and nothing says so", age, at)
				}
			}
		}
	}
}

// TestTheWordChangesMeanwhile has others write the word at the same moment: that is as good as writing it.
func TestTheWordChangesMeanwhile(t *testing.T) {
	for name, tc := range map[string]struct {
		before *v1beta1.EdgeClaim
		verb   string
		change func(*Fake)
	}{
		"somebody else says it first":   {nil, "create", func(m *Fake) { m.put(marked(start)) }},
		"somebody else renews it first": {marked(start.Add(-time.Hour)), "update", func(m *Fake) { m.put(marked(start)) }},
		"it goes while it is renewed":   {marked(start.Add(-time.Hour)), "update", func(m *Fake) { m.Drop(itsHosts.Name()) }},
		"it goes and comes again":       {marked(start.Add(-time.Hour)), "update", func(m *Fake) { m.Drop(itsHosts.Name()); m.put(marked(start)) }},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Fake{}
			if tc.before != nil {
				m = NewFake(tc.before)
			}
			m.Before = func(verb string) {
				if m.stored[itsHost.Name()] != nil && verb == tc.verb {
					m.Before = nil
					tc.change(m)
				}
			}
			if err := ledgerAt(m, start).Reserve(t.Context(), Claimant{Holder: setAlice, UID: "a1"}, nil, itsHost); err != nil {
				t.Fatal(err)
			}
			if m.Before != nil {
				t.Fatal("nothing has changed meanwhile")
			}
			if diff := cmp.Diff(marked(start), m.stored[itsHosts.Name()], fromStore); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAWordThatCannotBeWrittenIsNoYes has the store fail as it is said that host names share a port. Nothing is left that others would not
// see.
func TestAWordThatCannotBeWrittenIsNoYes(t *testing.T) {
	down := apierrors.NewServiceUnavailable("etcd is away")
	for name, tc := range map[string]struct {
		fail error
		is   func(error) bool
	}{
		"the store is away":     {down, apierrors.IsServiceUnavailable},
		"it never holds still":  {apierrors.NewAlreadyExists(claimsResource, itsHosts.Name()), apierrors.IsTooManyRequests},
		"it may not be written": {apierrors.NewForbidden(claimsResource, itsHosts.Name(), nil), apierrors.IsForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Fake{}
			m.Fail = func(verb string) error {
				if verb == "create" && m.stored[itsHost.Name()] != nil {
					return tc.fail
				}
				return nil
			}
			if err := ledgerAt(m, start).Reserve(t.Context(), Claimant{Holder: setAlice, UID: "a1"}, nil, itsHost); !tc.is(err) || IsHeld(err) {
				t.Errorf("Reserve: %v", err)
			}
			if m.stored[itsHost.Name()] != nil {
				t.Error("a host name is claimed, and nothing says that it shares the port")
			}
		})
	}
}

// TestConcurrentClaimsOnAPort has many ask for one port of a Gateway at once, some for all of it, some for a host name.
func TestConcurrentClaimsOnAPort(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m := &Fake{}
		if rng.IntN(2) == 0 {
			m = NewFake(marked(start.Add(-time.Duration(rng.Int64N(int64(2 * DefaultGrace))))))
		}
		points := make([]Coordinate, 6)
		for i := range points {
			points[i] = [...]Coordinate{wholePort, itsHost, nextHost}[rng.IntN(3)]
		}
		errs := make([]error, len(points))
		var group sync.WaitGroup
		for i, at := range points {
			group.Go(func() {
				by := Claimant{Holder: ListenerSetHolder("shop", fmt.Sprint(i)), UID: types.UID(fmt.Sprint(i)), Generation: 1}
				_, errs[i] = ledgerAt(m, start).ReserveAll(t.Context(), by, at)
			})
		}
		group.Wait()
		for i, at := range points {
			if IgnoreHeld(errs[i]) != nil {
				t.Fatalf("seed %d: %v", seed, errs[i])
			}
			for j, other := range points[:i] {
				if errs[i] == nil && errs[j] == nil && collide(at, other) {
					t.Fatalf("seed %d: %s and %s are both had", seed, at, other)
				}
			}
			c := m.stored[at.Name()]
			if has := c != nil && HolderOf(c).Name == fmt.Sprint(i); has != (errs[i] == nil) {
				t.Fatalf("seed %d: %s of %d: %v, and it has a claim: %t", seed, at, i, errs[i], has)
			}
		}
	}
}

// TestReserveAllIsAllOrNothing has one of many points be held.
func TestReserveAllIsAllOrNothing(t *testing.T) {
	by := Claimant{Holder: setAlice, UID: "a1", Generation: 2}
	var points []Coordinate
	for port := range int32(20) {
		points = append(points, Listener(edgeGateway, v1beta1.TCP, 1000+port), HostListener(edgeGateway, TLSListener, 2000+port, "example.com"))
	}
	for i, at := range points {
		had := points[(i+1)%len(points)]
		m := NewFake(held(at, setBob, "b1", 1, start), held(had, setAlice, "a1", 1, start))
		withdraw, err := ledgerAt(m, start).ReserveAll(t.Context(), by, points...)
		if !IsHeld(err) || withdraw != nil {
			t.Fatalf("%s is held: %v", at, err)
		}
		for _, other := range points {
			c := m.stored[other.Name()]
			switch {
			case other == at && (c == nil || HolderOf(c) != setBob), other == had && (c == nil || HolderOf(c) != setAlice):
				t.Errorf("%s is held, and with it %s was taken from who had it", at, other)
			case other != at && other != had && c != nil:
				t.Errorf("%s is held, and %s stays claimed", at, other)
			}
		}
	}
}

// TestWithdrawKeepsWhatSomebodyCountsOn withdraws points of which one was had before, and one is renewed meanwhile.
func TestWithdrawKeepsWhatSomebodyCountsOn(t *testing.T) {
	by := Claimant{Holder: setAlice, UID: "a1", Generation: 2}
	udp := Listener(edgeGateway, v1beta1.UDP, 53)
	m := NewFake(held(udp, setAlice, "a1", 1, start))
	tls := HostListener(edgeGateway, TLSListener, 443, "example.com")
	withdraw, err := ledgerAt(m, start).ReserveAll(t.Context(), by, udp, wholePort, tls)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledgerAt(m, start.Add(time.Second)).ReserveAll(t.Context(), by, tls); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second has nothing left to take back
		if err := withdraw(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m.stored[udp.Name()] == nil || m.stored[tls.Name()] == nil || m.stored[wholePort.Name()] != nil {
			t.Errorf("left are %v", slices.Collect(func(yield func(string) bool) {
				for name := range m.stored {
					if !yield(name) {
						return
					}
				}
			}))
		}
	}
}

// TestHeldAt covers what is found past any cache, and what is not: what the asker has itself.
func TestHeldAt(t *testing.T) {
	for name, tc := range map[string]struct {
		stored []*v1beta1.EdgeClaim
		at     Coordinate
		want   string
	}{
		"nothing":                            {nil, wholePort, ""},
		"a whole port":                       {[]*v1beta1.EdgeClaim{held(wholePort, setBob, "", 0, start)}, wholePort, wholePort.Name()},
		"its own":                            {[]*v1beta1.EdgeClaim{held(wholePort, setAlice, "", 0, start)}, wholePort, ""},
		"a host name, by what stands for it": {[]*v1beta1.EdgeClaim{marked(start), held(itsHost, setBob, "", 0, start)}, itsHosts, itsHost.Name()},
		"its own host name":                  {[]*v1beta1.EdgeClaim{marked(start), held(itsHost, setAlice, "", 0, start)}, itsHosts, ""},
		"only the word":                      {[]*v1beta1.EdgeClaim{marked(start)}, itsHosts, ""},
		"a host name as such":                {[]*v1beta1.EdgeClaim{held(itsHost, setBob, "", 0, start)}, itsHost, itsHost.Name()},
		"another host name":                  {[]*v1beta1.EdgeClaim{held(nextHost, setBob, "", 0, start)}, itsHost, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := ledgerAt(NewFake(tc.stored...), start).HeldAt(t.Context(), tc.at, setAlice, "")
			got := ""
			if found != nil {
				got = found.Name
			}
			if err != nil || got != tc.want {
				t.Errorf("found %q, %v, want %q", got, err, tc.want)
			}
		})
	}
	down := apierrors.NewServiceUnavailable("etcd is away")
	for _, verb := range []string{"get", "list"} {
		m := NewFake(marked(start), held(itsHost, setBob, "", 0, start))
		m.Fail = failing(verb, down)
		if found, err := ledgerAt(m, start).HeldAt(context.Background(), itsHosts, setAlice, ""); found != nil || !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s fails: %v, %v", verb, found, err)
		}
	}
}
