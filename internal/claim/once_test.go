package claim

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestHoldersAreAskedOnce has one request be for many points of a few holders, who hand them over.
func TestHoldersAreAskedOnce(t *testing.T) {
	var stored []*v1beta1.EdgeClaim
	var points []Coordinate
	for i := range 60 {
		points = append(points, tcp(int32(8000+i)))
		stored = append(stored, held(points[i], []Holder{giver, third}[i%2], "g", 1, start))
	}
	by := Claimant{Holder: heir, UID: "h", Generation: 1}
	for verb, call := range map[string]func(*Ledger) error{
		"Check":       func(l *Ledger) error { return l.Check(t.Context(), by, nil, points...) },
		"CheckBeside": func(l *Ledger) error { return l.CheckBeside(t.Context(), by, apart, points...) },
		"Reserve":     func(l *Ledger) error { return l.Reserve(t.Context(), by, nil, points...) },
		"ReserveBeside": func(l *Ledger) error {
			_, err := l.ReserveBeside(t.Context(), by, apart, points...)
			return err
		},
		"ClaimAll": func(l *Ledger) error {
			l.Cached = func(name string) *v1beta1.EdgeClaim {
				return stored[slices.IndexFunc(stored, func(c *v1beta1.EdgeClaim) bool { return c.Name == name })]
			}
			_, err := l.ClaimAll(t.Context(), by, points...)
			return err
		},
		"ClaimEach": func(l *Ledger) error {
			_, err := l.ClaimEach(t.Context(), by, points...)
			return err
		},
	} {
		t.Run(verb, func(t *testing.T) {
			var asked atomic.Int64
			l := ledgerAt(NewFake(stored...), start)
			l.HandsOver = func(context.Context, *v1beta1.EdgeClaim, Claimant, bool) (bool, error) {
				asked.Add(1)
				return true, nil
			}
			if err := call(l); err != nil || asked.Load() != 2 {
				t.Errorf("%v, and it was asked %d times", err, asked.Load())
			}
		})
	}
}

func apart(*v1beta1.EdgeClaim) Beside { return Apart }
