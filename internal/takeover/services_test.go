package takeover

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
)

// poolHas says whether a pool has an address.
func poolHas(p *v1beta1.AddressPool, ip netip.Addr) bool {
	pool, errs := addresspool.New(p)
	return len(errs) == 0 && pool.Set.Contains(ip)
}

func annotated(name, value string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Annotations = map[string]string{name: value} }
}

func TestServices(t *testing.T) {
	whole, shared := newPool("whole"), newPool("shared")
	whole.Spec.Addresses, shared.Spec.Addresses, shared.Spec.Sharing = []string{"192.0.2.0/24", "2001:db8::/64"}, []string{"198.51.100.0/24"}, v1beta1.SharingPorts
	at := func(ips ...string) func(*corev1.Service) {
		return func(svc *corev1.Service) {
			for _, ip := range ips {
				svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
			}
		}
	}
	held := newPool("held")
	held.Spec.Addresses = []string{"203.0.113.0/24"}
	long := string(slices.Repeat([]byte("1"), 1<<17))
	for name, tc := range map[string]struct {
		change []func(*Cluster)
		keeps  bool
		says   string
	}{
		"keeps":                  {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80)}, true, ""},
		"keeps what it asks for": {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80, annotated("metallb.io/loadBalancerIPs", "192.0.2.1"))}, true, ""},
		"keeps one of each family": {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80, at("2001:db8::1"),
			annotated("io.cilium/lb-ipam-ips", "2001:db8::1, 192.0.2.1"))}, true, ""},
		"keeps another": {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80, annotated("lbipam.cilium.io/ips", "192.0.2.2"))}, true,
			"kubectl annotate service -n shop a nginx-stream.jeffthecoder.xyz/addresses=192.0.2.2"},
		"of no pool":                      {[]func(*Cluster){balancer("shop/a", "10.0.0.1", 80)}, false, "no AddressPool gives it 10.0.0.1"},
		"of a pool that waits":            {[]func(*Cluster){balancer("shop/a", "203.0.113.1", 80)}, false, "AddressPool held of --only pools would give it 203.0.113.1, and waits"},
		"of pools that could not be read": {[]func(*Cluster){balancer("shop/a", "10.0.0.1", 80), func(c *Cluster) { c.MarkRead("IPAddressPool", "x") }}, false, "not all pools could be read"},
		"several":                         {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80, at("192.0.2.2"))}, false, "several addresses of one IP family"},
		"asks for another by a field": {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80, func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "192.0.2.2" })}, false,
			"it asks for 192.0.2.2 by spec.loadBalancerIP"},
		"asks nonsense of us": {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80, annotated(v1beta1.AnnotationAddresses, "x"))}, false, "is not an IP address"},
		"a host name": {[]func(*Cluster){balancer("shop/a", "", 80, func(svc *corev1.Service) {
			svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
		})}, false, ""},
		"waits": {[]func(*Cluster){balancer("shop/a", "", 80)}, false, ""},
		"waits for an address": {[]func(*Cluster){balancer("shop/a", "", 80, annotated("metallb.universe.tf/loadBalancerIPs", "192.0.2.7"))}, false,
			"kubectl annotate service -n shop a nginx-stream.jeffthecoder.xyz/addresses=192.0.2.7"},
		"waits for a pool": {[]func(*Cluster){balancer("shop/a", "", 80, annotated("metallb.universe.tf/address-pool", "whole"))}, false,
			"kubectl annotate service -n shop a nginx-stream.jeffthecoder.xyz/address-pool=whole"},
		"a pool that is no name":    {[]func(*Cluster){balancer("shop/a", "", 80, annotated("metallb.universe.tf/address-pool", "$(reboot)"))}, false, ""},
		"nonsense":                  {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80, annotated("metallb.io/loadBalancerIPs", "a\nb"))}, true, `for "a\nb", which is no address`},
		"long nonsense":             {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80, annotated("metallb.io/loadBalancerIPs", long))}, true, "which is no address"},
		"another class":             {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80, classed)}, false, "which can't be changed"},
		"our class":                 {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80, func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new(v1beta1.LoadBalancerClass) })}, false, ""},
		"shares":                    {[]func(*Cluster){balancer("shop/a", "198.51.100.1", 80), balancer("evil/b", "198.51.100.1", 81)}, true, ""},
		"shares what is not shared": {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80), balancer("evil/b", "192.0.2.1", 81)}, false, "AddressPool whole shares no addresses"},
		"shares a port":             {[]func(*Cluster){balancer("shop/a", "198.51.100.1", 80), balancer("evil/b", "198.51.100.1", 80)}, false, "one of the two gets it"},
		"may share":                 {[]func(*Cluster){balancer("shop/a", "192.0.2.1", 80, annotated("metallb.io/allow-shared-ip", "k"))}, true, "nobody does today"},
		"no load balancer":          {[]func(*Cluster){balancer("shop/a", "10.0.0.1", 80, func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeNodePort })}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := ServicesOf(clusterWith(tc.change...), Options{Namespace: "shop"}, []Document{{Object: whole}, {Object: shared}, {Object: held, Held: true}})
			keeps := slices.ContainsFunc(d.Notes, func(note string) bool {
				return strings.Contains(note, "controller that has served it has stopped; for that, apply of --only pools: ")
			})
			if keeps != tc.keeps || d.Object != nil {
				t.Errorf("got %+v", d)
			}
			says(t, d.Decisions, tc.says)
			for _, text := range slices.Concat(d.Decisions, d.Notes) {
				if len(text) > 1000 {
					t.Errorf("too long: %.100s ...", text)
				}
			}
		})
	}
}
