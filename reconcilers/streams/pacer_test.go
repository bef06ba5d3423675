package streams

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// busy is how long a class has to wait while more and more is asked of it.
func busy(clock *clocktesting.FakePassiveClock, p *pacer) time.Duration {
	began := clock.Now()
	defer clock.SetTime(began)
	for {
		p.ask("public")
		if p.wait("public") == 0 {
			return clock.Since(began)
		}
		clock.SetTime(clock.Now().Add(10 * time.Millisecond))
	}
}

// TestPacer plays what happens to a class, and compares how long it has to wait after each step while more is asked of it.
func TestPacer(t *testing.T) {
	type step struct {
		after time.Duration
		wrote bool
		wait  time.Duration
	}
	const ms = time.Millisecond
	for name, steps := range map[string][]step{
		"a single write":   {{0, true, 100 * ms}},
		"nothing to write": {{0, false, 10 * ms}, {10 * ms, false, 10 * ms}, {time.Hour, false, 10 * ms}},
		"a burst": {
			{0, true, 100 * ms}, {100 * ms, true, 200 * ms}, {200 * ms, true, 400 * ms}, {400 * ms, true, 800 * ms},
			{800 * ms, true, 1600 * ms}, {1600 * ms, true, 2 * time.Second}, {2 * time.Second, true, 2 * time.Second},
		},
		"a burst that ends, and another one": {
			{0, true, 100 * ms}, {100 * ms, true, 200 * ms}, {601 * ms, true, 100 * ms},
		},
		"a burst with a look in between that writes nothing": {
			{0, true, 100 * ms}, {100 * ms, false, 10 * ms}, {10 * ms, true, 200 * ms},
		},
		"looks that write nothing make no burst of writes that are far apart": {
			{0, true, 100 * ms}, {100 * ms, false, 10 * ms}, {100 * ms, false, 10 * ms}, {100 * ms, false, 10 * ms}, {100 * ms, true, 100 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(accesstest.Noon)
			p := newPacer(clock)
			if got := p.wait("public"); got != 0 {
				t.Errorf("the first look waits %v", got)
			}
			for i, s := range steps {
				clock.SetTime(clock.Now().Add(s.after))
				p.done("public", s.wrote, 0)
				if got := busy(clock, p); got != s.wait {
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

// TestLooksThatTakeLong compares how long a class has to wait after a look, while more is asked of it and when nothing is.
func TestLooksThatTakeLong(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		wrote      bool
		took       time.Duration
		busy, calm time.Duration
	}{
		"a short look that wrote":        {true, 10 * ms, 100 * ms, 12500 * time.Microsecond},
		"a long look that wrote":         {true, 800 * ms, 800 * ms, 200 * ms},
		"a very long look that wrote":    {true, 30 * time.Second, 30 * time.Second, 500 * ms},
		"a short look, nothing to write": {false, 4 * ms, 20 * ms, 10 * ms},
		"a long look, nothing to write":  {false, 100 * ms, 500 * ms, 10 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(accesstest.Noon)
			p := newPacer(clock)
			p.done("public", tc.wrote, tc.took)
			if got := p.wait("public"); got != tc.calm {
				t.Errorf("when nothing is asked, it waits %v, want %v", got, tc.calm)
			}
			if got := busy(clock, p); got != tc.busy {
				t.Errorf("when more is asked, it waits %v, want %v", got, tc.busy)
			}
		})
	}
}

// TestTheEndOfABurst lets a burst of some writes end, and compares how long the last write waits after what was asked last.
func TestTheEndOfABurst(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		writes int
		asked  time.Duration
		wait   time.Duration
	}{
		"after a single write":                                   {1, 0, 100 * ms},
		"after several":                                          {4, 0, 150 * ms},
		"after many, at once":                                    {10, 0, 250 * ms},
		"after many, and more was asked meanwhile":               {10, 1000 * ms, 1150 * ms},
		"after many, and more was asked shortly before the next": {10, 1900 * ms, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(accesstest.Noon)
			p := newPacer(clock)
			for range tc.writes {
				clock.SetTime(clock.Now().Add(busy(clock, p)))
				p.done("public", true, 0)
			}
			clock.SetTime(clock.Now().Add(tc.asked))
			p.ask("public")
			if got := tc.asked + p.wait("public"); got != tc.wait {
				t.Errorf("it waits %v, want %v", got, tc.wait)
			}
		})
	}
}

// TestAWriteThatFollowsAnother waits for the rest of the one before, and no longer, be that written just then.
func TestAWriteThatFollowsAnother(t *testing.T) {
	const took = 80 * time.Millisecond
	for name, tc := range map[string]struct {
		follows time.Duration // since the last look began
		wait    time.Duration
	}{
		"before the last look":   {-time.Millisecond, paceLongest / paceLeast},
		"during the last look":   {took / 2, took / paceRest},
		"as the last look ended": {took, took / paceRest},
		"later":                  {took + 5*time.Millisecond, took/paceRest - 5*time.Millisecond},
		"when its rest is over":  {took + took/paceRest, 0},
		"long after it was over": {time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(accesstest.Noon)
			p := newPacer(clock)
			for range 10 {
				clock.SetTime(clock.Now().Add(busy(clock, p)))
				p.done("public", true, 0)
			}
			began := clock.Now().Add(paceLongest)
			clock.SetTime(began.Add(min(tc.follows, took)))
			if tc.follows <= took {
				p.follow("public")
			}
			clock.SetTime(began.Add(took))
			p.done("public", true, took)
			if tc.follows > took {
				clock.SetTime(began.Add(tc.follows))
				p.follow("public")
			}
			if got := p.wait("public"); got != tc.wait {
				t.Errorf("it waits %v, want %v", got, tc.wait)
			}
			clock.SetTime(clock.Now().Add(tc.wait))
			p.done("public", true, 0)
			if got := p.wait("public"); got != paceLongest/paceLeast {
				t.Errorf("the one after it waits %v", got)
			}
		})
	}
}

func TestAMinuteOfChangesTakesFewWrites(t *testing.T) {
	for every, most := range map[time.Duration]int{10 * time.Millisecond: 40, 200 * time.Millisecond: 160, 500 * time.Millisecond: 120} {
		clock := clocktesting.NewFakePassiveClock(accesstest.Noon)
		p, changes, writes := newPacer(clock), false, 0
		for clock.Now().Before(accesstest.Noon.Add(time.Minute)) {
			if clock.Since(accesstest.Noon)%every == 0 {
				p.ask("public")
				changes = true
			}
			if changes && p.wait("public") == 0 {
				writes++
				changes = false
				p.done("public", true, 0)
			}
			clock.SetTime(clock.Now().Add(10 * time.Millisecond))
		}
		if writes > most {
			t.Errorf("with a change every %s: %d writes", every, writes)
		}
	}
}

func TestPacerForgets(t *testing.T) {
	p := newPacer(clocktesting.NewFakePassiveClock(accesstest.Noon))
	p.done("public", true, 0)
	p.forget("public")
	if got := p.wait("public"); got != 0 || len(p.state) != 0 {
		t.Errorf("it waits %v and knows %v", got, p.state)
	}
}
