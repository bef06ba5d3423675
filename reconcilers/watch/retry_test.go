package watch

import (
	"testing"
	"time"
)

func TestSoonest(t *testing.T) {
	for want, waits := range map[time.Duration][]time.Duration{0: {0, 0}, 1: {0, 2, 1, 3}, 5: {5, 0}} {
		if got := Soonest(waits...); got != want {
			t.Errorf("of %v: %v", waits, got)
		}
	}
}
