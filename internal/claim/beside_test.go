package claim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
