package claim

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

var (
	lender      = ServiceHolder("shop", "old")
	taker       = ServiceHolder("data", "new")
	rivalHolder = ServiceHolder("blog", "other")
)

// port is a port of the one address of these tests.
func port(n int32) Coordinate { return AddressPort(netip.MustParseAddr("192.0.2.7"), "TCP", n) }

// refusing is a store in which a claim can't be written.
type refusing struct {
	*Fake
	name string
}

var errRefused = errors.New("refused")

func (s *refusing) Update(ctx context.Context, c *v1beta1.EdgeClaim) error {
	if c.Name == s.name {
		return errRefused
	}
	return s.Fake.Update(ctx, c)
}

// servicesHand is a ledger with a cache of what was stored at first, in which the Service shop/old hands over all it has to data/new.
func servicesHand(store Store, cached ...*v1beta1.EdgeClaim) *Ledger {
	l := ledgerAt(store, start.Add(time.Hour))
	seen := map[string]*v1beta1.EdgeClaim{}
	for _, c := range cached {
		seen[c.Name] = c.DeepCopy()
	}
	l.Cached = func(name string) *v1beta1.EdgeClaim { return seen[name] }
	l.HandsOver = func(_ context.Context, found *v1beta1.EdgeClaim, to Claimant, _ bool) (bool, error) {
		return HolderOf(found) == lender && to.Holder == taker, nil
	}
	return l
}

// TestClaimAll has a Service ask for three ports, one of which nobody has, and the others of which are handed over to it, unless it says
// otherwise: it has all of them, or it is as if it had never asked.
func TestClaimAll(t *testing.T) {
	by := Claimant{Holder: taker, UID: "n", Generation: 7}
	whole := held(Address(netip.MustParseAddr("192.0.2.7")), rivalHolder, "o", 1, time.Time{})
	for name, tc := range map[string]struct {
		stored []*v1beta1.EdgeClaim
		// refuses is a point whose claim can't be written.
		refuses Coordinate
		held    bool
		writes  int // at most
	}{
		"all are handed over": {stored: []*v1beta1.EdgeClaim{held(port(80), lender, "g", 1, time.Time{}), held(port(443), lender, "g", 1, time.Time{})}, writes: 3},
		"another has one":     {stored: []*v1beta1.EdgeClaim{held(port(80), lender, "g", 1, time.Time{}), held(port(443), rivalHolder, "o", 1, time.Time{})}, held: true},
		"another has the whole": {
			stored: []*v1beta1.EdgeClaim{held(port(80), lender, "g", 1, time.Time{}), held(port(443), lender, "g", 1, time.Time{}), whole}, held: true,
		},
		"the last can't be written": {
			stored:  []*v1beta1.EdgeClaim{held(port(80), lender, "g", 1, time.Time{}), held(port(443), lender, "g", 1, time.Time{})},
			refuses: port(443), writes: 4, // two claims come, and go again
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewFake(tc.stored...)
			before := map[string]*v1beta1.EdgeClaim{}
			for n, c := range m.stored {
				before[n] = c.DeepCopy()
			}
			l := servicesHand(&refusing{m, tc.refuses.Name()}, tc.stored...)
			var told []string
			l.HandedOver = func(_ context.Context, from v1beta1.ClaimHolder, to *v1beta1.EdgeClaim) {
				told = append(told, from.Name+" to "+to.Spec.Holder.Name)
			}
			taken, err := l.ClaimAll(t.Context(), by, port(80), port(22), port(443))
			if IsHeld(err) != tc.held || !tc.refuses.IsZero() != errors.Is(err, errRefused) {
				t.Fatalf("got %v", err)
			}
			if err == nil {
				for _, at := range []Coordinate{port(22), port(80), port(443)} {
					if c := m.stored[at.Name()]; c == nil || HolderOf(c) != taker {
						t.Errorf("the claim on %s is %v", at, c)
					}
				}
				return
			}
			if err := l.Return(t.Context(), taken...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, m.stored, fromStore); diff != "" || m.writes > tc.writes || len(told)%2 != 0 {
				t.Errorf("%d writes, told %q: %s", m.writes, told, diff)
			}
		})
	}
}

// TestWhatIsFreeIsClaimedFirst has the cache show what another has first and last, and change while points are claimed: each is claimed
// once, and what is handed over last.
func TestWhatIsFreeIsClaimedFirst(t *testing.T) {
	by := Claimant{Holder: taker, UID: "n", Generation: 7}
	l := servicesHand(NewFake(held(port(80), lender, "g", 1, time.Time{})), held(port(80), lender, "g", 1, time.Time{}))
	seen, looks := l.Cached, 0
	l.Cached = func(name string) *v1beta1.EdgeClaim {
		looks++
		if looks > 2 { // both points were looked at
			return nil
		}
		return seen(name)
	}
	taken, err := l.ClaimEach(t.Context(), by, port(80), port(22))
	var order []string
	for _, c := range taken {
		order = append(order, c.Name)
	}
	if diff := cmp.Diff([]string{port(22).Name(), port(80).Name()}, order); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
}

// TestReturnLeavesWhatChanged has somebody else count on a claim that came to nothing, and the Service have another one all the time.
func TestReturnLeavesWhatChanged(t *testing.T) {
	by := Claimant{Holder: taker, UID: "n", Generation: 7}
	stored := []*v1beta1.EdgeClaim{held(port(80), lender, "g", 1, time.Time{}), held(port(25), taker, "n", 7, time.Time{})}
	m := NewFake(stored...)
	l := servicesHand(m, stored...)
	taken, err := l.ClaimAll(t.Context(), by, port(80), port(25), port(22))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Reserve(t.Context(), by, nil, port(80), port(22)); err != nil { // a change of it is admitted meanwhile
		t.Fatal(err)
	}
	if err := l.Return(t.Context(), taken...); err != nil {
		t.Fatal(err)
	}
	for _, at := range []Coordinate{port(22), port(25), port(80)} {
		if c := m.stored[at.Name()]; c == nil || HolderOf(c) != taker {
			t.Errorf("the claim on %s is %v", at, c)
		}
	}
}

// TestNoPortBesideWhatIsHandedOver has the holder of a whole address, who has promised it to an heir, ask for a port of it, as it comes to
// name the address in spec.externalIPs; and has the heir ask, beside such a port.
func TestNoPortBesideWhatIsHandedOver(t *testing.T) {
	address := Address(netip.MustParseAddr("192.0.2.7"))
	his := held(address, lender, "g", 1, time.Time{})
	promised := promisedTo(his, taker, "n", 7, start.Add(time.Hour))
	names := Claimant{Holder: lender, UID: "g", Generation: 2, ExternalIP: true}
	m := NewFake(promised)
	l := servicesHand(m, promised)
	if err := l.Check(t.Context(), names, nil, port(80)); !IsHeld(err) {
		t.Errorf("checked: %v", err)
	}
	if err := l.Reserve(t.Context(), names, nil, port(80)); !IsHeld(err) || len(m.stored) != 1 {
		t.Errorf("reserved: %v, of %d claims", err, len(m.stored))
	}

	m = NewFake(promised, New(port(80), names))
	l = servicesHand(m, promised)
	look := func(context.Context, *v1beta1.EdgeClaim) (HolderState, error) {
		return HolderState{true, "n", 7, true}, nil
	}
	keep, err := l.Inherit(t.Context(), m.stored[address.Name()].DeepCopy(), look, "")
	if err != nil || keep == 0 || HolderOf(m.stored[address.Name()]) != lender {
		t.Errorf("kept for %s, %v, held by %s", keep, err, HolderOf(m.stored[address.Name()]))
	}
	if _, err := l.ClaimAll(t.Context(), Claimant{Holder: taker, UID: "n", Generation: 7}, address); !IsHeld(err) || m.writes > 0 {
		t.Errorf("claimed: %v, %d writes", err, m.writes)
	}
}
