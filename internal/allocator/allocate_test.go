package allocator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func TestAllocateAnew(t *testing.T) {
	checkAll(t, map[string]allocated{
		"the lowest address": {in: clusterWith(pool("a", "192.0.2.1-192.0.2.9")), svc: asking(), want: []string{"a addr.192-0-2-1 auto-assigned"}},
		"what others have is left out": {
			in:  clusterWith(pool("a", "192.0.2.1-192.0.2.9")).taken("x", at("192.0.2.1")).taken("y", portAt("192.0.2.2", 443)),
			svc: asking(), want: []string{"a addr.192-0-2-3 auto-assigned"}},
		"the first pool by priority": {
			in: clusterWith(pool("a", "192.0.2.1"), pool("b", "198.51.100.1", first)), svc: asking(), want: []string{"b addr.198-51-100-1 auto-assigned"}},
		"the first pool is full": {in: clusterWith(pool("a", "192.0.2.1"), pool("b", "198.51.100.1")).taken("x", at("192.0.2.1")),
			svc: asking(), want: []string{"b addr.198-51-100-1 auto-assigned"}},
		"the first pool is on request only": {in: clusterWith(pool("a", "192.0.2.1", onRequest), pool("b", "198.51.100.1")),
			svc: asking(), want: []string{"b addr.198-51-100-1 auto-assigned"}},
		"the first pool serves other namespaces": {in: clusterWith(pool("a", "192.0.2.1", forTeam("b")), pool("b", "198.51.100.1", forTeam("a"))),
			svc: asking(), want: []string{"b addr.198-51-100-1 auto-assigned"}},
		"the first pool has another family": {in: clusterWith(pool("a", "2001:db8::1"), pool("b", "198.51.100.1")),
			svc: asking(), want: []string{"b addr.198-51-100-1 auto-assigned"}},
		"no family is chosen yet": {in: clusterWith(pool("a", "2001:db8::1,192.0.2.1")), svc: asking(unborn), want: []string{"a addr.192-0-2-1 auto-assigned"}},
		"buggy addresses are left out": {
			in: clusterWith(pool("a", "192.0.2.0/29", avoidBuggy)), svc: asking(), want: []string{"a addr.192-0-2-1 auto-assigned"}},
	})
}

func TestAllocateBothFamilies(t *testing.T) {
	apart := []*v1beta1.AddressPool{pool("four", "192.0.2.1"), pool("six", "2001:db8::1")}
	fourOnly := func() *cluster { return clusterWith(apart[0]) }
	checkAll(t, map[string]allocated{
		"from one pool, if one has both": {in: clusterWith(append(apart, pool("whole", "198.51.100.1,2001:db8:1::1"))...), svc: asking(bothFamilies),
			want: []string{"whole addr.198-51-100-1 auto-assigned", "whole addr.2001-db8-1--1 auto-assigned"}},
		"from several": {in: clusterWith(apart...), svc: asking(bothFamilies),
			want: []string{"four addr.192-0-2-1 auto-assigned", "six addr.2001-db8--1 auto-assigned"}},
		"one is enough":   {in: fourOnly(), svc: asking(eitherFamily), want: []string{"four addr.192-0-2-1 auto-assigned"}},
		"it is the other": {in: clusterWith(apart...).taken("x", at("192.0.2.1")), svc: asking(eitherFamily), want: []string{"six addr.2001-db8--1 auto-assigned"}},
		"one is not enough": {in: fourOnly(), svc: asking(bothFamilies), why: []verdict{{v1beta1.ReasonNoFreeAddress,
			`spec.type: Invalid value: "LoadBalancer": AddressPool four has no free address of IPv6 left`}}},
		"the other is added": {in: clusterWith(apart...), svc: asking(bothFamilies), held: []claim.Coordinate{at("192.0.2.1")},
			want: []string{"four addr.192-0-2-1", "six addr.2001-db8--1 auto-assigned"}},
		"it is added from the same pool": {
			in:  clusterWith(append(apart, pool("whole", "198.51.100.1,2001:db8:1::1", onRequest))...),
			svc: asking(bothFamilies), held: []claim.Coordinate{at("198.51.100.1")},
			want: []string{"whole addr.198-51-100-1", "whole addr.2001-db8-1--1 auto-assigned"}},
		"the other can't be added, and need not": {in: fourOnly(), svc: asking(eitherFamily), held: []claim.Coordinate{at("192.0.2.1")},
			want: []string{"four addr.192-0-2-1"}},
		"the other can't be added, and must": {in: fourOnly(), svc: asking(bothFamilies), held: []claim.Coordinate{at("192.0.2.1")},
			why: []verdict{{v1beta1.ReasonNoFreeAddress, `spec.type: Invalid value: "LoadBalancer": AddressPool four has no free address of IPv6 left`}}},
		"a family goes": {in: clusterWith(apart...), svc: asking(ipv6Only), held: []claim.Coordinate{at("192.0.2.1"), at("2001:db8::1")},
			want: []string{"six addr.2001-db8--1"}},
		"an address of one, any of the other": {in: clusterWith(apart...), svc: asking(bothFamilies, forAddresses("2001:db8::1")),
			want: []string{"four addr.192-0-2-1 auto-assigned", "six addr.2001-db8--1"}},
	})
}

func TestAllocateWhatIsAskedFor(t *testing.T) {
	two := func() *cluster {
		return clusterWith(pool("a", "192.0.2.1-192.0.2.9"), pool("b", "198.51.100.1-198.51.100.9", onRequest))
	}
	late := two()
	late.unread = []*v1beta1.AddressPool{pool("c", "203.0.113.1")}
	checkAll(t, map[string]allocated{
		"a pool":                      {in: two(), svc: asking(forPool("b")), want: []string{"b addr.198-51-100-1 auto-assigned"}},
		"a pool that is not yet read": {in: late, svc: asking(forPool("c")), want: []string{"c addr.203-0-113-1 auto-assigned"}},
		"an address":                  {in: two(), svc: asking(forAddresses("198.51.100.7")), want: []string{"b addr.198-51-100-7"}},
		"an address, unborn":          {in: two(), svc: asking(forAddresses("198.51.100.7"), unborn), want: []string{"b addr.198-51-100-7"}},
		"an address of a pool":        {in: two(), svc: asking(forPool("b"), forAddresses("198.51.100.7")), want: []string{"b addr.198-51-100-7"}},
		"the address that it has": {in: two(), svc: asking(forAddresses("192.0.2.7")), held: []claim.Coordinate{at("192.0.2.7")},
			want: []string{"a addr.192-0-2-7"}},
		"another than it has": {in: two(), svc: asking(forAddresses("192.0.2.7")), held: []claim.Coordinate{at("192.0.2.1")},
			want: []string{"a addr.192-0-2-7"}},
		"another pool than it has": {in: two(), svc: asking(forPool("b")), held: []claim.Coordinate{at("192.0.2.1")},
			want: []string{"b addr.198-51-100-1 auto-assigned"}},
		"nothing any longer, and it keeps what it was given on request": {in: two(), svc: asking(), held: []claim.Coordinate{at("198.51.100.1")},
			want: []string{"b addr.198-51-100-1"}},
		"an address, not ports of the nodes": {in: clusterWith(pool("a", "192.0.2.1"), pool("nodes", "", first)), svc: asking(forAddresses("192.0.2.1")),
			want: []string{"a addr.192-0-2-1"}},
		"an address, and it has ports of the nodes": {in: clusterWith(pool("a", "192.0.2.1"), pool("nodes", "")), svc: asking(forAddresses("192.0.2.1")),
			held: []claim.Coordinate{claim.NodePort("TCP", 80)}, want: []string{"a addr.192-0-2-1"}},
	})
}

func TestAllocatePorts(t *testing.T) {
	shared := func() *cluster { return clusterWith(pool("s", "192.0.2.1,192.0.2.2", sharesPorts)) }
	checkAll(t, map[string]allocated{
		"beside other ports": {in: shared().taken("x", portAt("192.0.2.1", 22)), svc: asking(onPorts(80, 443)),
			want: []string{"s addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.443 auto-assigned"}},
		"one of its ports is taken": {in: shared().taken("x", portAt("192.0.2.1", 443)), svc: asking(onPorts(80, 443)),
			want: []string{"s addr.192-0-2-2.tcp.80 addr.192-0-2-2.tcp.443 auto-assigned"}},
		"a whole address is taken": {in: shared().taken("x", at("192.0.2.1")), svc: asking(), want: []string{"s addr.192-0-2-2.tcp.80 auto-assigned"}},
		"a port comes": {in: shared(), svc: asking(onPorts(80, 443)), held: []claim.Coordinate{portAt("192.0.2.1", 80)},
			want: []string{"s addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.443"}},
		"a port goes": {in: shared(), svc: asking(), held: []claim.Coordinate{portAt("192.0.2.1", 80), portAt("192.0.2.1", 443)},
			want: []string{"s addr.192-0-2-1.tcp.80"}},
		"what is held whole stays whole": {in: shared(), svc: asking(), held: []claim.Coordinate{at("192.0.2.1")}, want: []string{"s addr.192-0-2-1"}},
		"a pool that shares is asked for": {
			in:  clusterWith(pool("a", "198.51.100.1"), pool("s", "192.0.2.1", sharesPorts)),
			svc: asking(forSharing("Ports")), want: []string{"s addr.192-0-2-1.tcp.80 auto-assigned"}},
	})
}

func TestAllocateOtherSources(t *testing.T) {
	nodes := func() *cluster { return clusterWith(pool("nodes", "")) }
	own := func() *cluster { return clusterWith(clusterIPPool("own")) }
	checkAll(t, map[string]allocated{
		"ports of the nodes": {in: nodes(), svc: asking(onPorts(80, 443)), want: []string{"nodes node.tcp.80 node.tcp.443"}},
		"a port of the nodes comes": {in: nodes(), svc: asking(onPorts(80, 443)), held: []claim.Coordinate{claim.NodePort("TCP", 80)},
			want: []string{"nodes node.tcp.80 node.tcp.443"}},
		"the nodes' port is taken, and there are addresses": {in: clusterWith(pool("nodes", "", first), pool("a", "192.0.2.1")).taken("x", claim.NodePort("TCP", 80)),
			svc: asking(), want: []string{"a addr.192-0-2-1 auto-assigned"}},
		"it keeps ports of the nodes though there are addresses": {in: clusterWith(pool("nodes", ""), pool("a", "192.0.2.1", first)), svc: asking(),
			held: []claim.Coordinate{claim.NodePort("TCP", 80)}, want: []string{"nodes node.tcp.80"}},
		"cluster IPs": {in: own(), svc: asking(bothFamilies, withClusterIPs("10.96.0.9", "fd00::9")),
			want: []string{"own addr.10-96-0-9", "own addr.fd00--9"}},
		"no cluster IP yet": {in: own(), svc: asking(unborn)},
		"a cluster IP comes": {in: own(), svc: asking(bothFamilies, withClusterIPs("10.96.0.9", "fd00::9")), held: []claim.Coordinate{at("10.96.0.9")},
			want: []string{"own addr.10-96-0-9", "own addr.fd00--9"}},
		"the cluster IP that it asks for": {in: own(), svc: asking(forAddresses("10.96.0.9"), withClusterIPs("10.96.0.9")),
			want: []string{"own addr.10-96-0-9"}},
		"an address, not the cluster IP": {in: clusterWith(pool("a", "192.0.2.1"), clusterIPPool("own", first)),
			svc: asking(forAddresses("192.0.2.1"), withClusterIPs("10.96.0.9")), want: []string{"a addr.192-0-2-1"}},
	})
}

func TestAwaitsFamily(t *testing.T) {
	four, six, empty := pool("four", "192.0.2.1,192.0.2.2"), "2001:db8::1", func(w *cluster) *cluster { return w.taken("x", at("2001:db8::1")) }
	shared := pool("both", "192.0.2.1,192.0.2.2,"+six, onRequest)
	for name, tc := range map[string]struct {
		in   *cluster
		svc  *corev1.Service
		want bool
	}{
		"no pool has the other family":                {clusterWith(four), asking(eitherFamily), false},
		"another pool has, and is full":               {empty(clusterWith(four, pool("six", six))), asking(eitherFamily), true},
		"its own pool has, and is full":               {empty(clusterWith(pool("a", "192.0.2.1,"+six))), asking(eitherFamily), true},
		"there is room":                               {clusterWith(four, pool("six", six)), asking(eitherFamily), false},
		"another pool has, on request":                {clusterWith(four, pool("six", six, onRequest)), asking(eitherFamily), false},
		"the pool that is asked for has, on request":  {empty(clusterWith(four, shared)), asking(eitherFamily, forPool("both")), true},
		"the pool of the address has, on request":     {empty(clusterWith(four, shared)), asking(eitherFamily, forAddresses("192.0.2.1")), true},
		"a pool that is not asked for has":            {empty(clusterWith(four, pool("six", six))), asking(eitherFamily, forPool("four")), false},
		"another pool has, for others":                {clusterWith(four, pool("six", six, forTeam("b"))), asking(eitherFamily), false},
		"it has one family only":                      {empty(clusterWith(four, pool("six", six))), asking(), false},
		"the API server has not chosen families":      {empty(clusterWith(four, pool("six", six))), asking(unborn), false},
		"it has nothing":                              {clusterWith(), asking(eitherFamily), false},
		"the nodes have what they have":               {clusterWith(pool("nodes", "")), asking(eitherFamily), false},
		"so do cluster IPs, which are no pool's":      {clusterWith(clusterIPPool("own", first), pool("six", six)), asking(eitherFamily, withClusterIPs("10.96.0.9")), false},
		"pools of other sources have no such address": {clusterWith(four, pool("nodes", ""), clusterIPPool("own")), asking(eitherFamily), false},
	} {
		s := subjectOf(t, tc.svc)
		allocations := Allocate(tc.in, s, tc.in.graceLeft).Allocations
		tc.in.asked = 0
		if got := AwaitsFamily(tc.in, s, allocations); got != tc.want {
			t.Errorf("%s: with %v, it awaits a family: %v", name, allocationTexts(allocations), got)
		}
		tc.in.failAfterEach(func() { AwaitsFamily(tc.in, s, allocations) })
	}
}
