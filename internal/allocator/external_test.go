package allocator

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// Naming are those of the Services that name an address, in no order.
func (c *cluster) Naming(ip netip.Addr) []*corev1.Service {
	var naming []*corev1.Service
	for _, svc := range c.services {
		if slices.Contains(loadbalancer.ExternalIPs(svc), ip) {
			naming = append(naming, svc)
		}
	}
	return answer(c, naming)
}

// named is the Service shop/web of no type, which names addresses and has the port TCP/80.
func named(addresses ...string) *corev1.Service {
	svc := asking()
	svc.Spec.Type, svc.Spec.ExternalIPs, svc.UID = corev1.ServiceTypeClusterIP, addresses, "web"
	return svc
}

// rivals are a Service of another namespace that names addresses.
func rivals(created time.Time, addresses ...string) *corev1.Service {
	svc := named(addresses...)
	svc.Namespace, svc.UID, svc.CreationTimestamp = "rival", "rival", metav1.NewTime(created)
	return svc
}

var rivalWeb = claim.ServiceHolder("rival", "web")

// TestExternal judges addresses that a Service names.
func TestExternal(t *testing.T) {
	serving := pool("pool", "192.0.2.0/28", sharesPorts)
	deleted := named("192.0.2.7")
	deleted.DeletionTimestamp = new(metav1.NewTime(since))
	many := named("192.0.2.7")
	onPorts(80, 81, 82, 83)(many)
	for name, tc := range map[string]struct {
		in          *cluster
		before, svc *corev1.Service
		want        []string
		why         []verdict
	}{
		"free": {&cluster{pools: []*v1beta1.AddressPool{serving}}, nil, named("192.0.2.7"), []string{"addr.192-0-2-7.tcp.80"}, nil},
		"whatever the pool shares": {&cluster{pools: []*v1beta1.AddressPool{pool("pool", "192.0.2.0/28")}}, nil, named("192.0.2.7"),
			[]string{"addr.192-0-2-7.tcp.80"}, nil},
		"of no pool": {&cluster{pools: []*v1beta1.AddressPool{serving}}, nil, named("198.51.100.1"), nil, []verdict{{"AddressNotInPool",
			`spec.externalIPs[0]: Forbidden: no AddressPool gives 198.51.100.1 to a Service like this in namespace "shop"; it may name those of pool`}}},
		"of one for others": {&cluster{pools: []*v1beta1.AddressPool{pool("pool", "192.0.2.0/28", forTeam("other"))}}, nil, named("192.0.2.7"), nil,
			[]verdict{{"AddressNotInPool", `spec.externalIPs[0]: Forbidden: no AddressPool gives 192.0.2.7 to a Service like this in namespace "shop", ` +
				"nor any other: a pool has to say so by its namespaceSelector and serviceSelector"}}},
		"of one that gives nodes": {&cluster{pools: []*v1beta1.AddressPool{pool("nodes", "")}}, nil, named("192.0.2.7"), nil,
			[]verdict{{"AddressNotInPool", `spec.externalIPs[0]: Forbidden: no AddressPool gives 192.0.2.7 to a Service like this in namespace "shop", ` +
				"nor any other: a pool has to say so by its namespaceSelector and serviceSelector"}}},
		"with leading zeros": {&cluster{pools: []*v1beta1.AddressPool{serving}, claims: claims(rivalWeb, portAt("192.0.2.7", 80)),
			services: map[string]*corev1.Service{"rival/web": rivals(since, "192.0.2.7")}}, nil, named("192.000.002.007"), nil,
			[]verdict{{"AddressConflict", `spec.externalIPs[0]: Duplicate value: "192.0.2.7": port TCP/80 there is held by Service rival/web since ` +
				"2026-07-01T12:30:00Z; choose another port, or another address: free in AddressPool pool is 192.0.2.0"}}},
		"all of it is held": {&cluster{pools: []*v1beta1.AddressPool{serving}, claims: claims(rivalWeb, at("192.0.2.7")),
			services: map[string]*corev1.Service{"rival/web": func() *corev1.Service { s := rivals(since); s.Spec.Type = corev1.ServiceTypeLoadBalancer; return s }()}},
			nil, named("192.0.2.7"), nil, []verdict{{"AddressConflict", `spec.externalIPs[0]: Duplicate value: "192.0.2.7": all of it is held by ` +
				"Service rival/web since 2026-07-01T12:30:00Z; choose another address: free in AddressPool pool is 192.0.2.0"}}},
		"named without a claim": {&cluster{pools: []*v1beta1.AddressPool{serving}, services: map[string]*corev1.Service{"rival/web": rivals(since, "192.0.2.7")}},
			nil, named("192.0.2.7"), nil, []verdict{{"AddressConflict", `spec.externalIPs[0]: Duplicate value: "192.0.2.7": port TCP/80 there is held by ` +
				"Service rival/web; choose another port, or another address: free in AddressPool pool is 192.0.2.0"}}},
		"one's own load balancer's": {&cluster{pools: []*v1beta1.AddressPool{serving}, claims: claims(web, at("192.0.2.7"))}, nil, named("192.0.2.7"),
			[]string{"addr.192-0-2-7.tcp.80"}, nil},
		"what stands": {&cluster{}, named("198.51.100.1"), named("198.51.100.1"), nil, nil},
		"a port more": {&cluster{pools: []*v1beta1.AddressPool{serving}}, named("192.0.2.7"), many,
			[]string{"addr.192-0-2-7.tcp.81", "addr.192-0-2-7.tcp.82", "addr.192-0-2-7.tcp.83"}, nil},
		"too many ports": {&cluster{pools: []*v1beta1.AddressPool{serving}, maxPorts: 3}, nil, many, nil, []verdict{{"TooManyPorts",
			"spec.externalIPs: Too many: 4: a Service gets at most 3 ports of addresses that it names, all of these together: spread them over several Services"}}},
		"too many addresses": {&cluster{pools: []*v1beta1.AddressPool{serving}}, nil, named(slices.Repeat([]string{"192.0.2.7"}, 17)...), nil, []verdict{{"TooManyPorts",
			"spec.externalIPs: Too many: 17: a Service may name at most 16 addresses: spread them over several Services"}}},
		"too many, and one more": {&cluster{}, named(slices.Repeat([]string{"192.0.2.7"}, 17)...), named(append(slices.Repeat([]string{"192.0.2.7"}, 17), "192.0.2.8")...),
			nil, []verdict{{"TooManyPorts", "spec.externalIPs: Too many: 18: a Service may name at most 16 addresses: spread them over several Services"}}},
		"too many, as before": {&cluster{}, named(slices.Repeat([]string{"192.0.2.7"}, 17)...), named(slices.Repeat([]string{"192.0.2.7"}, 17)...), nil, nil},
		"more than a share, by an edit": {&cluster{pools: []*v1beta1.AddressPool{pool("pool", "192.0.2.0/28", upTo(2))},
			claims: claims(web, portAt("192.0.2.1", 80), portAt("192.0.2.2", 80)), services: map[string]*corev1.Service{"shop/web": named("192.0.2.1", "192.0.2.2")}},
			named("192.0.2.1", "192.0.2.2"), named("192.0.2.1", "192.0.2.2", "192.0.2.3"), nil, []verdict{{"NamespaceLimitReached",
				`spec.externalIPs[2]: Invalid value: "192.0.2.3": AddressPool pool gives at most 2 port(s) to one namespace (spec.maxPerNamespace), ` +
					`and namespace "shop" has 2, and this Service asks for 1 more: delete a Service that has one, or choose another pool`}}},
		"one for another": {&cluster{pools: []*v1beta1.AddressPool{pool("pool", "192.0.2.0/28", upTo(2))},
			claims: claims(web, portAt("192.0.2.1", 80), portAt("192.0.2.2", 80)), services: map[string]*corev1.Service{"shop/web": named("192.0.2.1", "192.0.2.2")}},
			named("192.0.2.1", "192.0.2.2"), named("192.0.2.1", "192.0.2.3"), []string{"addr.192-0-2-3.tcp.80"}, nil},
		"beside what it was given": {&cluster{pools: []*v1beta1.AddressPool{pool("pool", "192.0.2.0/28", upTo(1))}, claims: claims(web, at("192.0.2.1")),
			services: map[string]*corev1.Service{"shop/web": asking()}}, nil, named("192.0.2.3"), nil, []verdict{{"NamespaceLimitReached",
			`spec.externalIPs[0]: Invalid value: "192.0.2.3": AddressPool pool gives at most 1 port(s) to one namespace (spec.maxPerNamespace), ` +
				`and namespace "shop" has 1, and this Service asks for 1 more: delete a Service that has one, or choose another pool`}}},
		"twice, in two spellings": {&cluster{pools: []*v1beta1.AddressPool{pool("pool", "192.0.2.0/28", upTo(1))}}, nil, named("192.0.2.7", "192.000.002.007"),
			[]string{"addr.192-0-2-7.tcp.80"}, nil},
		"being deleted": {&cluster{pools: []*v1beta1.AddressPool{serving}}, nil, deleted, nil, []verdict{{"BeingDeleted",
			"spec.externalIPs: Forbidden: the object is being deleted: until it is gone it keeps what it has, and it is given nothing more; create another one"}}},
		"in front of a proxy, as before": {&cluster{classes: []*v1beta1.StreamIngressClass{class("edge", inShop)}}, named("198.51.100.1"),
			func() *corev1.Service { s := named("198.51.100.1"); onPorts(80, 81)(s); return s }(), []string{"addr.198-51-100-1.tcp.81"}, nil},
		"in front of a proxy, another": {&cluster{classes: []*v1beta1.StreamIngressClass{class("edge", inShop)}}, named("198.51.100.1"), named("198.51.100.2"), nil,
			[]verdict{{"AddressNotInPool", `spec.externalIPs[0]: Forbidden: no AddressPool gives 198.51.100.2 to a Service like this in namespace "shop", ` +
				"nor any other: a pool has to say so by its namespaceSelector and serviceSelector"}}},
	} {
		t.Run(name, func(t *testing.T) {
			points, problems := External(tc.in, tc.before, tc.svc, tc.in.graceLeft)
			var got []string
			for _, at := range points {
				got = append(got, at.Name())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.why, verdicts(problems)); diff != "" {
				t.Error(diff)
			}
			tc.in.failAfterEach(func() { External(tc.in, tc.before, tc.svc, tc.in.graceLeft) })
		})
	}
}

// inShop has the Service shop/web stand in front of the proxy of a class.
func inShop(c *v1beta1.StreamIngressClass) {
	c.Spec.Service = &v1beta1.ObjectReference{Namespace: "shop", Name: "web"}
}

// TestSettleExternal enters what Services name, and tells who lost.
func TestSettleExternal(t *testing.T) {
	ip := netip.MustParseAddr("192.0.2.7")
	serving := pool("pool", "192.0.2.0/28", sharesPorts)
	mine, theirs := named("192.0.2.7"), rivals(since.Add(time.Hour), "192.0.2.7")
	mine.CreationTimestamp = metav1.NewTime(since)
	served := asking(called("other"), madeAt(5), onPorts(443), servedOn("192.0.2.7"))
	gives := asking(called("x"), handsOver("shop/heir"), servedOn("192.0.2.7"))
	gives.Spec.ExternalIPs = []string{"192.0.2.7"}
	both := map[string]*corev1.Service{"shop/web": mine, "rival/web": theirs}
	lost := func(name, reason, text string) string { return name + " " + reason + " spec.externalIPs[0]: " + text }
	for name, tc := range map[string]struct {
		in          *cluster
		enter, lost []string
	}{
		"the older has it": {&cluster{pools: []*v1beta1.AddressPool{serving}, services: both}, []string{"shop/web addr.192-0-2-7.tcp.80"},
			[]string{lost("rival/web", "AddressConflict", "port TCP/80 of 192.0.2.7 is held by Service shop/web")}},
		"what is claimed stays": {&cluster{pools: []*v1beta1.AddressPool{serving}, services: both, claims: claims(rivalWeb, portAt("192.0.2.7", 80))}, nil,
			[]string{lost("shop/web", "AddressConflict", "port TCP/80 of 192.0.2.7 is held by Service rival/web since 2026-07-01T12:30:00Z")}},
		"who leaves is nobody's loss": {&cluster{pools: []*v1beta1.AddressPool{serving}, services: map[string]*corev1.Service{"shop/web": mine},
			claims: claims(claim.ServiceHolder("shop", "gone"), portAt("192.0.2.7", 80))}, nil, nil},
		"a whole address that another lists is all the other's": {&cluster{pools: []*v1beta1.AddressPool{pool("pool", "192.0.2.0/28")}, services: map[string]*corev1.Service{
			"shop/web": mine, "shop/other": served}}, nil,
			[]string{lost("shop/web", "AddressConflict", "port TCP/80 of 192.0.2.7 is held by Service shop/other since 2026-07-01T12:35:00Z")}},
		"of one that is shared the other has its ports": {&cluster{pools: []*v1beta1.AddressPool{serving}, services: map[string]*corev1.Service{
			"shop/web": mine, "shop/other": served}}, []string{"shop/web addr.192-0-2-7.tcp.80"}, nil},
		"nor what it has handed over with the whole address": {
			givenBy("data/heir", []*v1beta1.AddressPool{pool("pool", "192.0.2.0/28")}, claim.Address(ip)).promised(claim.Address(ip), claim.ServiceHolder("shop", "heir")).
				stored(gives, asking(called("heir"))), nil,
			[]string{lost("shop/x", "AddressConflict", "port TCP/80 of 192.0.2.7 is held by Service shop/heir since 2026-07-01T12:30:00Z")}},
		"entered without a pool, too": {&cluster{services: map[string]*corev1.Service{"shop/web": mine}}, []string{"shop/web addr.192-0-2-7.tcp.80"},
			[]string{lost("shop/web", "AddressNotInPool", `no AddressPool gives 192.0.2.7 to a Service like this in namespace "shop", `+
				"nor any other: a pool has to say so by its namespaceSelector and serviceSelector")}},
	} {
		t.Run(name, func(t *testing.T) {
			entries, losses := SettleExternal(tc.in, ip, tc.in.graceLeft)
			var enter, lost []string
			for _, e := range entries {
				enter = append(enter, e.By.Key().String()+" "+e.At.Name())
			}
			for _, l := range losses {
				lost = append(lost, l.Service.Namespace+"/"+l.Service.Name+" "+l.Reason+" "+l.Text)
			}
			if diff := cmp.Diff(tc.enter, enter) + cmp.Diff(tc.lost, lost); diff != "" {
				t.Error(diff)
			}
			tc.in.failAfterEach(func() { SettleExternal(tc.in, ip, tc.in.graceLeft) })
		})
	}
}
