package claim

import (
	"context"
	"errors"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// meeting is a store in which no claim is read before another one is, for as long as the request lives, and some can't be.
type meeting struct {
	Store
	came  chan struct{}
	fails map[string]error
}

func (s *meeting) Get(ctx context.Context, name string) (*v1beta1.EdgeClaim, error) {
	select {
	case s.came <- struct{}{}:
	case <-s.came:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := s.fails[name]; err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, name)
}

// TestCheckLooksSideBySide asks of several points at a time, and tells of the first that fails: that one is held before anything else.
func TestCheckLooksSideBySide(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for name, tc := range map[string]struct {
		fails map[string]error
		held  []Coordinate
		want  error
		at    Coordinate
	}{
		"nobody has any":             {},
		"two have some":              {held: []Coordinate{tcp(83), tcp(82)}, at: tcp(82)},
		"some can't be read":         {fails: map[string]error{tcp(83).Name(): second, tcp(81).Name(): first}, want: first},
		"one can't be, one is held":  {fails: map[string]error{tcp(80).Name(): first}, held: []Coordinate{tcp(82)}, at: tcp(82)},
		"the same one after the one": {fails: map[string]error{tcp(83).Name(): first}, held: []Coordinate{tcp(80)}, at: tcp(80)},
	} {
		t.Run(name, func(t *testing.T) {
			var stored []*v1beta1.EdgeClaim
			for _, at := range tc.held {
				stored = append(stored, held(at, bob, "b1", 1, start))
			}
			l := ledgerAt(&meeting{NewFake(stored...), make(chan struct{}), tc.fails}, start)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := l.Check(ctx, Claimant{Holder: alice, UID: "a1"}, nil, tcp(80), tcp(81), tcp(82), tcp(83))
			switch by, isHeld := errors.AsType[*HeldError](err); {
			case !tc.at.IsZero():
				if !isHeld || by.At != tc.at {
					t.Errorf("it is told %v", err)
				}
			case tc.want == nil && err != nil || !errors.Is(err, tc.want):
				t.Errorf("it is told %v", err)
			}
		})
	}
}
