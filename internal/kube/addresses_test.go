package kube

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

func addressClaim(at claim.Coordinate) *v1beta1.EdgeClaim {
	return claim.New(at, claim.Claimant{Holder: claim.ServiceHolder("shop", "web"), UID: "u"})
}

func addressSet(t testing.TB, addresses ...string) addresspool.Set {
	t.Helper()
	set, errs := addresspool.Parse(&v1beta1.AddressPoolSpec{Addresses: addresses})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return set
}

var (
	tcp80  = stream.PortKey{Protocol: v1beta1.TCP, Port: 80}
	tcp443 = stream.PortKey{Protocol: v1beta1.TCP, Port: 443}
	tcp22  = stream.PortKey{Protocol: v1beta1.TCP, Port: 22}
)

func whole(ip string) claim.Coordinate { return claim.Address(netip.MustParseAddr(ip)) }

func portAt(ip string, port stream.PortKey) claim.Coordinate {
	return claim.AddressPort(netip.MustParseAddr(ip), string(port.Protocol), port.Port)
}

func TestAddressesFollowTheClaims(t *testing.T) {
	informers := &informertest.FakeInformers{Scheme: scheme(t)}
	a, err := newAddresses(t.Context(), cached{FakeInformers: informers}, (&LoadBalancers{}).IsOurs)
	if err != nil {
		t.Fatal(err)
	}
	events, err := informers.FakeInformerFor(t.Context(), &v1beta1.EdgeClaim{})
	if err != nil {
		t.Fatal(err)
	}
	set := addressSet(t, "192.0.2.1-192.0.2.3")
	free := func(want string, ports ...stream.PortKey) {
		t.Helper()
		ip, ok := a.Free(set, corev1.IPv4Protocol)
		if len(ports) > 0 {
			ip, ok = a.FreePorts(set, corev1.IPv4Protocol, ports)
		}
		if got := ip.String(); ok != (want != "") || ok && got != want {
			t.Errorf("free for %v: %s, want %q", ports, got, want)
		}
	}
	free("192.0.2.1")
	free("192.0.2.1", tcp80)
	shared := addressClaim(portAt("192.0.2.1", tcp80))
	events.Add(shared)
	events.Add(addressClaim(portAt("192.0.2.1", tcp443)))
	free("192.0.2.2")
	free("192.0.2.2", tcp80)
	free("192.0.2.2", stream.PortKey{Protocol: v1beta1.UDP, Port: 53}, tcp443)
	free("192.0.2.1", stream.PortKey{Protocol: v1beta1.UDP, Port: 80})
	events.Add(addressClaim(whole("192.0.2.2")))
	free("192.0.2.3")
	free("192.0.2.3", tcp80)
	events.Add(addressClaim(whole("192.0.2.3")))
	free("")
	free("", tcp80)
	if got := a.Assigned(set); got != 3 {
		t.Errorf("%d are assigned", got)
	}
	events.Delete(shared)
	free("192.0.2.1", tcp80)
	free("", tcp443)
	free("")
	a.set(toolscache.DeletedFinalStateUnknown{Obj: addressClaim(whole("192.0.2.3"))}, false)
	free("192.0.2.3")
	for _, other := range []claim.Coordinate{claim.NodePort("TCP", 80), claim.Stream("public", v1beta1.TCP, 80)} {
		events.Add(addressClaim(other))
	}
	a.set("something else", true)
	got := a.ClaimedIn(addresspool.Range{From: netip.MustParseAddr("192.0.2.1"), To: netip.MustParseAddr("192.0.2.3")})
	if want := []claim.Coordinate{portAt("192.0.2.1", tcp443), whole("192.0.2.2")}; !slices.Equal(got, want) {
		t.Errorf("claimed: %v, want %v", got, want)
	}
}

func TestAssumptions(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	a := emptyAddresses(clock)
	one, other := whole("192.0.2.1"), portAt("192.0.2.2", tcp80)
	assume := func(want bool, points ...claim.Coordinate) {
		t.Helper()
		if got := a.Assume(points...); got != want {
			t.Errorf("assuming %v: %v", points, got)
		}
	}
	assume(true, one, other)
	assume(false, one)
	assume(false, portAt("192.0.2.1", tcp443))
	assume(false, whole("192.0.2.2"))
	assume(false, portAt("192.0.2.2", tcp443), other)
	assume(true, portAt("192.0.2.2", tcp443))
	if set := addressSet(t, "192.0.2.1-192.0.2.2"); a.Assigned(set) != 0 {
		t.Error("what is assumed counts as assigned")
	}
	a.Forget(one, one, whole("192.0.2.9"))
	assume(true, one)

	t.Log("what is claimed does not lapse, and is free again when the claim goes")
	a.set(addressClaim(one), true)
	clock.SetTime(clock.Now().Add(claim.CacheLag))
	assume(false, one)
	assume(true, other)
	a.set(addressClaim(one), false)
	assume(true, one)

	t.Log("an assumption that was made anew lapses by its own time")
	a.Forget(one)
	clock.SetTime(clock.Now().Add(claim.CacheLag / 2))
	assume(true, one)
	clock.SetTime(clock.Now().Add(claim.CacheLag / 2))
	assume(false, one)
	assume(true, claim.NodePort("TCP", 80)) // not an address: not judged here
	clock.SetTime(clock.Now().Add(claim.CacheLag))
	assume(true, one, other)
	if len(a.lapses) != 2 || len(a.assumed) != 2 || len(a.assumedAt) != 2 {
		t.Errorf("%d, %d and %d are left", len(a.lapses), len(a.assumed), len(a.assumedAt))
	}
}

// TestAddressesKeepCount compares what is free with what follows from the points alone, after many changes.
func TestAddressesKeepCount(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	a := emptyAddresses(clocktesting.NewFakePassiveClock(time.Now()))
	set := addressSet(t, "192.0.2.0/28")
	ips := []string{"192.0.2.0", "192.0.2.1", "192.0.2.2", "192.0.2.3"}
	claimed, assumed := map[claim.Coordinate]bool{}, map[claim.Coordinate]bool{}
	for step := range 5000 {
		at := whole(ips[random.IntN(len(ips))])
		if kind := random.IntN(3); kind > 0 {
			at = portAt(at.Address().String(), []stream.PortKey{tcp80, tcp443}[kind-1])
		}
		switch random.IntN(4) {
		case 0:
			a.set(addressClaim(at), true)
			claimed[at] = true
			delete(assumed, at)
		case 1:
			a.set(addressClaim(at), false)
			delete(claimed, at)
			delete(assumed, at)
		case 2:
			if a.Assume(at) {
				assumed[at] = true
			}
		case 3:
			a.Forget(at)
			delete(assumed, at)
		}
		busy := func(points ...claim.Coordinate) bool {
			return slices.ContainsFunc(points, func(at claim.Coordinate) bool { return claimed[at] || assumed[at] })
		}
		wantWhole, wantPort := "192.0.2.4", "192.0.2.4"
		for _, ip := range slices.Backward(ips) {
			if !busy(whole(ip), portAt(ip, tcp80)) {
				wantPort = ip
			}
			if !busy(whole(ip), portAt(ip, tcp80), portAt(ip, tcp443)) {
				wantWhole = ip
			}
		}
		gotWhole, _ := a.Free(set, corev1.IPv4Protocol)
		gotPort, _ := a.FreePorts(set, corev1.IPv4Protocol, []stream.PortKey{tcp80})
		if gotWhole.String() != wantWhole || gotPort.String() != wantPort {
			t.Fatalf("step %d: free are %s and %s, want %s and %s", step, gotWhole, gotPort, wantWhole, wantPort)
		}
	}
}
