package allocator

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// points are coordinates by the names of their claims.
func points(t *testing.T, names ...string) []claim.Coordinate {
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

func addresses(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// keeping is a Service with what it holds, and what of it is to stay.
type keeping struct {
	svc  *corev1.Service
	held []string
	want []string
}

// Names of claims that many tests have.
const (
	one4, two4, one6   = "addr.192-0-2-1", "addr.192-0-2-2", "addr.2001-db8--1"
	shared80           = "addr.198-51-100-1.tcp.80"
	shared443          = "addr.198-51-100-1.tcp.443"
	node80, node443    = "node.tcp.80", "node.tcp.443"
	nowhere, clusterIP = "addr.203-0-113-1", "addr.10-96-0-9"
)

// keepers are pools of all kinds.
func keepers() *cluster {
	return clusterWith(pool("a", "192.0.2.1,192.0.2.2,2001:db8::1"), pool("s", "198.51.100.1", sharesPorts), pool("nodes", ""), clusterIPPool("own"))
}

func TestRetain(t *testing.T) {
	w := keepers()
	for name, tc := range map[string]keeping{
		"nothing":                {svc: asking()},
		"an address":             {svc: asking(), held: []string{one4}, want: []string{"a " + one4}},
		"not what no pool gives": {svc: asking(), held: []string{nowhere}},
		"the first of two":       {svc: asking(), held: []string{one4, two4}, want: []string{"a " + one4}},
		"the listed one of two":  {svc: asking(servedAt("192.0.2.2")), held: []string{one4, two4}, want: []string{"a " + two4}},
		"the whole one of two":   {svc: asking(onPorts(80, 443)), held: []string{shared80, two4}, want: []string{"a " + two4}},
		"the listed one, though not whole": {svc: asking(onPorts(80, 443), servedAt("198.51.100.1")), held: []string{two4, shared80},
			want: []string{"s " + shared80 + " " + shared443}},
		"the one that is asked for":                           {svc: asking(forAddresses("192.0.2.2"), servedAt("192.0.2.1")), held: []string{one4, two4}, want: []string{"a " + two4}},
		"none but what is asked for":                          {svc: asking(forAddresses("192.0.2.2")), held: []string{one4}},
		"one of each family":                                  {svc: asking(eitherFamily), held: []string{one6, one4, two4}, want: []string{"a " + one4, "a " + one6}},
		"not of a family that went":                           {svc: asking(), held: []string{one6}},
		"of any family, unborn":                               {svc: asking(unborn), held: []string{one6}, want: []string{"a " + one6}},
		"ports as ports":                                      {svc: asking(onPorts(80, 443)), held: []string{shared80}, want: []string{"s " + shared80 + " " + shared443}},
		"ports as ports, where whole addresses are given now": {svc: asking(), held: []string{"addr.192-0-2-1.tcp.80"}, want: []string{"a addr.192-0-2-1.tcp.80"}},
		"the whole, where ports are given now":                {svc: asking(), held: []string{"addr.198-51-100-1"}, want: []string{"s addr.198-51-100-1"}},
		"ports of the nodes":                                  {svc: asking(onPorts(80, 443)), held: []string{node80}, want: []string{"nodes " + node80 + " " + node443}},
		"none of the nodes' that it had":                      {svc: asking(), held: []string{node443}},
		"an address before ports of the nodes":                {svc: asking(), held: []string{node80, one4}, want: []string{"a " + one4}},
		"its cluster IP":                                      {svc: asking(withClusterIPs("10.96.0.9")), held: []string{clusterIP}, want: []string{"own " + clusterIP}},
		"not its former cluster IP":                           {svc: asking(withClusterIPs("10.96.0.10")), held: []string{clusterIP}},
	} {
		t.Run(name, func(t *testing.T) {
			got := allocationTexts(Retain(subjectOf(t, tc.svc, points(t, tc.held...)...), w.Pools().Pools()))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRetained(t *testing.T) {
	for name, tc := range map[string]keeping{
		"what it has":                      {svc: asking(servedAt("192.0.2.1")), held: []string{one4}, want: []string{"a " + one4}},
		"though it asks for another":       {svc: asking(servedAt("192.0.2.1"), forAddresses("192.0.2.2")), held: []string{one4}, want: []string{"a " + one4}},
		"though it asks for no such pool":  {svc: asking(servedAt("192.0.2.1"), forPool("none")), held: []string{one4}, want: []string{"a " + one4}},
		"though it has no such family":     {svc: asking(servedAt("192.0.2.1"), ipv6Only), held: []string{one4}, want: []string{"a " + one4}},
		"not what is not listed":           {svc: asking(servedAt("192.0.2.2")), held: []string{one4}},
		"not what nobody lists":            {svc: asking(), held: []string{one4}},
		"not what it does not hold":        {svc: asking(servedAt("192.0.2.1")), held: nil},
		"not what no pool gives":           {svc: asking(servedAt("203.0.113.1")), held: []string{nowhere}},
		"not without all its ports":        {svc: asking(onPorts(80, 443), servedAt("198.51.100.1")), held: []string{shared80}},
		"with all its ports":               {svc: asking(servedAt("198.51.100.1")), held: []string{shared443, shared80}, want: []string{"s " + shared80}},
		"only what of two is listed":       {svc: asking(eitherFamily, servedAt("2001:db8::1")), held: []string{one4, one6}, want: []string{"a " + one6}},
		"ports of the nodes":               {svc: asking(servedAt("10.0.0.1", "10.0.0.2")), held: []string{node80}, want: []string{"nodes " + node80}},
		"no ports of the nodes yet":        {svc: asking(), held: []string{node80}},
		"not without all the nodes' ports": {svc: asking(onPorts(80, 443), servedAt("10.0.0.1")), held: []string{node80}},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := keepers(), subjectOf(t, tc.svc, points(t, tc.held...)...)
			if diff := cmp.Diff(tc.want, allocationTexts(Retained(w, s))); diff != "" {
				t.Error(diff)
			}
			w.failAfterEach(func() { Retained(w, s) })
		})
	}
	if got := Retained(clusterWith(pool("a", "192.0.2.1", forTeam("b"))), subjectOf(t, asking(servedAt("192.0.2.1")), at("192.0.2.1"))); len(got) > 0 {
		t.Error("an address is retained whose pool serves other namespaces:", allocationTexts(got))
	}
}

// TestForwarded has a Service keep what it lists while it asks for something else, and its ports change.
func TestForwarded(t *testing.T) {
	moves := forPool("none")
	for name, tc := range map[string]struct {
		keeping
		problem string
	}{
		"nothing":                                         {keeping: keeping{svc: asking(moves), held: []string{one4}}},
		"a whole address has all ports":                   {keeping: keeping{svc: asking(moves, onPorts(80, 443), servedAt("192.0.2.1")), held: []string{one4}, want: []string{"a " + one4}}},
		"a port more of an address":                       {keeping: keeping{svc: asking(moves, onPorts(80, 443), servedAt("198.51.100.1")), held: []string{shared80}, want: []string{"s " + shared80 + " " + shared443}}},
		"a port more of the nodes":                        {keeping: keeping{svc: asking(moves, onPorts(80, 443), servedAt("10.0.0.1", "10.0.0.2")), held: []string{node80}, want: []string{"nodes " + node80 + " " + node443}}},
		"of an address and of the nodes":                  {keeping: keeping{svc: asking(moves, servedAt("198.51.100.1", "10.0.0.1")), held: []string{shared443, node443}, want: []string{"s " + shared80, "nodes " + node80}}},
		"a port that another has":                         {keeping: keeping{svc: asking(moves, onPorts(90), servedAt("198.51.100.1")), held: []string{shared80}, want: []string{"s addr.198-51-100-1.tcp.90"}}, problem: "PortConflict"},
		"a port that the nodes reserve":                   {keeping: keeping{svc: asking(moves, onPorts(22), servedAt("10.0.0.1")), held: []string{node80}, want: []string{"nodes node.tcp.22"}}, problem: "PortReserved"},
		"any port of what no pool gives":                  {keeping: keeping{svc: asking(moves, servedAt("203.0.113.1")), held: []string{nowhere}}, problem: "NoAddressPool"},
		"any port of what it does not hold, beside nodes": {keeping: keeping{svc: asking(moves, servedAt("203.0.113.1"))}, problem: "NoAddressPool"},
		"a port more, while it is being deleted":          {keeping: keeping{svc: asking(moves, leaving, onPorts(80, 443), servedAt("198.51.100.1")), held: []string{shared80}, want: []string{"s " + shared80 + " " + shared443}}, problem: "BeingDeleted"},
		"what it has, while it is being deleted":          {keeping: keeping{svc: asking(moves, leaving, servedAt("198.51.100.1")), held: []string{shared80}, want: []string{"s " + shared80}}},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := keepers().taken("x", points(t, "addr.198-51-100-1.tcp.90")...), subjectOf(t, tc.svc, points(t, tc.held...)...)
			d := Forwarded(w, s, w.graceLeft)
			if diff := cmp.Diff(tc.want, allocationTexts(d.Allocations)); diff != "" {
				t.Error(diff)
			}
			if tc.problem == "" && len(d.Problems) > 0 || tc.problem != "" && (len(d.Problems) != 1 || d.Problems[0].Reason != tc.problem) {
				t.Errorf("problems %v, want %q", verdicts(d.Problems), tc.problem)
			}
			w.failAfterEach(func() { Forwarded(w, s, w.graceLeft) })
		})
	}
}

func leaving(s *corev1.Service) { s.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) }

// TestWantsPoint asks whether a Service wants the first of the points that it holds.
func TestWantsPoint(t *testing.T) {
	for name, tc := range map[string]struct {
		svc    *corev1.Service
		held   []string
		listed []netip.Addr
		want   bool
	}{
		"it is given it":                                  {asking(), []string{one4}, nil, true},
		"it is given another":                             {asking(forAddresses("192.0.2.2")), []string{one4, two4}, nil, false},
		"it is given another, and still listed":           {asking(forAddresses("192.0.2.2")), []string{one4, two4}, addresses("192.0.2.1"), true},
		"no pool gives it":                                {asking(), []string{nowhere}, nil, false},
		"no pool gives it, and still listed":              {asking(), []string{nowhere}, addresses("203.0.113.1"), true},
		"what it asks for can't be had":                   {asking(forPool("none")), []string{one4}, nil, false},
		"what it asks for can't be had, and still listed": {asking(forPool("none")), []string{one4}, addresses("192.0.2.1"), true},
		"it goes":                                             {asking(leaving), []string{one4}, nil, false},
		"it goes, and still listed":                           {asking(leaving), []string{one4}, addresses("192.0.2.1"), true},
		"one of its ports":                                    {asking(), []string{shared80}, nil, true},
		"a port that it has no longer":                        {asking(), []string{shared443, shared80}, addresses("198.51.100.1"), false},
		"a port of the nodes":                                 {asking(), []string{node80}, nil, true},
		"a port of the nodes that it has no longer":           {asking(), []string{node443, node80}, addresses("10.0.0.1"), false},
		"a port of the nodes, and it has an address":          {asking(), []string{node80, one4}, addresses("192.0.2.1"), false},
		"a port of the nodes, and their addresses are listed": {asking(), []string{node80, one4}, addresses("10.0.0.1"), true},
		"a port of the nodes, and it asks for an address":     {asking(forAddresses("192.0.2.1")), []string{node80}, nil, false},
		"the first of two addresses":                          {asking(), []string{two4, one4}, nil, true},
		"the second of two addresses, which is listed":        {asking(servedAt("192.0.2.1")), []string{two4, one4}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := keepers()
			for _, ip := range tc.listed {
				servedAt(ip.String())(tc.svc)
			}
			s := subjectOf(t, tc.svc, points(t, tc.held...)...)
			if got := WantsPoint(w, s, s.Held[0]); got != tc.want {
				t.Errorf("it wants it: %v", got)
			}
			w.failAfterEach(func() { WantsPoint(w, s, s.Held[0]) })
		})
	}
}

func TestGives(t *testing.T) {
	w := clusterWith(pool("a", "192.0.2.1"), pool("b", "198.51.100.1", forTeam("b")), pool("c", "203.0.113.1", onRequest), pool("nodes", ""), clusterIPPool("own"))
	svc := asking(withClusterIPs("10.96.0.9"), forPool("a"))
	for ip, want := range map[string]bool{
		"192.0.2.1": true, "192.0.2.2": false, "198.51.100.1": false, "203.0.113.1": true, "10.96.0.9": true, "10.96.0.10": false,
	} {
		if got := Gives(w, svc, netip.MustParseAddr(ip)); got != want {
			t.Errorf("%s: %v", ip, got)
		}
	}
	w.failAfterEach(func() { Gives(w, svc, netip.MustParseAddr("192.0.2.1")) })
}
