package allocator

import (
	"fmt"
	"testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// upTo limits what a namespace gets of a pool.
func upTo(n int32) poolChange { return func(s *v1beta1.AddressPoolSpec) { s.MaxPerNamespace = n } }

// frontOf is a class that names a Service.
func frontOf(namespace, name string) []*v1beta1.StreamIngressClass {
	return []*v1beta1.StreamIngressClass{class("public", func(c *v1beta1.StreamIngressClass) {
		c.Spec.Service = &v1beta1.ObjectReference{Namespace: namespace, Name: name}
	})}
}

func (c *cluster) behind(classes []*v1beta1.StreamIngressClass) *cluster {
	c.classes = classes
	return c
}

func TestAddressesOfANamespace(t *testing.T) {
	const reached = `AddressPool a gives at most 1 address(es) to one namespace (spec.maxPerNamespace), and namespace "shop" has 1: ` +
		`delete a Service that has one, or choose another pool`
	single := func(changes ...poolChange) *v1beta1.AddressPool {
		return pool("a", "192.0.2.1-192.0.2.9", append(changes, upTo(1))...)
	}
	limited := func(field, value, text string) []verdict {
		return []verdict{{v1beta1.ReasonNamespaceLimitReached, fmt.Sprintf("%s: Invalid value: %q: %s", field, value, text)}}
	}
	pools := []*v1beta1.AddressPool{pool("a", "192.0.2.1,2001:db8::1", upTo(1))}
	checkAll(t, map[string]allocated{
		"the first":                          {in: clusterWith(single()), svc: asking(), want: []string{"a addr.192-0-2-1 auto-assigned"}},
		"the second":                         {in: clusterWith(single()).taken("x", at("192.0.2.1")), svc: asking(), why: limited("spec.type", "LoadBalancer", reached)},
		"the second by name":                 {in: clusterWith(single()).taken("x", at("192.0.2.1")), svc: asking(forAddresses("192.0.2.7")), why: limited("metadata.annotations[nginx-stream.jeffthecoder.xyz/addresses]", "192.0.2.7", reached)},
		"the second of a pool that it names": {in: clusterWith(single()).taken("x", at("192.0.2.1")), svc: asking(forPool("a")), why: limited("metadata.annotations[nginx-stream.jeffthecoder.xyz/address-pool]", "a", reached)},
		"the second, and another pool has one": {in: clusterWith(single(first), pool("b", "198.51.100.1")).taken("x", at("192.0.2.1")),
			svc: asking(), want: []string{"b addr.198-51-100-1 auto-assigned"}},
		"the second, and another pool is full": {in: clusterWith(single(first), pool("b", "198.51.100.1")).taken("x", at("192.0.2.1"), at("198.51.100.1")), svc: asking(),
			why: []verdict{{v1beta1.ReasonNoFreeAddress, `spec.type: Invalid value: "LoadBalancer": AddressPool b has no free address of IPv4 left`}}},
		"the second, and there is none":         {in: clusterWith(pool("a", "192.0.2.1", upTo(1))).taken("x", at("192.0.2.1")), svc: asking(), why: limited("spec.type", "LoadBalancer", reached)},
		"what it has":                           {in: clusterWith(single()).taken("x", at("192.0.2.1")), svc: asking(), held: []claim.Coordinate{at("192.0.2.2")}, want: []string{"a addr.192-0-2-2"}},
		"another than it has":                   {in: clusterWith(single()), svc: asking(forAddresses("192.0.2.7")), held: []claim.Coordinate{at("192.0.2.2")}, want: []string{"a addr.192-0-2-7"}},
		"addresses of another pool don't count": {in: clusterWith(single(), pool("b", "198.51.100.1")).taken("x", at("198.51.100.1")), svc: asking(), want: []string{"a addr.192-0-2-1 auto-assigned"}},
		"nor does the front of a proxy":         {in: clusterWith(single()).taken("x", at("192.0.2.1")).behind(frontOf("shop", "x")), svc: asking(), want: []string{"a addr.192-0-2-2 auto-assigned"}},
		"which gets more":                       {in: clusterWith(single()).taken("x", at("192.0.2.1")).behind(frontOf("shop", "web")), svc: asking(), want: []string{"a addr.192-0-2-2 auto-assigned"}},
		"one of two families":                   {in: clusterWith(pools...), svc: asking(eitherFamily), want: []string{"a addr.192-0-2-1 auto-assigned"}},
		"one of two families that it must have": {in: clusterWith(pools...), svc: asking(bothFamilies), why: limited("spec.type", "LoadBalancer",
			`AddressPool a gives at most 1 address(es) to one namespace (spec.maxPerNamespace), and namespace "shop" has 0, and this Service asks for 2 more: delete a Service that has one, or choose another pool`)},
	})
}

func TestPortsOfAPool(t *testing.T) {
	two := func(source string) *cluster { return clusterWith(pool("a", source, sharesPorts, upTo(2))) }
	limited := func(field, value, text string) []verdict {
		return []verdict{{v1beta1.ReasonNamespaceLimitReached, fmt.Sprintf("%s: Invalid value: %q: "+
			`AddressPool a gives at most 2 port(s) to one namespace (spec.maxPerNamespace), and namespace "shop" has %s, or choose another pool`, field, value, text)}}
	}
	const wayOut = ": delete a Service that has one"
	eighty, node := portAt("192.0.2.1", 80), func(port int32) claim.Coordinate { return claim.NodePort("TCP", port) }
	checkAll(t, map[string]allocated{
		"the second": {in: two("192.0.2.1").taken("x", portAt("192.0.2.1", 1)), svc: asking(), want: []string{"a addr.192-0-2-1.tcp.80 auto-assigned"}},
		"the third":  {in: two("192.0.2.1").taken("x", portAt("192.0.2.1", 1), portAt("192.0.2.1", 2)), svc: asking(), why: limited("spec.type", "LoadBalancer", "2"+wayOut)},
		"a third port of one Service": {in: two("192.0.2.1"), svc: asking(onPorts(80, 81, 82)), held: []claim.Coordinate{eighty},
			why: limited("spec.ports", "3", "1, and this Service asks for 2 more"+wayOut)},
		"another port for one": {in: two("192.0.2.1").taken("x", portAt("192.0.2.1", 1)), svc: asking(onPorts(81)), held: []claim.Coordinate{eighty}, want: []string{"a addr.192-0-2-1.tcp.81"}},
		"another port for one, again, while both are held": {in: two("192.0.2.1").taken("x", portAt("192.0.2.1", 1)), svc: asking(onPorts(82)), held: []claim.Coordinate{eighty, portAt("192.0.2.1", 81)},
			why: limited("spec.type", "LoadBalancer", "3, of which 1 will be free again soon: try again then, or delete a Service that has one")},
		"the second of the nodes":     {in: two("").taken("x", node(1)), svc: asking(), want: []string{"a node.tcp.80"}},
		"the third of the nodes":      {in: two("").taken("x", node(1), node(2)), svc: asking(), why: limited("spec.type", "LoadBalancer", "2"+wayOut)},
		"addresses don't count there": {in: two("").taken("x", node(1), at("192.0.2.7")), svc: asking(), want: []string{"a node.tcp.80"}},
	})
}

// TestPortsOfAService has Services get at most two ports where they share.
func TestPortsOfAService(t *testing.T) {
	withLimit := func(pools ...*v1beta1.AddressPool) *cluster {
		w := clusterWith(pools...)
		w.maxPorts = 2
		return w
	}
	shared, nodes := pool("a", "192.0.2.1", sharesPorts), pool("n", "")
	tooMany := func(pool string) []verdict {
		return []verdict{{v1beta1.ReasonTooManyPorts, fmt.Sprintf("spec.ports: Too many: 3: a Service gets at most 2 ports where it shares addresses with others, as in AddressPool %s: "+
			"spread them over several Services, or have an address to itself from a pool with the sharing None", pool)}}
	}
	three := []claim.Coordinate{portAt("192.0.2.1", 80), portAt("192.0.2.1", 81), portAt("192.0.2.1", 82)}
	checkAll(t, map[string]allocated{
		"two":                          {in: withLimit(shared), svc: asking(onPorts(80, 81)), want: []string{"a addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.81 auto-assigned"}},
		"three":                        {in: withLimit(shared), svc: asking(onPorts(80, 81, 82)), why: tooMany("a")},
		"three, of which one is taken": {in: withLimit(shared).taken("x", portAt("192.0.2.1", 80)), svc: asking(onPorts(80, 81, 82)), why: tooMany("a")},
		"three of an address":          {in: withLimit(shared), svc: asking(onPorts(80, 81, 82), forAddresses("192.0.2.1")), why: tooMany("a")},
		"three of the nodes":           {in: withLimit(nodes), svc: asking(onPorts(80, 81, 82)), why: tooMany("n")},
		"three, and a whole address":   {in: withLimit(shared, nodes, pool("z", "198.51.100.1")), svc: asking(onPorts(80, 81, 82)), want: []string{"z addr.198-51-100-1 auto-assigned"}},
		"three that it has":            {in: withLimit(shared), svc: asking(onPorts(80, 81, 82)), held: three, want: []string{"a addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.81 addr.192-0-2-1.tcp.82"}},
		"another of three":             {in: withLimit(shared), svc: asking(onPorts(80, 81, 83)), held: three, want: []string{"a addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.81 addr.192-0-2-1.tcp.83"}},
		"one more than it has":         {in: withLimit(shared), svc: asking(onPorts(80, 81, 82)), held: three[:2], why: tooMany("a")},
		"three in front of a proxy":    {in: withLimit(shared).behind(frontOf("shop", "web")), svc: asking(onPorts(80, 81, 82)), want: []string{"a addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.81 addr.192-0-2-1.tcp.82 auto-assigned"}},
		"any number":                   {in: clusterWith(shared), svc: asking(onPorts(80, 81, 82)), want: []string{"a addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.81 addr.192-0-2-1.tcp.82 auto-assigned"}},
	})
}

// TestForwardedPortsHaveLimits has Services ask for a pool that they wait for, while their ports change at the address that
// they have.
func TestForwardedPortsHaveLimits(t *testing.T) {
	limited, tooMany := clusterWith(pool("a", "192.0.2.1", sharesPorts, upTo(1))), clusterWith(pool("a", "192.0.2.1", sharesPorts))
	tooMany.maxPorts = 1
	for reason, w := range map[string]*cluster{v1beta1.ReasonNamespaceLimitReached: limited, v1beta1.ReasonTooManyPorts: tooMany} {
		held := portAt("192.0.2.1", 80)
		w.claims = claims(web, held)
		svc := asking(forPool("none"), onPorts(80, 81), servedAt("192.0.2.1"))
		problems := Forwarded(w, subjectOf(t, svc, held), w.graceLeft).Problems
		if len(problems) != 1 || problems[0].Reason != reason {
			t.Errorf("want %s, got %v", reason, verdicts(problems))
		}
	}
}
