package reconcilers

import (
	"testing"
	"time"
)

func TestPauseOfTheAuditor(t *testing.T) {
	a := &auditor{interval: time.Minute}
	for name, tc := range map[string]struct {
		took     time.Duration
		suspects bool
		want     time.Duration
	}{
		"nothing is suspect":                       {10 * time.Millisecond, false, time.Minute},
		"something is suspect":                     {10 * time.Millisecond, true, 10 * time.Second},
		"something is suspect, and there is a lot": {time.Second, true, 50 * time.Second},
		"a look takes long":                        {2 * time.Second, false, 100 * time.Second},
		"a look takes very long":                   {time.Minute, true, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := a.pause(tc.took, tc.suspects); got != tc.want {
				t.Errorf("it waits %v, want %v", got, tc.want)
			}
		})
	}
}
