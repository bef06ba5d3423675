package allocator

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// What the decisions are tried with, each combined with each other.
var (
	everyPool = []*v1beta1.AddressPool{
		pool("four", "192.0.2.1,192.0.2.2"), pool("whole", "198.51.100.1,2001:db8::1", onRequest),
		pool("shared", "203.0.113.1,2001:db8:1::1", sharesPorts, first), pool("nodes", ""), clusterIPPool("own", onRequest),
	}
	everyAsk = []serviceChange{
		func(*corev1.Service) {}, forPool("four"), forPool("shared"), forPool("nodes"), forPool("own"), forAddresses("192.0.2.1"),
		forAddresses("203.0.113.1"), forAddresses("10.96.0.9"), forAddresses("2001:db8::1"), forAddresses("192.0.2.1,2001:db8::1"), forAddresses("10.96.0.9,2001:db8::1"),
		forSharing("Ports"), forSharing("None"),
	}
	everyFamily = []serviceChange{func(*corev1.Service) {}, ipv6Only, eitherFamily, bothFamilies, unborn}
	everyPoint  = []claim.Coordinate{
		at("192.0.2.1"), at("2001:db8::1"), portAt("203.0.113.1", 80), at("203.0.113.1"), claim.NodePort("TCP", 80), at("10.96.0.9"),
	}
)

// TestAllocateKeepsItsWord tries every combination of pools, of what a Service asks for and holds, and of what others hold.
// Whatever is decided, the Service gets what it asks for and nothing that others have, or is told why not.
func TestAllocateKeepsItsWord(t *testing.T) {
	for present := range 1 << len(everyPool) {
		for own := range len(everyPoint) + 1 {
			for theirs := range len(everyPoint) + 1 {
				if own == theirs && own > 0 {
					continue
				}
				w := clusterWith(chosen(everyPool, present)...).taken("x", pointBefore(theirs)...)
				maps.Copy(w.claims, claims(web, pointBefore(own)...))
				everyRequest(func(svc *corev1.Service) {
					s := subjectOf(t, svc, pointBefore(own)...)
					d := Allocate(w, s, w.graceLeft)
					if broken := brokenWord(w, s, d.Allocations, d.Problems); broken != "" {
						t.Fatalf("with %s, holding %v while x holds %v, asking %v of %v: %s: %v %v", poolNames(w.Pools().Pools()), s.Held,
							pointBefore(theirs), svc.Annotations, s.Families, broken, allocationTexts(d.Allocations), verdicts(d.Problems))
					}
					mustStay(t, w, svc, d.Allocations)
				})
			}
		}
	}
}

// mustStay looks again at a Service that has been given what was decided: it keeps that, and nobody
// releases any of it.
func mustStay(t *testing.T, w *cluster, svc *corev1.Service, allocations []Allocation) {
	t.Helper()
	points := pointsOf(allocations)
	before := w.claims
	defer func() { w.claims = before }()
	w.claims = both(before, claims(web, points...))
	again := Allocate(w, subjectOf(t, svc, points...), w.graceLeft)
	now := pointsOf(again.Allocations)
	if len(points) > 0 && (len(again.Problems) > 0 || !slices.Equal(points, now)) {
		t.Fatalf("asking %v of %v, with %s, it was given %v, and then %v: %v", svc.Annotations, svc.Spec.IPFamilies,
			poolNames(w.Pools().Pools()), points, now, verdicts(again.Problems))
	}
	for _, at := range points {
		if !WantsPoint(w, subjectOf(t, svc, points...), at) {
			t.Fatalf("asking %v of %v, with %s, it was given %v, and does not want %s", svc.Annotations, svc.Spec.IPFamilies,
				poolNames(w.Pools().Pools()), points, at)
		}
	}
}

func pointsOf(allocations []Allocation) []claim.Coordinate {
	var points []claim.Coordinate
	for _, allocation := range allocations {
		points = append(points, allocation.Points...)
	}
	slices.SortFunc(points, claim.Compare)
	return points
}

// pointBefore is the point number n-1, none for 0.
func pointBefore(n int) []claim.Coordinate { return everyPoint[max(n-1, 0):n] }

// everyRequest goes through what a Service may ask for.
func everyRequest(try func(*corev1.Service)) {
	for _, ask := range everyAsk {
		for _, family := range everyFamily {
			svc := asking(ask, family)
			for _, f := range svc.Spec.IPFamilies {
				svc.Spec.ClusterIPs = append(svc.Spec.ClusterIPs, map[corev1.IPFamily]string{corev1.IPv4Protocol: "10.96.0.9", corev1.IPv6Protocol: "fd00::9"}[f])
			}
			try(svc)
		}
	}
}

// brokenWord says what is wrong with a decision.
func brokenWord(w *cluster, s *Subject, allocations []Allocation, problems refusal.Problems) string {
	if awaitsClusterIP := allocations != nil && len(s.Service.Spec.ClusterIPs) == 0; len(allocations) > 0 == (len(problems) > 0) && !awaitsClusterIP {
		return "neither or both of allocations and problems"
	}
	got := map[corev1.IPFamily]int{}
	for _, allocation := range allocations {
		family := addresspool.FamilyOf(allocation.Address)
		switch asked, is := s.Address(family); {
		case allocation.Address.IsValid() && is && asked != allocation.Address, !allocation.Address.IsValid() && len(s.Addresses) > 0:
			return "not the address that it asks for"
		case s.Pool != "" && s.Pool != allocation.Pool.Name:
			return "not the pool that it asks for"
		case s.Sharing != "" && s.Sharing != allocation.Pool.SharingOrDefault():
			return "not the sharing that it asks for"
		case len(allocation.Points) == 0:
			return "nothing of an address"
		case allocation.Address.IsValid() && len(s.Families) > 0 && !slices.Contains(s.Families, family):
			return "an address of a family that it does not have"
		}
		if allocation.Address.IsValid() {
			got[family]++
		} else {
			got = map[corev1.IPFamily]int{corev1.IPv4Protocol: 1, corev1.IPv6Protocol: 1}
		}
		for _, at := range allocation.Points {
			if c := w.claims[at]; c != nil && claim.HolderOf(c) != web || c == nil && w.isTaken(at) && !slices.Contains(s.Held, claim.Address(at.Address())) {
				return fmt.Sprintf("%s, which another has", at)
			}
		}
	}
	for family, n := range got {
		if n > 1 {
			return "two addresses of " + string(family)
		}
	}
	if s.EachFamily && len(allocations) > 0 && len(got) < len(s.Families) {
		return "one address only"
	}
	return ""
}

// chosen are the pools whose bits are set.
func chosen(pools []*v1beta1.AddressPool, bits int) []*v1beta1.AddressPool {
	var some []*v1beta1.AddressPool
	for i, p := range pools {
		if bits&(1<<i) != 0 {
			some = append(some, p)
		}
	}
	return some
}
