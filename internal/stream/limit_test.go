package stream

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

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
			w := &facts{classes: []*v1beta1.StreamIngressClass{tc.class}, claims: tc.claims, streams: tc.stream, namespaces: map[string]labels.Set{"shop": tc.labels}}
			var free []int32
			decide(t, w, func(f Facts) refusal.Problems {
				req, problems := PortFor(f, tc.in, tc.class)
				free = listed(req.Free)
				return problems
			}, tc.want...)
			if diff := cmp.Diff(tc.free, free); len(tc.want) == 0 && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestListenersCountAsPorts has ListenerSets of a namespace listen on the Gateway of a class: those ports count as those of its streams do.
func TestListenersCountAsPorts(t *testing.T) {
	edge := types.NamespacedName{Namespace: "edge", Name: "public"}
	onGateway := func(c *v1beta1.StreamIngressClass) {
		c.Spec.Gateway = &v1beta1.ObjectReference{Namespace: edge.Namespace, Name: edge.Name}
	}
	limited := class("public", onGateway, allow(5000, 5009, ""), atMost(2), allow(5010, 5019, ""))
	set, other := claim.ListenerSetHolder("shop", "web"), claim.StreamHolder("shop", "other")
	whole := func(port int32) claim.Coordinate { return claim.Listener(edge, v1beta1.TCP, port) }
	host := func(port int32, name string) claim.Coordinate {
		return claim.HostListener(edge, claim.TLSListener, port, name)
	}
	running := map[string]*v1beta1.StreamIngress{"shop/other": sti(named("shop", "other"))}
	refused := func(has string) []verdict {
		return []verdict{{v1beta1.ReasonNamespaceLimitReached, `spec.listen: Invalid value: 5000: class "public" gives at most 2 port(s) of 5000-5009 to one namespace ` +
			`(spec.allow[0].maxPerNamespace), and namespace "shop" has ` + has + `: delete a stream; free for namespace "shop" nearby: 5010, 5011, 5012`}}
	}
	for name, tc := range map[string]struct {
		class  *v1beta1.StreamIngressClass
		claims map[claim.Coordinate]*v1beta1.EdgeClaim
		want   []verdict
	}{
		"one":                           {claims: claims(set, whole(5001))},
		"two":                           {claims: claims(set, whole(5001), claim.Listener(edge, v1beta1.UDP, 5001)), want: refused("2")},
		"one, and a stream":             {claims: both(claims(set, whole(5001)), claims(other, tcp(5002))), want: refused("2")},
		"one port of many names":        {claims: claims(set, host(5001, "a"), host(5001, "b"), host(5001, claim.AllHosts))},
		"two ports of a name each":      {claims: claims(set, host(5001, "a"), host(5002, "a")), want: refused("2")},
		"one port of two objects":       {claims: both(claims(set, host(5001, "a")), claims(claim.ListenerSetHolder("shop", "more"), host(5001, "b")))},
		"ports that another rule gives": {claims: claims(set, whole(5010), whole(5011))},
		"ports of another Gateway": {claims: claims(set, claim.Listener(types.NamespacedName{Namespace: "edge", Name: "private"}, v1beta1.TCP, 5001),
			claim.Listener(types.NamespacedName{Namespace: "edge", Name: "private"}, v1beta1.TCP, 5002))},
		"ports of another namespace": {claims: claims(claim.ListenerSetHolder("rival", "web"), whole(5001), whole(5002))},
		"a class without a Gateway":  {class: class("public", allow(5000, 5009, ""), atMost(2)), claims: claims(set, whole(5001), whole(5002))},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.class == nil {
				tc.class = limited
			}
			w := &facts{classes: []*v1beta1.StreamIngressClass{tc.class}, claims: tc.claims, streams: running}
			decide(t, w, func(f Facts) refusal.Problems {
				_, problems := PortFor(f, sti(listen(5000)), tc.class)
				return problems
			}, tc.want...)
		})
	}
}
