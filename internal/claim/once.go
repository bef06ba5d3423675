package claim

import (
	"context"
	"sync"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// askingOnce is the ledger for the points of one request: it asks each holder once whether it hands over, however many of the points that
// has, and however many of them are looked at side by side.
func (l *Ledger) askingOnce() *Ledger {
	if l.HandsOver == nil {
		return l
	}
	type question struct {
		from, to, asks Holder
		// apart is the point where a holder may keep one and give another: of an address all that is there.
		apart    Coordinate
		promised bool
	}
	var mu sync.Mutex
	asked := map[question]func() (bool, error){}
	one := *l
	one.HandsOver = func(ctx context.Context, found *v1beta1.EdgeClaim, to Claimant, promised bool) (bool, error) {
		q := question{from: HolderOf(found), to: to.Holder, asks: to.For, promised: promised}
		switch at, err := Of(found); {
		case err != nil:
		case at.IsAddress():
			q.apart = Address(at.Address())
		case q.from.IsNamespace():
			q.apart = at
		}
		mu.Lock()
		answer, known := asked[q]
		if !known {
			answer = sync.OnceValues(func() (bool, error) { return l.HandsOver(ctx, found, to, promised) })
			asked[q] = answer
		}
		mu.Unlock()
		return answer()
	}
	return &one
}

// AskingOnce is the ledger for one look at an object that claims several points: it asks each holder once whether it hands over.
func (l *Ledger) AskingOnce() *Ledger { return l.askingOnce() }
