package audit

import (
	"testing"
	"time"
)

func TestPause(t *testing.T) {
	for name, c := range map[string]struct {
		interval, cost time.Duration
		suspects       bool
		want           time.Duration
	}{
		"a small cluster":                        {time.Minute, 20 * time.Millisecond, false, time.Minute},
		"10,000 streams":                         {time.Minute, 1400 * time.Millisecond, false, 280 * time.Second},
		"a longer interval":                      {5 * time.Minute, 1400 * time.Millisecond, false, 5 * time.Minute},
		"a huge cluster, and a short interval":   {5 * time.Second, 30 * time.Second, false, 50 * time.Second},
		"a huge cluster, and a long interval":    {2 * time.Minute, 30 * time.Second, false, 10 * time.Minute},
		"an interval that is longer than any":    {time.Hour, 30 * time.Second, false, time.Hour},
		"a huge cluster":                         {time.Minute, 30 * time.Second, false, 10 * time.Minute},
		"a small cluster, and suspects":          {time.Minute, 20 * time.Millisecond, true, 10 * time.Second},
		"10,000 streams, and suspects":           {time.Minute, 1400 * time.Millisecond, true, 14 * time.Second},
		"many more, and suspects":                {time.Minute, 3 * time.Second, true, 30 * time.Second},
		"a huge cluster, and suspects":           {time.Minute, 30 * time.Second, true, time.Minute},
		"a cost that is not known, and suspects": {3 * time.Second, 0, true, 500 * time.Millisecond},
	} {
		if got := Pause(c.interval, c.cost, c.suspects); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
