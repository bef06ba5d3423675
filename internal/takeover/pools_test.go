package takeover

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// balancer adds a Service of type LoadBalancer with a port, at an address or none.
func balancer(key, ip string, port int32, change ...func(*corev1.Service)) func(*Cluster) {
	return func(c *Cluster) {
		svc := &corev1.Service{ObjectMeta: metaOf(key), Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: port, Protocol: corev1.ProtocolTCP}},
		}}
		if ip != "" {
			svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		}
		for _, f := range change {
			f(svc)
		}
		c.Services = append(c.Services, svc)
	}
}

func classed(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new("example.com/x") }

// metalLB adds a pool of MetalLB.
func metalLB(name string, spec map[string]any) func(*Cluster) {
	return func(c *Cluster) { c.MetalLB = append(c.MetalLB, ipAddressPool(name, spec)) }
}

// selects is a selector for one label of that name.
func selects(label string) map[string]any {
	return map[string]any{"matchLabels": map[string]any{label: "x"}}
}

func TestPools(t *testing.T) {
	public := metalLB("public", map[string]any{"addresses": []any{"192.0.2.0/30"}})
	for name, tc := range map[string]struct {
		change []func(*Cluster)
		want   []string
		says   string
	}{
		"as it is":        {[]func(*Cluster){public, balancer("shop/a", "192.0.2.1", 80)}, []string{"public 192.0.2.0/30 None"}, ""},
		"without sharing": {[]func(*Cluster){public, balancer("shop/a", "192.0.2.1", 80), balancer("shop/b", "192.0.2.2", 80)}, []string{"public 192.0.2.0/30 None"}, ""},
		"an address that two share": {[]func(*Cluster){public, balancer("shop/a", "192.0.2.1", 80), balancer("shop/b", "192.0.2.1", 81)},
			[]string{"public 192.0.2.0,192.0.2.2-192.0.2.3 None", "public-shared 192.0.2.1 Ports"}, "anything in this namespace may"},
		"an address that two namespaces share": {[]func(*Cluster){public, balancer("shop/a", "192.0.2.1", 80), balancer("evil/b", "192.0.2.1", 81)},
			[]string{"public 192.0.2.0,192.0.2.2-192.0.2.3 None", "public-shared held"}, "are all these namespaces to share"},
		"what is shared of a pool that waits": {[]func(*Cluster){metalLB("public", map[string]any{"addresses": []any{"192.0.2.0/30"},
			"serviceAllocation": map[string]any{"serviceSelectors": []any{selects("a"), selects("b")}}}),
			balancer("shop/a", "192.0.2.1", 80), balancer("shop/b", "192.0.2.1", 81)},
			[]string{"public held", "public-shared held"}, "AddressPool public, of whose addresses these are, waits"},
		"without Services":             {[]func(*Cluster){public, func(c *Cluster) { c.Snapshot = &snapshot.Snapshot{} }}, []string{"public held"}, "not all Services could be read"},
		"of Services of one namespace": {[]func(*Cluster){public, func(c *Cluster) { c.MarkRead("Service", "shop") }}, []string{"public held"}, "not all Services could be read"},
		"two addresses of one family": {[]func(*Cluster){public, balancer("shop/a", "192.0.2.1", 80, func(svc *corev1.Service) {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "192.0.2.3"})
		})}, []string{"public 192.0.2.0,192.0.2.2 None"}, "192.0.2.3 is left out, as Service shop/a has it, and is left alone"},
		"an address that stays": {[]func(*Cluster){public, balancer("shop/a", "192.0.2.3", 80, classed)},
			[]string{"public 192.0.2.0-192.0.2.2 None"}, "192.0.2.3 is left out"},
		"shared with who stays": {[]func(*Cluster){public, balancer("shop/a", "192.0.2.3", 80, classed), balancer("shop/b", "192.0.2.3", 81)},
			[]string{"public 192.0.2.0-192.0.2.2 None"}, "192.0.2.3 is left out"},
		"all of it is shared": {[]func(*Cluster){metalLB("one", map[string]any{"addresses": []any{"192.0.2.1/32"}}), balancer("shop/a", "192.0.2.1", 80),
			balancer("shop/b", "192.0.2.1", 81)}, []string{"one-shared 192.0.2.1 Ports"}, "anything in this namespace may"},
		"what can't be read": {[]func(*Cluster){metalLB("x", map[string]any{"addresses": 1})}, nil, "can't be read"},
		"no addresses of it": {[]func(*Cluster){metalLB("x", map[string]any{"addresses": []any{"x\n---"}})}, []string{"x held"}, `"x\n---"`},
		"one that says the same": {[]func(*Cluster){public, func(c *Cluster) {
			pool := newPool("public")
			pool.Spec = v1beta1.AddressPoolSpec{Source: v1beta1.SourceAddresses, AutoAssign: new(true), Addresses: []string{"192.0.2.0/30"}}
			c.Pools = append(c.Pools, pool)
		}}, []string{"public 192.0.2.0/30 None"}, ""},
		"one that says something else": {[]func(*Cluster){public, func(c *Cluster) { c.Pools = append(c.Pools, newPool("public")) }},
			[]string{"public held"}, "AddressPool public is there"},
	} {
		t.Run(name, func(t *testing.T) {
			var got, said []string
			for _, d := range PoolsOf(clusterWith(tc.change...)) {
				said = append(said, d.Decisions...)
				switch pool, is := d.Object.(*v1beta1.AddressPool); {
				case is && d.Held:
					got = append(got, pool.Name+" held")
				case is:
					got = append(got, fmt.Sprintf("%s %s %s", pool.Name, strings.Join(pool.Spec.Addresses, ","), pool.SharingOrDefault()))
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q", got)
			}
			says(t, said, tc.says)
		})
	}
}

// TestPriorities has pools of MetalLB be tried in the order in which it tries them.
func TestPriorities(t *testing.T) {
	with := func(name string, ip int, priority any) func(*Cluster) {
		spec := map[string]any{"addresses": []any{fmt.Sprintf("192.0.2.%d/32", ip)}}
		if priority != nil {
			spec["serviceAllocation"] = map[string]any{"priority": priority, "namespaces": []any{"shop"}}
		}
		return metalLB(name, spec)
	}
	got := map[string]int32{}
	for _, d := range PoolsOf(clusterWith(with("last", 1, nil), with("third", 2, int64(0)), with("first", 3, int64(1)), with("second", 4, int64(70)), with("too", 5, int64(1)),
		metalLB("none", map[string]any{"addresses": []any{"192.0.2.6/32"}, "serviceAllocation": map[string]any{"priority": int64(1)}}))) {
		pool := d.Object.(*v1beta1.AddressPool)
		got[pool.Name] = pool.Spec.Priority
		if pool.AutoAssigns() != (pool.Name != "none") {
			t.Errorf("%s gives addresses unasked: %v", pool.Name, pool.AutoAssigns())
		}
	}
	for name, want := range map[string]int32{"none": 0, "last": 1, "third": 2, "second": 3, "first": 4, "too": 4} {
		if got[name] != want {
			t.Errorf("%s has the priority %d", name, got[name])
		}
	}
}

// FuzzWithout holds that a range without some addresses has all others, and these no longer.
func FuzzWithout(f *testing.F) {
	f.Add("192.0.2.0/29", uint8(0), uint8(7))
	f.Add("192.0.2.0-192.0.2.5", uint8(3), uint8(3))
	f.Add("192.0.2.1", uint8(1), uint8(2))
	f.Fuzz(func(t *testing.T, text string, a, b uint8) {
		ip := func(i uint8) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, i}) }
		has := func(texts []string, i uint8) bool {
			return slices.ContainsFunc(texts, func(text string) bool {
				p := newPool("p")
				p.Spec.Addresses = []string{text}
				return poolHas(p, ip(i))
			})
		}
		out := []netip.Addr{ip(min(a, b)), ip(max(a, b))}
		left := without(text, out)
		for i := range 256 {
			want := has([]string{text}, uint8(i)) && uint8(i) != a && uint8(i) != b
			if got := has(left, uint8(i)); got != want {
				t.Errorf("%q without %v is %q: %v has %v", text, out, left, ip(uint8(i)), got)
			}
		}
	})
}

func TestPoolName(t *testing.T) {
	p, names := &metalLBPool{}, map[string]bool{}
	p.Namespace, p.Name = "a", strings.Repeat("x", 100)
	first := poolName(p, "", names)
	shared := poolName(p, "-shared", names)
	if len(first) != 63 || len(shared) != 63 || !strings.HasSuffix(shared, "-shared") {
		t.Errorf("got %s, %s", first, shared)
	}
	p.Name = "public"
	one := poolName(p, "", names)
	p.Namespace = "b"
	if other := poolName(p, "", names); one != "public" || other == one || !strings.HasPrefix(other, "public-") {
		t.Errorf("got %s, %s", one, other)
	}
}
