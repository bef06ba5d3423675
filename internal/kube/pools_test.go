package kube

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func addressPool(name, uid string, generation int64, addresses ...string) *v1beta1.AddressPool {
	return &v1beta1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Generation: generation},
		Spec:       v1beta1.AddressPoolSpec{Addresses: addresses},
	}
}

func TestPoolsAreReadOnce(t *testing.T) {
	v := &LoadBalancers{pools: noPools()}
	has := func(want string) {
		t.Helper()
		got := ""
		if p := v.Pools().Of(netip.MustParseAddr("192.0.2.1")); p != nil {
			got = p.Name
		}
		if got != want {
			t.Errorf("the address is in %q, want %q", got, want)
		}
	}
	has("")
	v.pools.set(addressPool("a", "1", 1, "192.0.2.0/24"), true)
	has("a")
	before := v.Pools()
	v.pools.set(addressPool("a", "1", 1, "192.0.2.0/24"), true) // its status has changed
	if v.Pools() != before {
		t.Error("a status has the pools read anew")
	}
	v.pools.set(addressPool("a", "1", 2, "192.0.2.128/25"), true)
	has("")
	v.pools.set(addressPool("a", "2", 2, "192.0.2.0/24"), true) // another of its name
	has("a")
	v.pools.set(toolscache.DeletedFinalStateUnknown{Obj: addressPool("a", "2", 2)}, false)
	has("")
	v.pools.set("something else", true)
}

func TestFreeAddress(t *testing.T) {
	v := &LoadBalancers{
		addresses: emptyAddresses(clocktesting.NewFakePassiveClock(metav1.Now().Time)),
		pools:     noPools(),
	}
	v.pools.set(addressPool("a", "1", 1, "192.0.2.1-192.0.2.2", "2001:db8::1"), true)
	pool := v.Pools().Pools()[0]
	all := func(ip netip.Addr) []claim.Coordinate { return []claim.Coordinate{claim.Address(ip)} }
	web := func(ip netip.Addr) []claim.Coordinate {
		return []claim.Coordinate{portAt(ip.String(), tcp80), portAt(ip.String(), tcp443)}
	}
	for _, step := range []struct {
		claim       claim.Coordinate
		whole, port string
	}{
		{whole: "192.0.2.1", port: "192.0.2.1"},
		{claim: portAt("192.0.2.1", tcp80), whole: "192.0.2.2", port: "192.0.2.2"},
		{claim: portAt("192.0.2.2", tcp22), whole: "invalid IP", port: "192.0.2.2"},
		{claim: whole("192.0.2.2"), whole: "invalid IP", port: "invalid IP"},
	} {
		if !step.claim.IsZero() {
			v.addresses.set(addressClaim(step.claim), true)
		}
		gotWhole, _ := v.FreeAddress(pool, corev1.IPv4Protocol, all)
		gotPort, _ := v.FreeAddress(pool, corev1.IPv4Protocol, web)
		if gotWhole.String() != step.whole || gotPort.String() != step.port {
			t.Errorf("after %s: free are %s and %s, want %s and %s", step.claim, gotWhole, gotPort, step.whole, step.port)
		}
	}
	if ip, ok := v.FreeAddress(pool, corev1.IPv6Protocol, all); !ok || ip.String() != "2001:db8::1" {
		t.Errorf("got %s", ip)
	}
}

func noPools() *book[*v1beta1.AddressPool, addresspool.Book] {
	return &book[*v1beta1.AddressPool, addresspool.Book]{readAll: addresspool.NewBook, known: map[string]*v1beta1.AddressPool{}}
}
