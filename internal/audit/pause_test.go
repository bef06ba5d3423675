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
		failed         bool
	}{
		"a small cluster":                        {interval: time.Minute, cost: 20 * time.Millisecond, want: time.Minute},
		"10,000 streams":                         {interval: time.Minute, cost: 1400 * time.Millisecond, want: 560 * time.Second},
		"a longer interval":                      {interval: 6 * time.Minute, cost: 800 * time.Millisecond, want: 6 * time.Minute},
		"a huge cluster, and a short interval":   {interval: 5 * time.Second, cost: 30 * time.Second, want: 50 * time.Second},
		"a huge cluster, and a long interval":    {interval: 2 * time.Minute, cost: 30 * time.Second, want: 10 * time.Minute},
		"an interval that is longer than any":    {interval: time.Hour, cost: 30 * time.Second, want: time.Hour},
		"a huge cluster":                         {interval: time.Minute, cost: 30 * time.Second, want: 10 * time.Minute},
		"a small cluster, and suspects":          {interval: time.Minute, cost: 20 * time.Millisecond, suspects: true, want: 10 * time.Second},
		"10,000 streams, and suspects":           {interval: time.Minute, cost: 1400 * time.Millisecond, suspects: true, want: 14 * time.Second},
		"many more, and suspects":                {interval: time.Minute, cost: 3 * time.Second, suspects: true, want: 30 * time.Second},
		"a huge cluster, and suspects":           {interval: time.Minute, cost: 30 * time.Second, suspects: true, want: time.Minute},
		"a huge cluster, and a look that failed": {interval: time.Minute, cost: 30 * time.Second, failed: true, want: time.Minute},
		"suspects, and a look that failed":       {interval: time.Minute, suspects: true, failed: true, want: time.Minute},
		"a cost that is not known, and suspects": {interval: 3 * time.Second, cost: 0, suspects: true, want: 500 * time.Millisecond},
	} {
		if got := Pause(c.interval, c.cost, c.suspects, c.failed); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
