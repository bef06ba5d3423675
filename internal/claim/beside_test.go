package claim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestReserveBeside has somebody ask for a point that another one has: of the same namespace, which looks after it, or is relied on.
func TestReserveBeside(t *testing.T) {
	now := start.Add(time.Hour)
	free := tcp(81)
	for name, tc := range map[string]struct {
		stored  *v1beta1.EdgeClaim
		beside  Beside
		want    *v1beta1.EdgeClaim
		refused bool
	}{
		"another has it":                       {stored: held(tcp(80), bob, "b1", 3, start), refused: true, want: held(tcp(80), bob, "b1", 3, start)},
		"another looks after it":               {stored: held(tcp(80), bob, "b1", 3, start), beside: Kept, want: held(tcp(80), bob, "b1", 3, start)},
		"another is relied on":                 {stored: held(tcp(80), bob, "b1", 3, start), beside: Relied, want: held(tcp(80), bob, "", 0, now)},
		"another, which is stored, likewise":   {stored: held(tcp(80), bob, "b1", 3, time.Time{}), beside: Relied, want: held(tcp(80), bob, "", 0, now)},
		"another, which was promised it later": {stored: held(tcp(80), bob, "b1", 3, now), beside: Relied, want: held(tcp(80), bob, "", 0, now.Add(time.Microsecond))},
		"nobody has it":                        {beside: Relied, want: held(tcp(80), alice, "a1", 1, now)},
		"it has it itself":                     {stored: held(tcp(80), alice, "a1", 0, start), beside: Relied, want: held(tcp(80), alice, "a1", 1, now)},
	} {
		t.Run(name, func(t *testing.T) {
			var stored []*v1beta1.EdgeClaim
			if tc.stored != nil {
				stored = append(stored, tc.stored)
			}
			store := NewFake(stored...)
			ledger := ledgerAt(store, now)
			beside := func(*v1beta1.EdgeClaim) Beside { return tc.beside }
			err := ledger.CheckBeside(t.Context(), Claimant{Holder: alice, UID: "a1", Generation: 1}, beside, free, tcp(80))
			if IsHeld(err) != tc.refused || err != nil && !tc.refused {
				t.Fatalf("asked for only, it is %v", err)
			}
			withdraw, err := ledger.ReserveBeside(t.Context(), Claimant{Holder: alice, UID: "a1", Generation: 1}, beside, free, tcp(80))
			if IsHeld(err) != tc.refused || err != nil && !tc.refused {
				t.Fatalf("got %v", err)
			}
			got, err := store.Get(t.Context(), tcp(80).Name())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, fromStore); diff != "" {
				t.Errorf("the claim (-want +got):\n%s", diff)
			}
			if withdraw != nil {
				if err := withdraw(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := store.Get(t.Context(), free.Name()); !apierrors.IsNotFound(err) {
				t.Errorf("what was taken back is %v, %v", got, err)
			}
			if got, err := store.Get(t.Context(), tcp(80).Name()); (err == nil) != (tc.stored != nil) {
				t.Errorf("of what was there before is left %v, %v", got, err)
			}
		})
	}
}

// TestRefusedRequestsLeaveRoom has a namespace be refused again and again: what was made and taken back does not count, and what it relied
// on, so that it binds for longer, does.
func TestRefusedRequestsLeaveRoom(t *testing.T) {
	store := NewFake(held(tcp(80), bob, "b1", 3, start))
	ledger := ledgerAt(store, start)
	ledger.Promises = &Promises{Stored: func(context.Context, Claimant) bool { return false }, Clock: ledger.Clock, Grace: DefaultGrace, Most: 3}
	beside := func(*v1beta1.EdgeClaim) Beside { return Relied }
	ask := func(uid types.UID, points ...Coordinate) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it looks once
		withdraw, err := ledger.ReserveBeside(ctx, Claimant{Holder: alice, UID: uid, Generation: 1}, beside, points...)
		return errors.Join(err, withdraw(t.Context()))
	}
	for _, request := range []struct {
		uid    types.UID
		points []Coordinate
	}{{"a1", []Coordinate{tcp(80), tcp(81)}}, {"a2", []Coordinate{tcp(81), tcp(82)}}, {"a3", []Coordinate{tcp(81), tcp(80)}}} {
		if err := ask(request.uid, request.points...); err != nil {
			t.Errorf("%s: %v", request.uid, err)
		}
	}
	if err := ask("a4", tcp(81), tcp(82)); !apierrors.IsTooManyRequests(err) {
		t.Errorf("with two that it relies on, it is told %v", err)
	}
	if err := ask("a4", tcp(81)); err != nil {
		t.Errorf("with two that it relies on, it has no other one: %v", err)
	}
}
