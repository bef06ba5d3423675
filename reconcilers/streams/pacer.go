package streams

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// paceFirst is the pause after the first write of a burst, paceLongest the pause that it grows to.
	paceFirst   = 100 * time.Millisecond
	paceLongest = 2 * time.Second
	// paceIdle is the pause after a look that found nothing to write, or paceShare times what the look took: a class with
	// many streams takes long to look at.
	paceIdle  = 10 * time.Millisecond
	paceShare = 5
	// paceCalm is how long nothing has to happen for a burst to be over.
	paceCalm = 150 * time.Millisecond
	// paceLeast is how much of a pause, 1/paceLeast, is made even when the burst seems to be over, and 1/paceRest of
	// what the write took. That counts for no more than paceLongest: a large Service takes a busy API server half a minute.
	paceLeast = 8
	paceRest  = 4
)

// pacer spaces the writes for a class: the first one is made at once, those of a burst come at growing intervals, so
// that their number grows with time and not with the number of streams. When the burst is over, its last write waits no
// longer. What it remembers may be lost.
type pacer struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	state map[string]pace
}

type pace struct {
	// next is when the next look may be, soonest when it may be if the burst is over, and rested when it may be if it is due. The
	// last look began at began, the last write was at wrote, something was asked for last at asked, and was due last at due.
	next, soonest, rested, began, wrote, asked, due time.Time
	interval                                        time.Duration
}

func newPacer(c clock.PassiveClock) *pacer { return &pacer{clock: c, state: map[string]pace{}} }

// wait is how long to hold back before the next look at a class, 0 for not at all.
func (p *pacer) wait(class string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state[class]
	if s.due.After(s.began) {
		return max(s.rested.Sub(p.clock.Now()), 0)
	}
	calm := s.asked.Add(paceCalm)
	if calm.Before(s.soonest) {
		calm = s.soonest
	}
	if s.next.Before(calm) {
		calm = s.next
	}
	return max(calm.Sub(p.clock.Now()), 0)
}

// ask says that something was asked of a class: the burst is not over.
func (p *pacer) ask(class string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state[class]
	s.asked = p.clock.Now()
	p.state[class] = s
}

// follow says that something was written of which the next look at a class makes another write: that has been paced already, and
// waits no longer than the last one took.
func (p *pacer) follow(class string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state[class]
	s.due = p.clock.Now()
	p.state[class] = s
}

// done says that a look at a class has ended, whether it wrote, and how long it took.
func (p *pacer) done(class string, wrote bool, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, last := p.clock.Now(), p.state[class]
	last.began = now.Add(-took)
	if !wrote {
		last.next, last.soonest = now.Add(max(paceIdle, paceShare*took)), now.Add(paceIdle)
		p.state[class] = last
		return
	}
	if last.interval == 0 || now.Sub(last.wrote) > 3*last.interval {
		last.interval = paceFirst
	} else {
		last.interval = min(2*last.interval, paceLongest)
	}
	last.next, last.wrote = now.Add(max(last.interval, took)), now
	rest := min(took, paceLongest) / paceRest
	last.soonest, last.rested = now.Add(max(last.interval/paceLeast, rest)), now.Add(rest)
	p.state[class] = last
}

// forget drops what is known of a class.
func (p *pacer) forget(class string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.state, class)
}
