package claim

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

var (
	wholeAddress = Address(netip.MustParseAddr("192.0.2.1"))
	itsPort      = AddressPort(netip.MustParseAddr("192.0.2.1"), "TCP", 80)
	anotherPort  = AddressPort(netip.MustParseAddr("192.0.2.1"), "UDP", 80)
	nextPort     = AddressPort(netip.MustParseAddr("192.0.2.11"), "TCP", 80)
)

// TestAnAddressIsHadWholeOrByItsPorts covers what may be claimed beside what. What is refused leaves nothing behind.
func TestAnAddressIsHadWholeOrByItsPorts(t *testing.T) {
	for name, tc := range map[string]struct {
		stored  []*v1beta1.EdgeClaim
		at      Coordinate
		refused string
	}{
		"a port of an address that another has whole": {
			stored: []*v1beta1.EdgeClaim{held(wholeAddress, bob, "b1", 1, start)}, at: itsPort, refused: "192.0.2.1 of addr is held by StreamIngress shop/bob",
		},
		"a whole address of which another has a port": {
			stored: []*v1beta1.EdgeClaim{held(anotherPort, bob, "b1", 1, start)}, at: wholeAddress, refused: "UDP/80 of addr/192.0.2.1 is held by StreamIngress shop/bob",
		},
		"a whole address of which another has a port, too": {
			stored: []*v1beta1.EdgeClaim{held(anotherPort, alice, "a1", 1, start), held(itsPort, bob, "b1", 1, start)}, at: wholeAddress,
			refused: "TCP/80 of addr/192.0.2.1 is held by StreamIngress shop/bob",
		},
		"a port of an address that it has whole": {
			stored: []*v1beta1.EdgeClaim{held(wholeAddress, alice, "a1", 1, start)}, at: itsPort,
		},
		"a whole address of which it has a port": {
			stored: []*v1beta1.EdgeClaim{held(itsPort, alice, "a1", 1, start)}, at: wholeAddress,
		},
		"a port beside other ports": {
			stored: []*v1beta1.EdgeClaim{held(anotherPort, bob, "b1", 1, start)}, at: itsPort,
		},
		"an address beside another one": {
			stored: []*v1beta1.EdgeClaim{held(nextPort, bob, "b1", 1, start)}, at: wholeAddress,
		},
	} {
		t.Run(name, func(t *testing.T) {
			by := Claimant{Holder: alice, UID: "a1", Generation: 1}
			for verb, call := range map[string]func(*Ledger) error{
				"Reserve": func(l *Ledger) error { return l.Reserve(t.Context(), by, nil, tc.at) },
				"Claim":   func(l *Ledger) error { _, err := l.Claim(t.Context(), by, nil, tc.at); return err },
				"Check":   func(l *Ledger) error { return l.Check(t.Context(), by, nil, tc.at) },
			} {
				m := NewFake(tc.stored...)
				err := call(ledgerAt(m, start))
				var refused *HeldError
				if errors.As(err, &refused) != (tc.refused != "") || tc.refused != "" && refused.Error() != tc.refused || tc.refused == "" && err != nil {
					t.Errorf("%s: %v, want %q", verb, err, tc.refused)
				}
				if has := m.stored[tc.at.Name()] != nil; has != (tc.refused == "" && verb != "Check") {
					t.Errorf("%s leaves a claim: %t", verb, has)
				}
			}
		})
	}
}

// TestConfirm covers what a stored object may find of a claim that it counts on.
func TestConfirm(t *testing.T) {
	now := start.Add(time.Hour)
	for name, tc := range map[string]struct {
		stored []*v1beta1.EdgeClaim // the oldest first
		want   bool
		left   []*v1beta1.EdgeClaim
	}{
		"none": {},
		"another's": {
			stored: []*v1beta1.EdgeClaim{held(itsPort, bob, "b1", 1, start)}, left: []*v1beta1.EdgeClaim{held(itsPort, bob, "b1", 1, start)},
		},
		"its own": {
			stored: []*v1beta1.EdgeClaim{held(itsPort, alice, "a1", 1, now)}, want: true, left: []*v1beta1.EdgeClaim{held(itsPort, alice, "a1", 1, now)},
		},
		"its own, which an admission may take back, is renewed": {
			stored: []*v1beta1.EdgeClaim{held(itsPort, alice, "a1", 9, now)}, want: true,
			left: []*v1beta1.EdgeClaim{held(itsPort, alice, "a1", 9, now.Add(time.Microsecond))},
		},
		"its own, beside a younger one": {
			stored: []*v1beta1.EdgeClaim{held(itsPort, alice, "a1", 1, start), held(wholeAddress, bob, "b1", 1, start)},
			left:   []*v1beta1.EdgeClaim{held(wholeAddress, bob, "b1", 1, start), held(itsPort, alice, "a1", 1, start)},
		},
		"its own, beside an older one": {
			stored: []*v1beta1.EdgeClaim{held(wholeAddress, bob, "b1", 1, start), held(itsPort, alice, "a1", 1, start)},
			left:   []*v1beta1.EdgeClaim{held(wholeAddress, bob, "b1", 1, start)},
		},
		"its own, beside an older one, while an admission may count on it": {
			stored: []*v1beta1.EdgeClaim{held(wholeAddress, bob, "b1", 1, start), held(itsPort, alice, "a1", 1, now)},
			left:   []*v1beta1.EdgeClaim{held(wholeAddress, bob, "b1", 1, start), held(itsPort, alice, "a1", 1, now)},
		},
		"its own, which an admission may take back, beside an older one, is left alone": {
			stored: []*v1beta1.EdgeClaim{held(wholeAddress, bob, "b1", 1, start), held(itsPort, alice, "a1", 9, now)},
			left:   []*v1beta1.EdgeClaim{held(wholeAddress, bob, "b1", 1, start), held(itsPort, alice, "a1", 9, now)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Fake{}
			for _, c := range tc.stored {
				if err := m.Create(t.Context(), c.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			got, err := ledgerAt(m, now).Confirm(t.Context(), Claimant{Holder: alice, UID: "a1", Generation: 4}, itsPort)
			if got != tc.want || err != nil {
				t.Errorf("Confirm: %t %v, want %t", got, err, tc.want)
			}
			left := slices.Concat(list(t, m, wholeAddress.Scope()), list(t, m, itsPort.Scope()))
			if diff := cmp.Diff(tc.left, left, fromStore); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

func list(t *testing.T, m *Fake, scope string) (claims []*v1beta1.EdgeClaim) {
	t.Helper()
	found, err := m.List(t.Context(), scope, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		claims = append(claims, &found[i])
	}
	return claims
}

// TestALookThatFailsIsNoYes has the API server go away between the claim and the look for a rival.
func TestALookThatFailsIsNoYes(t *testing.T) {
	down := apierrors.NewServiceUnavailable("etcd is away")
	m := &Fake{Fail: failing("list", down)}
	if err := ledgerAt(m, start).Reserve(t.Context(), Claimant{Holder: alice, UID: "a1", Generation: 1}, nil, wholeAddress); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("Reserve: %v", err)
	}
	if len(m.stored) > 0 {
		t.Errorf("it leaves %v", m.stored)
	}
}
