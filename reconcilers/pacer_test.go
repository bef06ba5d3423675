package reconcilers

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// TestPacer plays what happens to a class, and compares how long it has to wait after each step.
func TestPacer(t *testing.T) {
	type step struct {
		after time.Duration
		wrote bool
		wait  time.Duration
	}
	const ms = time.Millisecond
	for name, steps := range map[string][]step{
		"a single write":   {{0, true, 100 * ms}},
		"nothing to write": {{0, false, 50 * ms}, {50 * ms, false, 50 * ms}, {time.Hour, false, 50 * ms}},
		"a burst": {
			{0, true, 100 * ms}, {100 * ms, true, 200 * ms}, {200 * ms, true, 400 * ms}, {400 * ms, true, 800 * ms},
			{800 * ms, true, 1600 * ms}, {1600 * ms, true, 2 * time.Second}, {2 * time.Second, true, 2 * time.Second},
		},
		"a burst that ends, and another one": {
			{0, true, 100 * ms}, {100 * ms, true, 200 * ms}, {601 * ms, true, 100 * ms},
		},
		"a burst with a look in between that writes nothing": {
			{0, true, 100 * ms}, {100 * ms, false, 50 * ms}, {50 * ms, true, 200 * ms},
		},
		"looks that write nothing make no burst of writes that are far apart": {
			{0, true, 100 * ms}, {100 * ms, false, 50 * ms}, {100 * ms, false, 50 * ms}, {100 * ms, false, 50 * ms}, {100 * ms, true, 100 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(noon)
			p := newPacer(clock)
			if got := p.wait("public"); got != 0 {
				t.Errorf("the first look waits %v", got)
			}
			for i, s := range steps {
				clock.SetTime(clock.Now().Add(s.after))
				p.done("public", s.wrote)
				if got := p.wait("public"); got != s.wait {
					t.Errorf("after step %d it waits %v, want %v", i, got, s.wait)
				}
				if got := p.wait("internal"); got != 0 {
					t.Errorf("another class waits %v", got)
				}
			}
			clock.SetTime(clock.Now().Add(paceLongest))
			if p.wait("public") != 0 {
				t.Error("it waits for longer than the longest pause")
			}
		})
	}
}

func TestAMinuteOfChangesTakesFewWrites(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(noon)
	p, writes := newPacer(clock), 0
	for clock.Now().Before(noon.Add(time.Minute)) {
		if p.wait("public") == 0 {
			writes++
			p.done("public", true)
		}
		clock.SetTime(clock.Now().Add(10 * time.Millisecond))
	}
	if writes > 40 {
		t.Errorf("%d writes", writes)
	}
}

func TestPacerForgets(t *testing.T) {
	p := newPacer(clocktesting.NewFakePassiveClock(noon))
	p.done("public", true)
	p.forget("public")
	if got := p.wait("public"); got != 0 || len(p.state) != 0 {
		t.Errorf("it waits %v and knows %v", got, p.state)
	}
}
