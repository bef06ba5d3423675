package claim

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	looksEvery    = 20 * time.Millisecond
)

// Promises counts what a replica has promised of late, by namespace. It only ever makes requests wait: what it forgets when
// the process ends decides nothing. The zero value is not usable, nil counts nothing.
type Promises struct {
	// Stored says whether an object is known to have been stored with the claimant's UID, at its generation or later.
	Stored func(ctx context.Context, by Claimant) bool
	Clock  clock.PassiveClock
	// Grace is how long a promise is counted at most.
	Grace time.Duration
	// Most is how many points a namespace may have open. A single request may have more, when no other is open.
	Most int

	mu   sync.Mutex
	open map[string][]*opened
}

// opened is what one request was promised.
type opened struct {
	by     Claimant
	points int
	since  time.Time
}

// Open counts points as promised to a claimant, once there is room for them beside what its namespace has open. It returns
// what takes them off again, for a request that is refused. An error is one of the API, to try again.
func (p *Promises) Open(ctx context.Context, by Claimant, points int) (drop func(), err error) {
	if p == nil || by.Namespace == "" || points == 0 {
		return func() {}, nil
	}
	next := &opened{by: by, points: points, since: p.Clock.Now()}
	others := 0
	err = wait.PollUntilContextTimeout(ctx, looksEvery, settlesWithin, true, func(ctx context.Context) (bool, error) {
		others = p.add(ctx, next)
		return others == 0, nil
	})
	if err != nil {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("objects of namespace %q that are not stored yet were promised "+
			"%d ports, addresses or hosts, of %d that they may have at a time; try again", by.Namespace, others, p.Most), 1)
	}
	return func() { p.drop(next) }, nil
}

// add counts a promise, or says how many points of others there are that leave no room for it.
func (p *Promises) add(ctx context.Context, next *opened) (others int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var open []*opened
	for _, o := range p.open[next.by.Namespace] {
		if p.Clock.Since(o.since) >= p.Grace || p.Stored(ctx, o.by) {
			continue
		}
		open = append(open, o)
		if o.by.UID != next.by.UID {
			others += o.points
		}
	}
	if fits := others == 0 || others+next.points <= p.Most; fits {
		others, open = 0, append(open, next)
	}
	p.keep(next.by.Namespace, open)
	return others
}

func (p *Promises) drop(gone *opened) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var open []*opened
	for _, o := range p.open[gone.by.Namespace] {
		if o != gone {
			open = append(open, o)
		}
	}
	p.keep(gone.by.Namespace, open)
}

func (p *Promises) keep(namespace string, open []*opened) {
	switch {
	case len(open) == 0:
		delete(p.open, namespace)
	case p.open == nil:
		p.open = map[string][]*opened{namespace: open}
	default:
		p.open[namespace] = open
	}
}
