package rules

import (
	"errors"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func TestAllotAnew(t *testing.T) {
	checkAll(t, map[string]allotted{
		"the lowest address": {in: edgeWith(pool("a", "192.0.2.1-192.0.2.9")), svc: asking(), want: []string{"a addr.192-0-2-1 drawn"}},
		"what others have is left out": {
			in:  edgeWith(pool("a", "192.0.2.1-192.0.2.9")).taken("x", at("192.0.2.1")).taken("y", portAt("192.0.2.2", 443)),
			svc: asking(), want: []string{"a addr.192-0-2-3 drawn"}},
		"the first pool by priority": {
			in: edgeWith(pool("a", "192.0.2.1"), pool("b", "198.51.100.1", first)), svc: asking(), want: []string{"b addr.198-51-100-1 drawn"}},
		"the first pool is full": {in: edgeWith(pool("a", "192.0.2.1"), pool("b", "198.51.100.1")).taken("x", at("192.0.2.1")),
			svc: asking(), want: []string{"b addr.198-51-100-1 drawn"}},
		"the first pool is on request only": {in: edgeWith(pool("a", "192.0.2.1", onRequest), pool("b", "198.51.100.1")),
			svc: asking(), want: []string{"b addr.198-51-100-1 drawn"}},
		"the first pool serves other namespaces": {in: edgeWith(pool("a", "192.0.2.1", forTeam("b")), pool("b", "198.51.100.1", forTeam("a"))),
			svc: asking(), want: []string{"b addr.198-51-100-1 drawn"}},
		"the first pool has another family": {in: edgeWith(pool("a", "2001:db8::1"), pool("b", "198.51.100.1")),
			svc: asking(), want: []string{"b addr.198-51-100-1 drawn"}},
		"no family is chosen yet": {in: edgeWith(pool("a", "2001:db8::1,192.0.2.1")), svc: asking(unborn), want: []string{"a addr.192-0-2-1 drawn"}},
		"buggy addresses are left out": {
			in: edgeWith(pool("a", "192.0.2.0/29", avoidBuggy)), svc: asking(), want: []string{"a addr.192-0-2-1 drawn"}},
	})
}

func TestAllotBothFamilies(t *testing.T) {
	apart := []*v1beta1.AddressPool{pool("four", "192.0.2.1"), pool("six", "2001:db8::1")}
	fourOnly := func() *world { return edgeWith(apart[0]) }
	checkAll(t, map[string]allotted{
		"from one pool, if one has both": {in: edgeWith(append(apart, pool("whole", "198.51.100.1,2001:db8:1::1"))...), svc: asking(bothFamilies),
			want: []string{"whole addr.198-51-100-1 drawn", "whole addr.2001-db8-1--1 drawn"}},
		"from several": {in: edgeWith(apart...), svc: asking(bothFamilies),
			want: []string{"four addr.192-0-2-1 drawn", "six addr.2001-db8--1 drawn"}},
		"one is enough":   {in: fourOnly(), svc: asking(eitherFamily), want: []string{"four addr.192-0-2-1 drawn"}},
		"it is the other": {in: edgeWith(apart...).taken("x", at("192.0.2.1")), svc: asking(eitherFamily), want: []string{"six addr.2001-db8--1 drawn"}},
		"one is not enough": {in: fourOnly(), svc: asking(bothFamilies), why: []verdict{{v1beta1.ReasonNoFreeAddress,
			`spec.type: Invalid value: "LoadBalancer": AddressPool four has no free address of IPv6 left`}}},
		"the other is added": {in: edgeWith(apart...), svc: asking(bothFamilies), held: []claim.Coordinate{at("192.0.2.1")},
			want: []string{"four addr.192-0-2-1", "six addr.2001-db8--1 drawn"}},
		"it is added from the same pool": {
			in:  edgeWith(append(apart, pool("whole", "198.51.100.1,2001:db8:1::1", onRequest))...),
			svc: asking(bothFamilies), held: []claim.Coordinate{at("198.51.100.1")},
			want: []string{"whole addr.198-51-100-1", "whole addr.2001-db8-1--1 drawn"}},
		"the other can't be added, and need not": {in: fourOnly(), svc: asking(eitherFamily), held: []claim.Coordinate{at("192.0.2.1")},
			want: []string{"four addr.192-0-2-1"}},
		"the other can't be added, and must": {in: fourOnly(), svc: asking(bothFamilies), held: []claim.Coordinate{at("192.0.2.1")},
			why: []verdict{{v1beta1.ReasonNoFreeAddress, `spec.type: Invalid value: "LoadBalancer": AddressPool four has no free address of IPv6 left`}}},
		"a family goes": {in: edgeWith(apart...), svc: asking(ipv6Only), held: []claim.Coordinate{at("192.0.2.1"), at("2001:db8::1")},
			want: []string{"six addr.2001-db8--1"}},
		"an address of one, any of the other": {in: edgeWith(apart...), svc: asking(bothFamilies, forAddresses("2001:db8::1")),
			want: []string{"four addr.192-0-2-1 drawn", "six addr.2001-db8--1"}},
	})
}

func TestAllotWhatIsAskedFor(t *testing.T) {
	two := func() *world {
		return edgeWith(pool("a", "192.0.2.1-192.0.2.9"), pool("b", "198.51.100.1-198.51.100.9", onRequest))
	}
	late := two()
	late.unread = []*v1beta1.AddressPool{pool("c", "203.0.113.1")}
	checkAll(t, map[string]allotted{
		"a pool":                      {in: two(), svc: asking(forPool("b")), want: []string{"b addr.198-51-100-1 drawn"}},
		"a pool that is not yet read": {in: late, svc: asking(forPool("c")), want: []string{"c addr.203-0-113-1 drawn"}},
		"an address":                  {in: two(), svc: asking(forAddresses("198.51.100.7")), want: []string{"b addr.198-51-100-7"}},
		"an address, unborn":          {in: two(), svc: asking(forAddresses("198.51.100.7"), unborn), want: []string{"b addr.198-51-100-7"}},
		"an address of a pool":        {in: two(), svc: asking(forPool("b"), forAddresses("198.51.100.7")), want: []string{"b addr.198-51-100-7"}},
		"the address that it has": {in: two(), svc: asking(forAddresses("192.0.2.7")), held: []claim.Coordinate{at("192.0.2.7")},
			want: []string{"a addr.192-0-2-7"}},
		"another than it has": {in: two(), svc: asking(forAddresses("192.0.2.7")), held: []claim.Coordinate{at("192.0.2.1")},
			want: []string{"a addr.192-0-2-7"}},
		"another pool than it has": {in: two(), svc: asking(forPool("b")), held: []claim.Coordinate{at("192.0.2.1")},
			want: []string{"b addr.198-51-100-1 drawn"}},
		"nothing any longer, and it keeps what it was given on request": {in: two(), svc: asking(), held: []claim.Coordinate{at("198.51.100.1")},
			want: []string{"b addr.198-51-100-1"}},
		"an address, not ports of the nodes": {in: edgeWith(pool("a", "192.0.2.1"), pool("nodes", "", first)), svc: asking(forAddresses("192.0.2.1")),
			want: []string{"a addr.192-0-2-1"}},
		"an address, and it has ports of the nodes": {in: edgeWith(pool("a", "192.0.2.1"), pool("nodes", "")), svc: asking(forAddresses("192.0.2.1")),
			held: []claim.Coordinate{claim.NodePort("TCP", 80)}, want: []string{"a addr.192-0-2-1"}},
	})
}

func TestAllotPorts(t *testing.T) {
	shared := func() *world { return edgeWith(pool("s", "192.0.2.1,192.0.2.2", sharesPorts)) }
	checkAll(t, map[string]allotted{
		"beside other ports": {in: shared().taken("x", portAt("192.0.2.1", 22)), svc: asking(onPorts(80, 443)),
			want: []string{"s addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.443 drawn"}},
		"one of its ports is taken": {in: shared().taken("x", portAt("192.0.2.1", 443)), svc: asking(onPorts(80, 443)),
			want: []string{"s addr.192-0-2-2.tcp.80 addr.192-0-2-2.tcp.443 drawn"}},
		"a whole address is taken": {in: shared().taken("x", at("192.0.2.1")), svc: asking(), want: []string{"s addr.192-0-2-2.tcp.80 drawn"}},
		"a port comes": {in: shared(), svc: asking(onPorts(80, 443)), held: []claim.Coordinate{portAt("192.0.2.1", 80)},
			want: []string{"s addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.443"}},
		"a port goes": {in: shared(), svc: asking(), held: []claim.Coordinate{portAt("192.0.2.1", 80), portAt("192.0.2.1", 443)},
			want: []string{"s addr.192-0-2-1.tcp.80"}},
		"what is held whole stays whole": {in: shared(), svc: asking(), held: []claim.Coordinate{at("192.0.2.1")}, want: []string{"s addr.192-0-2-1"}},
		"a pool that shares is asked for": {
			in:  edgeWith(pool("a", "198.51.100.1"), pool("s", "192.0.2.1", sharesPorts)),
			svc: asking(forSharing("Ports")), want: []string{"s addr.192-0-2-1.tcp.80 drawn"}},
	})
}

func TestAllotOtherSources(t *testing.T) {
	nodes := func() *world { return edgeWith(pool("nodes", "")) }
	own := func() *world { return edgeWith(clusterIPPool("own")) }
	checkAll(t, map[string]allotted{
		"ports of the nodes": {in: nodes(), svc: asking(onPorts(80, 443)), want: []string{"nodes node.tcp.80 node.tcp.443"}},
		"a port of the nodes comes": {in: nodes(), svc: asking(onPorts(80, 443)), held: []claim.Coordinate{claim.NodePort("TCP", 80)},
			want: []string{"nodes node.tcp.80 node.tcp.443"}},
		"the nodes' port is taken, and there are addresses": {in: edgeWith(pool("nodes", "", first), pool("a", "192.0.2.1")).taken("x", claim.NodePort("TCP", 80)),
			svc: asking(), want: []string{"a addr.192-0-2-1 drawn"}},
		"it keeps ports of the nodes though there are addresses": {in: edgeWith(pool("nodes", ""), pool("a", "192.0.2.1", first)), svc: asking(),
			held: []claim.Coordinate{claim.NodePort("TCP", 80)}, want: []string{"nodes node.tcp.80"}},
		"cluster IPs": {in: own(), svc: asking(bothFamilies, withClusterIPs("10.96.0.9", "fd00::9")),
			want: []string{"own addr.10-96-0-9", "own addr.fd00--9"}},
		"no cluster IP yet": {in: own(), svc: asking(unborn)},
		"a cluster IP comes": {in: own(), svc: asking(bothFamilies, withClusterIPs("10.96.0.9", "fd00::9")), held: []claim.Coordinate{at("10.96.0.9")},
			want: []string{"own addr.10-96-0-9", "own addr.fd00--9"}},
		"the cluster IP that it asks for": {in: own(), svc: asking(forAddresses("10.96.0.9"), withClusterIPs("10.96.0.9")),
			want: []string{"own addr.10-96-0-9"}},
		"an address, not the cluster IP": {in: edgeWith(pool("a", "192.0.2.1"), clusterIPPool("own", first)),
			svc: asking(forAddresses("192.0.2.1"), withClusterIPs("10.96.0.9")), want: []string{"a addr.192-0-2-1"}},
	})
}

func TestAwaitsFamily(t *testing.T) {
	four, six, empty := pool("four", "192.0.2.1,192.0.2.2"), "2001:db8::1", func(w *world) *world { return w.taken("x", at("2001:db8::1")) }
	shared := pool("both", "192.0.2.1,192.0.2.2,"+six, onRequest)
	for name, tc := range map[string]struct {
		in   *world
		svc  *corev1.Service
		want bool
	}{
		"no pool has the other family":                {edgeWith(four), asking(eitherFamily), false},
		"another pool has, and is full":               {empty(edgeWith(four, pool("six", six))), asking(eitherFamily), true},
		"its own pool has, and is full":               {empty(edgeWith(pool("a", "192.0.2.1,"+six))), asking(eitherFamily), true},
		"there is room":                               {edgeWith(four, pool("six", six)), asking(eitherFamily), false},
		"another pool has, on request":                {edgeWith(four, pool("six", six, onRequest)), asking(eitherFamily), false},
		"the pool that is asked for has, on request":  {empty(edgeWith(four, shared)), asking(eitherFamily, forPool("both")), true},
		"the pool of the address has, on request":     {empty(edgeWith(four, shared)), asking(eitherFamily, forAddresses("192.0.2.1")), true},
		"a pool that is not asked for has":            {empty(edgeWith(four, pool("six", six))), asking(eitherFamily, forPool("four")), false},
		"another pool has, for others":                {edgeWith(four, pool("six", six, forTeam("b"))), asking(eitherFamily), false},
		"it has one family only":                      {empty(edgeWith(four, pool("six", six))), asking(), false},
		"the API server has not chosen families":      {empty(edgeWith(four, pool("six", six))), asking(unborn), false},
		"it has nothing":                              {edgeWith(), asking(eitherFamily), false},
		"the nodes have what they have":               {edgeWith(pool("nodes", "")), asking(eitherFamily), false},
		"so do cluster IPs, which are no pool's":      {edgeWith(clusterIPPool("own", first), pool("six", six)), asking(eitherFamily, withClusterIPs("10.96.0.9")), false},
		"pools of other sources have no such address": {edgeWith(four, pool("nodes", ""), clusterIPPool("own")), asking(eitherFamily), false},
	} {
		b := balanceOf(t, tc.svc)
		lots, _, err := Allot(t.Context(), tc.in, b, tc.in.graceLeft)
		if err != nil {
			t.Fatal(name, err)
		}
		tc.in.asked = nil
		if got, err := AwaitsFamily(t.Context(), tc.in, b, lots); err != nil || got != tc.want {
			t.Errorf("%s: with %v, it awaits a family: %v, %v", name, lotTexts(lots), got, err)
		}
		for tc.in.failing = range maps.Clone(tc.in.asked) {
			if got, err := AwaitsFamily(t.Context(), tc.in, b, lots); !errors.Is(err, errAway) {
				t.Errorf("%s: when %s fails it says %v, %v", name, tc.in.failing, got, err)
			}
		}
	}
}
