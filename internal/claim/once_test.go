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

// TestHoldersAreAskedBesides has a point asked for that another holds as far as the cache knows: the claim is read, and who has it is asked,
// side by side, each once, whoever has it by then.
func TestHoldersAreAskedBesides(t *testing.T) {
	at := tcp(8000)
	for name, tc := range map[string]struct {
		stored  []*v1beta1.EdgeClaim
		asked   []Holder
		refused bool
	}{
		"it has it yet":  {[]*v1beta1.EdgeClaim{held(at, giver, "g", 1, start)}, []Holder{giver}, true},
		"another has it": {[]*v1beta1.EdgeClaim{held(at, third, "t", 1, start)}, []Holder{giver, third}, true},
		"nobody has it":  {nil, []Holder{giver}, false},
	} {
		t.Run(name, func(t *testing.T) {
			read, ask := make(chan struct{}), make(chan struct{})
			store := NewFake(tc.stored...)
			store.Before = func(verb string) {
				if verb == "get" {
					close(read)
					<-ask
				}
			}
			var asked []Holder
			l := ledgerAt(store, start)
			l.Cached = func(string) *v1beta1.EdgeClaim { return held(at, giver, "g", 1, start) }
			l.HandsOver = func(_ context.Context, found *v1beta1.EdgeClaim, _ Claimant, _ bool) (bool, error) {
				if asked = append(asked, HolderOf(found)); len(asked) == 1 {
					close(ask)
					<-read
				}
				return false, nil
			}
			err := l.Reserve(t.Context(), Claimant{Holder: heir, UID: "h", Generation: 1}, nil, at)
			if IsHeld(err) != tc.refused || !tc.refused && err != nil || !slices.Equal(asked, tc.asked) {
				t.Errorf("%v, and asked were %v", err, asked)
			}
		})
	}
}

// TestWhatIsFoundOutOnce has who is asked whether something is handed over find out what is the same for all points of a request.
func TestWhatIsFoundOutOnce(t *testing.T) {
	points := []Coordinate{Hostname("a.example"), Hostname("b.example"), Hostname("c.example")}
	var stored []*v1beta1.EdgeClaim
	for _, at := range points {
		stored = append(stored, held(at, NamespaceHolder("shop"), "g", 1, start))
	}
	l := ledgerAt(NewFake(stored...), start.Add(DefaultGrace))
	var read, asked atomic.Int64
	l.HandsOver = func(ctx context.Context, found *v1beta1.EdgeClaim, _ Claimant, _ bool) (bool, error) {
		asked.Add(1)
		at, err := Of(found)
		if err != nil {
			return false, err
		}
		if with := PointsWith(ctx, at); !slices.Equal(with, points) {
			t.Errorf("%s is asked for with %v", at, with)
		}
		return Once(ctx, "who has them", func() (bool, error) {
			read.Add(1)
			return true, nil
		})
	}
	by := Claimant{Holder: NamespaceHolder("data"), UID: "h", Generation: 1}
	for n := range int64(2) {
		if err := l.Check(t.Context(), by, nil, points...); err != nil || asked.Load() != 3*(n+1) || read.Load() != n+1 {
			t.Errorf("%v: of %d points it was found out %d times", err, asked.Load(), read.Load())
		}
	}
	// While something that uses them may have been admitted a moment ago, each is asked for by itself.
	read.Store(0)
	l = ledgerAt(NewFake(stored...), start.Add(DefaultGrace/2))
	l.Seen = func(context.Context, Claimant) bool { return true }
	l.HandsOver = func(ctx context.Context, found *v1beta1.EdgeClaim, _ Claimant, _ bool) (bool, error) {
		return Once(ctx, "who has them", func() (bool, error) { return read.Add(1) > 0, nil })
	}
	if err := l.Check(t.Context(), by, nil, points...); err != nil || read.Load() != 3 {
		t.Errorf("%v: within the grace it was found out %d times", err, read.Load())
	}
	if with := PointsWith(t.Context(), points[0]); !slices.Equal(with, points[:1]) {
		t.Errorf("outside of a request it is asked for with %v", with)
	}
}
