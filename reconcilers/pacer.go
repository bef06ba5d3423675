package reconcilers

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// paceFirst is the pause after the first write of a burst, paceLongest the pause that it grows to.
	paceFirst   = 100 * time.Millisecond
	paceLongest = 2 * time.Second
	// paceIdle is the pause after a look that found nothing to write.
	paceIdle = 50 * time.Millisecond
)

// pacer spaces the writes for a class: the first one is made at once, those of a burst come at growing intervals, so
// that their number grows with time and not with the number of streams. What it remembers may be lost.
type pacer struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	state map[string]pace
}

type pace struct {
	// next is when the next look may be, wrote when the last write was.
	next, wrote time.Time
	interval    time.Duration
}

func newPacer(c clock.PassiveClock) *pacer { return &pacer{clock: c, state: map[string]pace{}} }

// wait is how long to hold back before the next look at a class, 0 for not at all.
func (p *pacer) wait(class string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.state[class].next.Sub(p.clock.Now()), 0)
}

// done says that a look at a class has ended, and whether it wrote.
func (p *pacer) done(class string, wrote bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, last := p.clock.Now(), p.state[class]
	if !wrote {
		last.next = now.Add(paceIdle)
		p.state[class] = last
		return
	}
	if last.interval == 0 || now.Sub(last.wrote) > 3*last.interval {
		last.interval = paceFirst
	} else {
		last.interval = min(2*last.interval, paceLongest)
	}
	last.next, last.wrote = now.Add(last.interval), now
	p.state[class] = last
}

// forget drops what is known of a class.
func (p *pacer) forget(class string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.state, class)
}
