package claim

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestRefusedIsNotPromised has somebody ask for what a holder hands over to it, and for what another keeps: it is no heir then, unless
// somebody counts on that. So is one whose request is refused for something else, later.
func TestRefusedIsNotPromised(t *testing.T) {
	now := start.Add(time.Hour)
	his, others := held(tcp(80), giver, "g", 1, time.Time{}), held(tcp(81), third, "t", 1, time.Time{})
	earlier := promisedTo(his, heir, "h", 2, now.Add(-time.Second))
	by := Claimant{Holder: heir, UID: "h", Generation: 3}
	for name, tc := range map[string]struct {
		stored *v1beta1.EdgeClaim
		points []Coordinate
		// meanwhile is asked for before anything is taken back.
		meanwhile Claimant
		refused   bool
		want      *v1beta1.EdgeClaim
	}{
		"another has a point":                      {stored: his, points: []Coordinate{tcp(80), tcp(81)}, refused: true, want: his},
		"refused for something else":               {stored: his, points: []Coordinate{tcp(80)}, want: his},
		"it was promised to an earlier request":    {stored: earlier, points: []Coordinate{tcp(80)}, want: promisedTo(his, heir, "h", 3, now)},
		"another request of its name counts on it": {stored: his, points: []Coordinate{tcp(80)}, meanwhile: Claimant{Holder: heir, UID: "h", Generation: 4}, want: promisedTo(his, heir, "h", 4, now.Add(time.Microsecond))},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewFake(tc.stored, others)
			l := handingTo(m, now, heir)
			l.Promises = &Promises{Stored: func(context.Context, Claimant) bool { return false }, Clock: l.Clock, Grace: DefaultGrace, Most: 2}
			withdraw, err := l.ReserveAll(t.Context(), by, tc.points...)
			if IsHeld(err) != tc.refused || err != nil && !tc.refused {
				t.Fatalf("got %v", err)
			}
			if tc.meanwhile != (Claimant{}) {
				if err := l.Reserve(t.Context(), tc.meanwhile, nil, tc.points...); err != nil {
					t.Fatal(err)
				}
			}
			if withdraw != nil {
				if err := withdraw(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tc.want, m.stored[tcp(80).Name()], fromStore); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(others, m.stored[tcp(81).Name()], fromStore); diff != "" {
				t.Error(diff)
			}
		})
	}
}
