package claim

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

var shopWeb, shopRival = ServiceHolder("shop", "web"), ServiceHolder("shop", "rival")

// TestExternalIPIsNotedUntilItIsGiven covers what a claim says of why its holder has the point. That it was given as a load balancer is
// kept; that it is for an external IP alone is not, once it was given, too.
func TestExternalIPIsNotedUntilItIsGiven(t *testing.T) {
	now := start.Add(time.Hour)
	claimOf := func(by Holder, external bool, promised time.Time) *v1beta1.EdgeClaim {
		c := New(itsPort, Claimant{Holder: by, UID: "w", Generation: 4, ExternalIP: external})
		if !promised.IsZero() {
			c.Spec.Renewed = &metav1.MicroTime{Time: promised}
		}
		return c
	}
	gives := func(*v1beta1.EdgeClaim) bool { return true }
	for name, tc := range map[string]struct {
		stored   *v1beta1.EdgeClaim
		mayTake  MayTake
		external bool
		want     bool
		// unwritten says that a claim for what is stored has nothing to write.
		unwritten bool
	}{
		"a free point that it names":                     {external: true, want: true},
		"a free point that it is given":                  {},
		"one that it has named is given to it":           {stored: claimOf(shopWeb, true, time.Time{})},
		"one that it has named is given to it, promised": {stored: claimOf(shopWeb, true, now.Add(-time.Second))},
		"one that it has named is named again":           {stored: claimOf(shopWeb, true, time.Time{}), external: true, want: true, unwritten: true},
		"one that it was given is named":                 {stored: claimOf(shopWeb, false, time.Time{}), external: true, unwritten: true},
		"one that it was given is named, promised":       {stored: claimOf(shopWeb, false, now.Add(-time.Second)), external: true, unwritten: true},
		"one that it was given is given again":           {stored: claimOf(shopWeb, false, time.Time{}), unwritten: true},
		"what another named goes to who is given it":     {stored: claimOf(shopRival, true, time.Time{}), mayTake: gives},
		"what another was given goes to who names it":    {stored: claimOf(shopRival, false, time.Time{}), mayTake: gives, external: true, want: true},
		"what another named goes to who names it":        {stored: claimOf(shopRival, true, time.Time{}), mayTake: gives, external: true, want: true},
	} {
		by := Claimant{Holder: shopWeb, UID: "w", Generation: 4, ExternalIP: tc.external}
		for verb, call := range map[string]func(*Ledger) error{
			"Reserve": func(l *Ledger) error { return l.Reserve(t.Context(), by, tc.mayTake, itsPort) },
			"Claim":   func(l *Ledger) error { _, err := l.Claim(t.Context(), by, tc.mayTake, itsPort); return err },
		} {
			t.Run(name+", by "+verb, func(t *testing.T) {
				m := &Fake{}
				if tc.stored != nil {
					m = NewFake(tc.stored.DeepCopy())
				}
				l := ledgerAt(m, now)
				l.Cached = func(name string) *v1beta1.EdgeClaim { return m.stored[name] }
				if err := call(l); err != nil {
					t.Fatal(err)
				}
				got := m.stored[itsPort.Name()]
				if got.Spec.ExternalIP != tc.want || HolderOf(got) != shopWeb {
					t.Errorf("it is %s's, for an external IP alone: %v, want %v", got.Spec.HeldBy, got.Spec.ExternalIP, tc.want)
				}
				if wrote := m.writes > 0; wrote == (tc.unwritten && verb == "Claim") {
					t.Errorf("%d writes", m.writes)
				}
			})
		}
	}
}

// TestExternalIPStaysNotedThroughAConflict has the holder be given a point between the look at its claim and the write of one who names it,
// and the other way round.
func TestExternalIPStaysNotedThroughAConflict(t *testing.T) {
	for name, first := range map[string]bool{"named, and given meanwhile": true, "given, and named meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			m := &Fake{}
			meanwhile := false
			m.Before = func(verb string) {
				if verb == "create" && !meanwhile {
					meanwhile = true
					by := Claimant{Holder: shopWeb, UID: "w", ExternalIP: !first}
					if err := ledgerAt(m, start).Reserve(t.Context(), by, nil, itsPort); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := ledgerAt(m, start).Reserve(t.Context(), Claimant{Holder: shopWeb, UID: "w", ExternalIP: first}, nil, itsPort); err != nil {
				t.Fatal(err)
			}
			if m.stored[itsPort.Name()].Spec.ExternalIP {
				t.Error("what it was given is said to be for an external IP alone")
			}
		})
	}
}

// TestAllExternalIPsOrNone: who names several addresses, of which one is held, has nothing of the others then, but for what it had.
func TestAllExternalIPsOrNone(t *testing.T) {
	for name, tc := range map[string]struct {
		held *v1beta1.EdgeClaim
		of   Coordinate
	}{
		"a port":    {held(nextPort, shopRival, "r", 1, start), nextPort},
		"all of it": {held(Address(nextPort.Address()), shopRival, "r", 1, start), nextPort},
	} {
		t.Run(name, func(t *testing.T) {
			own := New(anotherPort, Claimant{Holder: shopWeb, UID: "w"})
			m := NewFake(tc.held, own)
			by := Claimant{Holder: shopWeb, UID: "w", ExternalIP: true}
			withdraw, err := ledgerAt(m, start).ReserveAll(t.Context(), by, anotherPort, itsPort, nextPort)
			if !IsHeld(err) || withdraw != nil {
				t.Fatalf("it is told %v", err)
			}
			var left []string
			for name := range m.stored {
				left = append(left, name)
			}
			if m.stored[itsPort.Name()] != nil || m.stored[anotherPort.Name()] == nil || len(left) != 2 {
				t.Errorf("left are %v", left)
			}
			if m.stored[anotherPort.Name()].Spec.ExternalIP {
				t.Error("what it had is said to be for an external IP alone")
			}
		})
	}
	m := &Fake{}
	by := Claimant{Holder: shopWeb, UID: "w", ExternalIP: true}
	withdraw, err := ledgerAt(m, start).ReserveAll(t.Context(), by, itsPort, nextPort)
	if err != nil {
		t.Fatal(err)
	}
	given := Claimant{Holder: shopWeb, UID: "w"}
	if err := ledgerAt(m, start).Reserve(t.Context(), given, nil, itsPort); err != nil {
		t.Fatal(err)
	}
	if err := withdraw(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{itsPort.Name(): false} // it was given it meanwhile
	got := map[string]bool{}
	for name, c := range m.stored {
		got[name] = c.Spec.ExternalIP
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("for an external IP alone (-want +got):\n%s", diff)
	}
}
