package rules

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// atMost limits the last rule of a class.
func atMost(n int32) func(*v1beta1.StreamIngressClass) {
	return func(c *v1beta1.StreamIngressClass) { c.Spec.Allow[len(c.Spec.Allow)-1].MaxPerNamespace = n }
}

// TestPortsOfANamespace has a rule for 5000-5009, of which a namespace gets two, and one for 5005-5099, of which it gets
// three.
func TestPortsOfANamespace(t *testing.T) {
	limited := class("public", allow(5000, 5009, "data"), atMost(2), allow(5005, 5099, ""), atMost(3), allow(20000, 20001, ""),
		autoAssign(5000, 5099))
	other, rival := claim.StreamHolder("shop", "other"), claim.StreamHolder("rival", "other")
	used := claims(other, tcp(5001), udp(5002))
	const reached = `class "public" gives at most 2 port(s) of 5000-5009 to one namespace (spec.allow[0].maxPerNamespace), and namespace "shop" has `
	refused := func(value, text string) []verdict {
		return []verdict{{v1beta1.ReasonNamespaceLimitReached, "spec.listen: " + value + ": " + reached + text}}
	}
	running := map[string]*v1beta1.StreamIngress{"shop/other": sti(named("shop", "other"))}
	for name, tc := range map[string]struct {
		class  *v1beta1.StreamIngressClass
		claims map[claim.Coordinate]*v1beta1.EdgeClaim
		stream map[string]*v1beta1.StreamIngress
		labels labels.Set
		in     *v1beta1.StreamIngress
		free   []int32
		want   []verdict
	}{
		"the second": {claims: claims(other, tcp(5001)), in: sti(listen(5000))},
		"the third, of either protocol": {claims: used, stream: running, in: sti(listen(5000)), want: refused("Invalid value: 5000",
			`2: delete a stream; free for namespace "shop" nearby: 5010, 5011, 5012; or leave listen out to be given a port`)},
		"the third, and streams are gone": {claims: used, in: sti(listen(5000)), want: refused("Invalid value: 5000",
			`2, of which 2 will be free again soon: try again then, or delete a stream; free for namespace "shop" nearby: 5010, 5011, 5012; or leave listen out to be given a port`)},
		"a port that a later rule gives, too": {claims: used, stream: running, in: sti(listen(5006)), want: refused("Invalid value: 5006",
			`2: delete a stream; free for namespace "shop" nearby: 5010, 5011, 5012; or leave listen out to be given a port`)},
		"a port that only a later rule gives":      {claims: used, in: sti(listen(5010))},
		"the port that it has":                     {claims: both(used, claims(me, tcp(5003))), in: sti(listen(5003))},
		"another port than it has":                 {claims: both(claims(other, tcp(5001)), claims(me, tcp(5003))), in: sti(listen(5004))},
		"another than it has, of more than two":    {claims: both(used, claims(me, tcp(5003))), in: sti(listen(5004))},
		"another than it has of another rule":      {claims: both(used, claims(me, tcp(5010))), stream: running, in: sti(listen(5000)), want: refused("Invalid value: 5000", `2: delete a stream; free for namespace "shop" nearby: 5011, 5012, 5013; or leave listen out to be given a port`)},
		"what another namespace has":               {claims: claims(rival, tcp(5001), tcp(5002)), in: sti(listen(5000))},
		"what another class has":                   {claims: claims(other, claim.Stream("internal", v1beta1.TCP, 5001), tcp(5001)), in: sti(listen(5000))},
		"what a ConfigMap of the namespace has":    {claims: claims(claim.ConfigMapHolder("shop", "tcp"), tcp(5001), tcp(5002)), in: sti(listen(5000))},
		"a namespace that another rule is for":     {claims: used, labels: labels.Set{"team": "web"}, in: sti(listen(5006))},
		"a class without limits does not count":    {class: class("public", allow(1, 65535, "")), claims: used, in: sti(listen(5000))},
		"any port, and one rule is spent":          {claims: both(used, claims(rival, tcp(5010))), in: sti(), class: class("public", allow(5000, 5009, "data"), atMost(2), allow(5005, 5012, ""), autoAssign(5000, 5099)), free: []int32{5011, 5012}},
		"any port, and one of the own rule is had": {claims: claims(other, tcp(5001)), in: sti(), class: class("public", allow(5000, 5002, "data"), atMost(2), autoAssign(5000, 5099)), free: []int32{5000, 5002}},
		"any port, and all rules are spent": {claims: used, stream: running, in: sti(), class: class("public", allow(5000, 5009, "data"), atMost(2), autoAssign(5000, 5009)),
			want: refused("Required value", `2: delete a stream, or name a port that another rule gives`)},
		"any port, all rules are spent, and no port is free": {claims: claims(other, tcp(5000), tcp(5001)), in: sti(), class: class("public", allow(5000, 5001, "data"), atMost(2), autoAssign(5000, 5001)),
			want: []verdict{{v1beta1.ReasonNoFreePort, `spec.listen: Required value: the autoAssign range 5000-5001 of class "public" has no free TCP port left for namespace "shop"; name a port, or delete a stream`}}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.class == nil {
				tc.class = limited
			}
			if tc.labels == nil {
				tc.labels = labels.Set{"team": "data"}
			}
			w := &world{classes: []*v1beta1.StreamIngressClass{tc.class}, claims: tc.claims, streams: tc.stream, namespaces: map[string]labels.Set{"shop": tc.labels}}
			var free []int32
			judge(t, w, func(v View) (refusal.Problems, error) {
				req, p, err := Port(t.Context(), v, tc.in, tc.class)
				if err == nil {
					free = listed(req.Free)
				}
				return p, err
			}, tc.want...)
			if diff := cmp.Diff(tc.free, free); len(tc.want) == 0 && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// upTo limits what a namespace gets of a pool.
func upTo(n int32) poolChange { return func(s *v1beta1.AddressPoolSpec) { s.MaxPerNamespace = n } }

// frontOf is a class that names a Service.
func frontOf(namespace, name string) []*v1beta1.StreamIngressClass {
	return []*v1beta1.StreamIngressClass{class("public", func(c *v1beta1.StreamIngressClass) {
		c.Spec.Service = &v1beta1.ObjectReference{Namespace: namespace, Name: name}
	})}
}

func (w *world) behind(classes []*v1beta1.StreamIngressClass) *world {
	w.classes = classes
	return w
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
	checkAll(t, map[string]allotted{
		"the first":                          {in: edgeWith(single()), svc: asking(), want: []string{"a addr.192-0-2-1 drawn"}},
		"the second":                         {in: edgeWith(single()).taken("x", at("192.0.2.1")), svc: asking(), why: limited("spec.type", "LoadBalancer", reached)},
		"the second by name":                 {in: edgeWith(single()).taken("x", at("192.0.2.1")), svc: asking(forAddresses("192.0.2.7")), why: limited("metadata.annotations[nginx-stream.jeffthecoder.xyz/addresses]", "192.0.2.7", reached)},
		"the second of a pool that it names": {in: edgeWith(single()).taken("x", at("192.0.2.1")), svc: asking(forPool("a")), why: limited("metadata.annotations[nginx-stream.jeffthecoder.xyz/address-pool]", "a", reached)},
		"the second, and another pool has one": {in: edgeWith(single(first), pool("b", "198.51.100.1")).taken("x", at("192.0.2.1")),
			svc: asking(), want: []string{"b addr.198-51-100-1 drawn"}},
		"the second, and another pool is full": {in: edgeWith(single(first), pool("b", "198.51.100.1")).taken("x", at("192.0.2.1"), at("198.51.100.1")), svc: asking(),
			why: []verdict{{v1beta1.ReasonNoFreeAddress, `spec.type: Invalid value: "LoadBalancer": AddressPool b has no free address of IPv4 left`}}},
		"the second, and there is none":         {in: edgeWith(pool("a", "192.0.2.1", upTo(1))).taken("x", at("192.0.2.1")), svc: asking(), why: limited("spec.type", "LoadBalancer", reached)},
		"what it has":                           {in: edgeWith(single()).taken("x", at("192.0.2.1")), svc: asking(), held: []claim.Coordinate{at("192.0.2.2")}, want: []string{"a addr.192-0-2-2"}},
		"another than it has":                   {in: edgeWith(single()), svc: asking(forAddresses("192.0.2.7")), held: []claim.Coordinate{at("192.0.2.2")}, want: []string{"a addr.192-0-2-7"}},
		"addresses of another pool don't count": {in: edgeWith(single(), pool("b", "198.51.100.1")).taken("x", at("198.51.100.1")), svc: asking(), want: []string{"a addr.192-0-2-1 drawn"}},
		"nor does the front of a proxy":         {in: edgeWith(single()).taken("x", at("192.0.2.1")).behind(frontOf("shop", "x")), svc: asking(), want: []string{"a addr.192-0-2-2 drawn"}},
		"which gets more":                       {in: edgeWith(single()).taken("x", at("192.0.2.1")).behind(frontOf("shop", "web")), svc: asking(), want: []string{"a addr.192-0-2-2 drawn"}},
		"one of two families":                   {in: edgeWith(pools...), svc: asking(eitherFamily), want: []string{"a addr.192-0-2-1 drawn"}},
		"one of two families that it must have": {in: edgeWith(pools...), svc: asking(bothFamilies), why: limited("spec.type", "LoadBalancer",
			`AddressPool a gives at most 1 address(es) to one namespace (spec.maxPerNamespace), and namespace "shop" has 0, and this Service asks for 2 more: delete a Service that has one, or choose another pool`)},
	})
}

func TestPortsOfAPool(t *testing.T) {
	two := func(source string) *world { return edgeWith(pool("a", source, sharesPorts, upTo(2))) }
	limited := func(field, value, text string) []verdict {
		return []verdict{{v1beta1.ReasonNamespaceLimitReached, fmt.Sprintf("%s: Invalid value: %q: "+
			`AddressPool a gives at most 2 port(s) to one namespace (spec.maxPerNamespace), and namespace "shop" has %s, or choose another pool`, field, value, text)}}
	}
	const wayOut = ": delete a Service that has one"
	eighty, node := portAt("192.0.2.1", 80), func(port int32) claim.Coordinate { return claim.NodePort("TCP", port) }
	checkAll(t, map[string]allotted{
		"the second": {in: two("192.0.2.1").taken("x", portAt("192.0.2.1", 1)), svc: asking(), want: []string{"a addr.192-0-2-1.tcp.80 drawn"}},
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
	world := func(pools ...*v1beta1.AddressPool) *world {
		w := edgeWith(pools...)
		w.maxPorts = 2
		return w
	}
	shared, nodes := pool("a", "192.0.2.1", sharesPorts), pool("n", "")
	tooMany := func(pool string) []verdict {
		return []verdict{{v1beta1.ReasonTooManyPorts, fmt.Sprintf("spec.ports: Too many: 3: a Service gets at most 2 ports where it shares addresses with others, as in AddressPool %s: "+
			"spread them over several Services, or have an address to itself from a pool with the sharing None", pool)}}
	}
	three := []claim.Coordinate{portAt("192.0.2.1", 80), portAt("192.0.2.1", 81), portAt("192.0.2.1", 82)}
	checkAll(t, map[string]allotted{
		"two":                          {in: world(shared), svc: asking(onPorts(80, 81)), want: []string{"a addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.81 drawn"}},
		"three":                        {in: world(shared), svc: asking(onPorts(80, 81, 82)), why: tooMany("a")},
		"three, of which one is taken": {in: world(shared).taken("x", portAt("192.0.2.1", 80)), svc: asking(onPorts(80, 81, 82)), why: tooMany("a")},
		"three of an address":          {in: world(shared), svc: asking(onPorts(80, 81, 82), forAddresses("192.0.2.1")), why: tooMany("a")},
		"three of the nodes":           {in: world(nodes), svc: asking(onPorts(80, 81, 82)), why: tooMany("n")},
		"three, and a whole address":   {in: world(shared, nodes, pool("z", "198.51.100.1")), svc: asking(onPorts(80, 81, 82)), want: []string{"z addr.198-51-100-1 drawn"}},
		"three that it has":            {in: world(shared), svc: asking(onPorts(80, 81, 82)), held: three, want: []string{"a addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.81 addr.192-0-2-1.tcp.82"}},
		"another of three":             {in: world(shared), svc: asking(onPorts(80, 81, 83)), held: three, want: []string{"a addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.81 addr.192-0-2-1.tcp.83"}},
		"one more than it has":         {in: world(shared), svc: asking(onPorts(80, 81, 82)), held: three[:2], why: tooMany("a")},
		"three in front of a proxy":    {in: world(shared).behind(frontOf("shop", "web")), svc: asking(onPorts(80, 81, 82)), want: []string{"a addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.81 addr.192-0-2-1.tcp.82 drawn"}},
		"any number":                   {in: edgeWith(shared), svc: asking(onPorts(80, 81, 82)), want: []string{"a addr.192-0-2-1.tcp.80 addr.192-0-2-1.tcp.81 addr.192-0-2-1.tcp.82 drawn"}},
	})
}

// TestForwardedPortsHaveLimits has Services ask for a pool that they wait for, while their ports change at the address that
// they have.
func TestForwardedPortsHaveLimits(t *testing.T) {
	limited, tooMany := edgeWith(pool("a", "192.0.2.1", sharesPorts, upTo(1))), edgeWith(pool("a", "192.0.2.1", sharesPorts))
	tooMany.maxPorts = 1
	for reason, w := range map[string]*world{v1beta1.ReasonNamespaceLimitReached: limited, v1beta1.ReasonTooManyPorts: tooMany} {
		held := portAt("192.0.2.1", 80)
		w.claims = claims(web, held)
		svc := asking(forPool("none"), onPorts(80, 81), servedAt("192.0.2.1"))
		_, problems, err := Forwarded(t.Context(), w, balanceOf(t, svc, held), w.graceLeft)
		if err != nil || len(problems) != 1 || problems[0].Reason != reason {
			t.Errorf("want %s, got %v %v", reason, verdicts(problems), err)
		}
	}
}
