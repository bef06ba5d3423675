package addresspool

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// small are addresses that are close together, some of them at the ends of their family, and some buggy.
func small(n uint) netip.Addr {
	bases := []string{"192.0.2.246", "255.255.255.240", "0.0.0.0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0", "2001:db8::fffa"}
	base := ip(bases[n/16%uint(len(bases))])
	for range n % 16 {
		if base.Next().IsValid() {
			base = base.Next()
		}
	}
	return base
}

func TestTakenIsASetOfAddresses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	taken, model := &Taken{}, map[netip.Addr]bool{}
	for step := range 20000 {
		at := small(random.UintN(96))
		// Mostly full and mostly empty by turns.
		if random.UintN(4) == 0 == (step/1000%2 == 0) {
			if taken.Remove(at) != model[at] {
				t.Fatalf("step %d: removing %s: had it: %v", step, at, model[at])
			}
			delete(model, at)
		} else {
			if taken.Add(at) == model[at] {
				t.Fatalf("step %d: adding %s: had it: %v", step, at, model[at])
			}
			model[at] = true
		}
		if at = small(random.UintN(96)); taken.Has(at) != model[at] {
			t.Fatalf("step %d: has %s: %v", step, at, taken.Has(at))
		}
		if step%50 == 0 {
			compare(t, taken, model, small(random.UintN(96)), small(random.UintN(96)))
		}
	}
	if taken.Add(netip.Addr{}) || taken.Remove(netip.Addr{}) || taken.Has(netip.Addr{}) {
		t.Error("no address is an address")
	}
}

// compare compares all that can be asked of a Taken with a model.
func compare(t *testing.T, taken *Taken, model map[netip.Addr]bool, from, to netip.Addr) {
	t.Helper()
	var want []netip.Addr
	var bad int64
	for at := range model {
		if (Range{From: from, To: to}).Contains(at) {
			want = append(want, at)
			if buggy(at) {
				bad++
			}
		}
	}
	slices.SortFunc(want, netip.Addr.Compare)
	if got := slices.Collect(taken.In(Range{From: from, To: to})); !slices.Equal(got, want) {
		t.Fatalf("%s-%s: got %v, want %v", from, to, got, want)
	}
	all, gotBad := taken.count(Range{From: from, To: to})
	if all != int64(len(want)) || gotBad != bad || taken.Len() != int64(len(model)) {
		t.Fatalf("%s-%s: counted %d (%d buggy) of %d, want %d (%d) of %d", from, to, all, gotBad, taken.Len(), len(want), bad, len(model))
	}
	// Ranges grow together where they meet, whatever the order in which they came.
	runs := 0
	for at := range model {
		if !model[at.Prev()] {
			runs++
		}
	}
	if got := len(taken.ranges); got != runs {
		t.Fatalf("%d ranges, want %d", got, runs)
	}
}

// TestTakenHasManyRanges takes addresses of which no two touch, from the first to the last, and from the last to the first.
func TestTakenHasManyRanges(t *testing.T) {
	const n = 1 << 14
	up := make([]netip.Addr, 0, n)
	for at := ip("10.0.0.0"); len(up) < n; at = at.Next().Next() {
		up = append(up, at)
	}
	down := slices.Clone(up)
	slices.Reverse(down)
	for name, order := range map[string][]netip.Addr{"upward": up, "downward": down} {
		t.Run(name, func(t *testing.T) {
			taken := &Taken{}
			for _, at := range order {
				if !taken.Add(at) {
					t.Fatalf("%s is taken already", at)
				}
			}
			if len(taken.ranges) != n || taken.Len() != n || !slices.IsSortedFunc(taken.ranges, func(a, b Range) int { return a.From.Compare(b.From) }) {
				t.Errorf("%d addresses in %d ranges, sorted or not; want %d", taken.Len(), len(taken.ranges), n)
			}
			for _, at := range up {
				if !taken.Has(at) || taken.Has(at.Next()) {
					t.Fatalf("has %s: %v, has the one behind it: %v", at, taken.Has(at), taken.Has(at.Next()))
				}
			}
			if got := slices.Collect(taken.In(Range{From: up[0], To: up[n-1]})); !slices.Equal(got, up) {
				t.Errorf("it lists %d addresses, want %d", len(got), n)
			}
		})
	}
}

// TestFirstFree compares what is found with a search one by one, in random pools with random addresses taken.
func TestFirstFree(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 3000 {
		s := randomSet(t, random)
		taken := []*Taken{{}, {}}
		for range random.UintN(120) {
			taken[random.UintN(2)].Add(small(random.UintN(96)))
		}
		var ipv4, ipv6, assigned int64
		want := map[corev1.IPFamily]netip.Addr{}
		all := make([]netip.Addr, 0, 96)
		for n := range uint(96) {
			all = append(all, small(n))
		}
		slices.SortFunc(all, netip.Addr.Compare)
		for _, at := range slices.Compact(all) {
			if !s.Contains(at) {
				continue
			}
			if at.Is4() {
				ipv4++
			} else {
				ipv6++
			}
			if taken[0].Has(at) {
				assigned++
			}
			if family := FamilyOf(at); !taken[0].Has(at) && !taken[1].Has(at) && !want[family].IsValid() {
				want[family] = at
			}
		}
		for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
			if got, ok := s.FirstFree(family, taken...); got != want[family] || ok != want[family].IsValid() {
				t.Fatalf("round %d: %v (avoid %v): got %s, want %s", round, s.ranges, s.avoid, got, want[family])
			}
		}
		got4, got6, total := s.Size()
		if got4 != ipv4 || got6 != ipv6 || total != ipv4+ipv6 || s.Assigned(taken[0]) != assigned {
			t.Fatalf("round %d: %v (avoid %v): %d+%d=%d addresses, %d assigned, want %d+%d, %d",
				round, s.ranges, s.avoid, got4, got6, total, s.Assigned(taken[0]), ipv4, ipv6, assigned)
		}
	}
}

// randomSet is a set of disjoint ranges over the small addresses. Some have what no pool would have: the ends of the
// families.
func randomSet(t *testing.T, random *rand.Rand) Set {
	t.Helper()
	s := Set{avoid: random.UintN(2) == 0}
	for group := range uint(6) {
		for at := random.UintN(8); at < 16; at += 2 + random.UintN(8) {
			r := Range{From: small(16*group + at), To: small(16*group + min(at+random.UintN(6), 15))}
			at += 6
			if s.sizeOf(r) > 0 {
				s.ranges = append(s.ranges, entry{Range: r, usable: r})
			}
		}
	}
	slices.SortFunc(s.ranges, func(a, b entry) int { return a.From.Compare(b.From) })
	return s
}

// BenchmarkFirstFree takes one address and gives back another in a pool of which much is in use, in one piece, in single
// addresses, or at random. It should take about the same time in every pool.
func BenchmarkFirstFree(b *testing.B) {
	for _, pool := range []string{"10.0.0.0/8", "10.1.2.0/24", "2001:db8::/64", "256 ranges"} {
		for _, inUse := range []int{200, 10000} {
			b.Run(fmt.Sprintf("%s/%d", pool, inUse), func(b *testing.B) {
				s, taken := benchSet(b, pool), &Taken{}
				family := FamilyOf(s.ranges[0].From)
				var all []netip.Addr
				for range inUse {
					at, ok := s.FirstFree(family, taken)
					if !ok {
						break
					}
					taken.Add(at)
					all = append(all, at)
				}
				random := rand.New(rand.NewPCG(5, 6))
				b.ReportAllocs()
				for b.Loop() {
					taken.Remove(all[random.IntN(len(all))])
					at, ok := s.FirstFree(family, taken)
					if !ok || !taken.Add(at) {
						b.Fatal("no free address")
					}
				}
			})
		}
	}
}

func benchSet(b *testing.B, pool string) Set {
	b.Helper()
	if pool != "256 ranges" {
		return set(b, false, pool)
	}
	ranges := make([]string, 0, 256) // as many as a pool may list
	for i := range 256 {
		ranges = append(ranges, fmt.Sprintf("10.1.%d.0/25", i))
	}
	return set(b, false, ranges...)
}
