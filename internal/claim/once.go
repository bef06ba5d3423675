package claim

import (
	"context"
	"slices"
	"sync"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// request is what is found out once for all the points of one request: of many points the holder may be the same.
type request struct {
	points []Coordinate

	mu    sync.Mutex
	found map[any]any
}

type requestKey struct{}

// PointsWith are all the points for which the request asks that asks who hands over a point; that point alone where it says no others.
func PointsWith(ctx context.Context, at Coordinate) []Coordinate {
	if r, _ := ctx.Value(requestKey{}).(*request); r != nil && slices.Contains(r.points, at) {
		return r.points
	}
	return []Coordinate{at}
}

// Once returns what read finds out, for the first point of a request that asks for it by this key, and for all others the same. Outside of
// a request it is read each time.
func Once[T any](ctx context.Context, key any, read func() (T, error)) (T, error) {
	r, _ := ctx.Value(requestKey{}).(*request)
	if r == nil {
		return read()
	}
	r.mu.Lock()
	found, known := r.found[key].(func() (T, error))
	if !known {
		found = sync.OnceValues(read)
		r.found[key] = found
	}
	r.mu.Unlock()
	return found()
}

// AskingOnce is the ledger for the points of one request, or of one look at an object that claims several: it asks each holder once whether
// it hands over, however many of the points that has, and however many of them are looked at side by side.
func (l *Ledger) AskingOnce(points ...Coordinate) *Ledger {
	if l.HandsOver == nil {
		return l
	}
	type question struct {
		from, to, asks Holder
		// apart is the point where a holder may keep one and give another: of an address all that is there.
		apart    Coordinate
		promised bool
	}
	r := &request{points: points, found: map[any]any{}}
	one := *l
	one.asksOnce = true
	one.HandsOver = func(ctx context.Context, found *v1beta1.EdgeClaim, to Claimant, promised bool) (bool, error) {
		// Another object of the namespace may have been admitted since its objects were looked through; one that is admitted later changes
		// the claim, which is looked at again then.
		if HolderOf(found).IsNamespace() && l.GraceLeft(found) > 0 {
			return l.HandsOver(ctx, found, to, promised)
		}
		q := question{from: HolderOf(found), to: to.Holder, asks: to.For, promised: promised}
		switch at, err := Of(found); {
		case err != nil:
		case at.IsAddress():
			q.apart = Address(at.Address())
		case q.from.IsNamespace():
			q.apart = at
		}
		ctx = context.WithValue(ctx, requestKey{}, r)
		return Once(ctx, q, func() (bool, error) { return l.HandsOver(ctx, found, to, promised) })
	}
	return &one
}
