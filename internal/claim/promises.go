package claim

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

// MostUnsettled is how many points of a namespace may be promised by one replica at a time to objects that it has not seen
// stored. A request that is admitted here may yet be refused, by a quota for instance, and then holds what it was promised for
// the whole grace: without a bound, a tenant takes every port of a range by requests that are never stored. Objects that
// are stored are seen within milliseconds, and an API server has no more than 200 changes in flight by itself.
const MostUnsettled = 100

const (
	// settlesWithin is how long a request waits for others of its namespace to settle, before it is told to try again.
	settlesWithin = time.Second
	looksEvery    = 10 * time.Millisecond
)

// Promises counts what a replica has promised of late, by namespace. It only ever makes requests wait: what it forgets when
// the process ends decides nothing. The zero value is not usable, nil counts nothing.
type Promises struct {
	// Stored says whether an object is known to have been stored with the claimant's UID, at its generation or later.
	Stored func(ctx context.Context, by Claimant) bool
	Clock  clock.PassiveClock
	// Grace is how long a promise is counted at most.
	Grace time.Duration
	// Most is how many points a namespace may have open. A single request may have more, when nothing else is open.
	Most int

	mu   sync.Mutex
	open map[string]*unsettled
}

// unsettled is what objects of a namespace were promised that are not known to be stored with it.
type unsettled struct {
	mu sync.Mutex
	// looked is when the objects were looked for last.
	looked  time.Time
	objects map[types.UID]*promised
}

// promised is what an object was promised, by its latest change.
type promised struct {
	by     Claimant
	points sets.Set[Coordinate]
	since  time.Time
}

// impatient marks the context of a request that does not wait for others to settle.
type impatient struct{}

// Impatient makes the context of a request that is told at once to try again, where others wait for what their namespace has open:
// it has room that others wait for.
func Impatient(ctx context.Context) context.Context { return context.WithValue(ctx, impatient{}, true) }

// Open counts points as promised to a claimant, once there is room for them beside what its namespace has open. It returns
// what takes them off again, for a request that is refused, but for those that are bound yet. An error is one of the API, to try again.
func (p *Promises) Open(ctx context.Context, by Claimant, points ...Coordinate) (drop func(bound ...Coordinate), err error) {
	if p == nil || by.Tenant() == "" || len(points) == 0 {
		return func(...Coordinate) {}, nil
	}
	u := p.of(by.Tenant())
	added, open, fits := u.add(ctx, p, by, points)
	if !fits && ctx.Value(impatient{}) == nil {
		_ = wait.PollUntilContextTimeout(ctx, looksEvery, settlesWithin, false, func(ctx context.Context) (bool, error) {
			added, open, fits = u.add(ctx, p, by, points)
			return fits, nil
		})
	}
	if !fits {
		nothing := func(...Coordinate) {}
		return nothing, apierrors.NewTooManyRequests(fmt.Sprintf("objects of namespace %q that are not stored yet were promised "+
			"%d ports, addresses or hosts, of %d that they may have at a time; try again", by.Tenant(), open, p.Most), 1)
	}
	return func(bound ...Coordinate) { u.drop(by.UID, sets.New(added...).Delete(bound...).UnsortedList()) }, nil
}

func (p *Promises) of(namespace string) *unsettled {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[string]*unsettled{}
	}
	u := p.open[namespace]
	if u == nil {
		u = &unsettled{objects: map[types.UID]*promised{}}
		p.open[namespace] = u
	}
	return u
}

// add counts points, if there is room for them. It returns those that were not counted before, or how many points leave no
// room.
func (u *unsettled) add(ctx context.Context, p *Promises, by Claimant, points []Coordinate) (added []Coordinate, open int, fits bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count()+len(points) > p.Most {
		u.settle(ctx, p)
	}
	own := u.objects[by.UID]
	if own == nil {
		own = &promised{by: by, points: sets.New[Coordinate]()}
	}
	added = sets.New(points...).Difference(own.points).UnsortedList()
	if open := u.count(); open > 0 && len(added) > 0 && open+len(added) > p.Most {
		return nil, open, false
	}
	own.by.Generation, own.since = max(own.by.Generation, by.Generation), p.Clock.Now()
	own.points.Insert(added...)
	u.objects[by.UID] = own
	return added, 0, true
}

func (u *unsettled) count() (points int) {
	for _, o := range u.objects {
		points += o.points.Len()
	}
	return points
}

// settle forgets the objects that are stored by now, and those that can't be any longer. Many wait for it at a time, one look is
// for all of them.
func (u *unsettled) settle(ctx context.Context, p *Promises) {
	if now := time.Now(); now.Sub(u.looked) >= looksEvery/2 {
		u.looked = now
		for uid, o := range u.objects {
			if p.Clock.Since(o.since) >= p.Grace || p.Stored(ctx, o.by) {
				delete(u.objects, uid)
			}
		}
	}
}

// drop takes points off.
func (u *unsettled) drop(uid types.UID, points []Coordinate) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if o := u.objects[uid]; o != nil {
		o.points.Delete(points...)
		if o.points.Len() == 0 {
			delete(u.objects, uid)
		}
	}
}
