package rules

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
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

// TestAllotKeepsItsWord tries every combination of pools, of what a Service asks for and holds, and of what others hold.
// Whatever is decided, the Service gets what it asks for and nothing that others have, or is told why not.
func TestAllotKeepsItsWord(t *testing.T) {
	for present := range 1 << len(everyPool) {
		for own := range len(everyPoint) + 1 {
			for theirs := range len(everyPoint) + 1 {
				if own == theirs && own > 0 {
					continue
				}
				w := edgeWith(chosen(everyPool, present)...).taken("x", pointBefore(theirs)...)
				maps.Copy(w.claims, claims(web, pointBefore(own)...))
				everyRequest(func(svc *corev1.Service) {
					b := balanceOf(t, svc, pointBefore(own)...)
					lots, problems, err := Allot(t.Context(), w, b, w.graceLeft)
					if broken := brokenWord(w, b, lots, problems); err != nil || broken != "" {
						t.Fatalf("with %s, holding %v while x holds %v, asking %v of %v: %s: %v %v %v", poolNames(w.Pools().Pools()), b.Held,
							pointBefore(theirs), svc.Annotations, b.Families, broken, lotTexts(lots), verdicts(problems), err)
					}
					mustStay(t, w, svc, lots)
				})
			}
		}
	}
}

// mustStay looks again at a Service that has been given what was decided: it keeps that, and nobody
// releases any of it.
func mustStay(t *testing.T, w *world, svc *corev1.Service, lots []loadbalancer.Lot) {
	t.Helper()
	points := pointsOf(lots)
	before := w.claims
	defer func() { w.claims = before }()
	w.claims = both(before, claims(web, points...))
	again, problems, err := Allot(t.Context(), w, balanceOf(t, svc, points...), w.graceLeft)
	now := pointsOf(again)
	if len(points) > 0 && (err != nil || len(problems) > 0 || !slices.Equal(points, now)) {
		t.Fatalf("asking %v of %v, with %s, it was given %v, and then %v: %v %v", svc.Annotations, svc.Spec.IPFamilies,
			poolNames(w.Pools().Pools()), points, now, verdicts(problems), err)
	}
	for _, at := range points {
		if wants, err := WantsPoint(t.Context(), w, balanceOf(t, svc, points...), at); err != nil || !wants {
			t.Fatalf("asking %v of %v, with %s, it was given %v, and does not want %s: %v", svc.Annotations, svc.Spec.IPFamilies,
				poolNames(w.Pools().Pools()), points, at, err)
		}
	}
}

func pointsOf(lots []loadbalancer.Lot) []claim.Coordinate {
	var points []claim.Coordinate
	for _, lot := range lots {
		points = append(points, lot.Points...)
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
func brokenWord(w *world, b *Balance, lots []loadbalancer.Lot, problems refusal.Problems) string {
	if awaitsClusterIP := lots != nil && len(b.Service.Spec.ClusterIPs) == 0; len(lots) > 0 == (len(problems) > 0) && !awaitsClusterIP {
		return "neither or both of lots and problems"
	}
	got := map[corev1.IPFamily]int{}
	for _, lot := range lots {
		family := addresspool.FamilyOf(lot.Address)
		switch asked, is := b.Address(family); {
		case lot.Address.IsValid() && is && asked != lot.Address, !lot.Address.IsValid() && len(b.Addresses) > 0:
			return "not the address that it asks for"
		case b.Pool != "" && b.Pool != lot.Pool.Name:
			return "not the pool that it asks for"
		case b.Sharing != "" && b.Sharing != lot.Pool.SharingOrDefault():
			return "not the sharing that it asks for"
		case len(lot.Points) == 0:
			return "nothing of an address"
		case lot.Address.IsValid() && len(b.Families) > 0 && !slices.Contains(b.Families, family):
			return "an address of a family that it does not have"
		}
		if lot.Address.IsValid() {
			got[family]++
		} else {
			got = map[corev1.IPFamily]int{corev1.IPv4Protocol: 1, corev1.IPv6Protocol: 1}
		}
		for _, at := range lot.Points {
			if c := w.claims[at]; c != nil && claim.HolderOf(c) != web || c == nil && w.isTaken(at) && !slices.Contains(b.Held, claim.Address(at.Address())) {
				return fmt.Sprintf("%s, which another has", at)
			}
		}
	}
	for family, n := range got {
		if n > 1 {
			return "two addresses of " + string(family)
		}
	}
	if b.EachFamily && len(lots) > 0 && len(got) < len(b.Families) {
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
