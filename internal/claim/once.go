package claim

import (
	"context"
	"sync"
)

// askingOnce is the ledger for the points of one request: it asks each holder once whether it hands over, however many of the points that
// has, and however many of them are looked at side by side.
func (l *Ledger) askingOnce() *Ledger {
	if l.HandsOver == nil {
		return l
	}
	type question struct {
		from, to Holder
		promised bool
	}
	var mu sync.Mutex
	asked := map[question]func() (bool, error){}
	one := *l
	one.HandsOver = func(ctx context.Context, from, to Holder, promised bool) (bool, error) {
		q := question{from, to, promised}
		mu.Lock()
		answer, known := asked[q]
		if !known {
			answer = sync.OnceValues(func() (bool, error) { return l.HandsOver(ctx, from, to, promised) })
			asked[q] = answer
		}
		mu.Unlock()
		return answer()
	}
	return &one
}
