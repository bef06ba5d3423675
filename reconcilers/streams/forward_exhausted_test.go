package streams

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestNoClusterIPIsBelievedLate has the API server say that no cluster IP is left: that is believed once it was said for a while, and
// not for having been said once before.
func TestNoClusterIPIsBelievedLate(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1700000000, 0))
	ips := &clusterIPs{clock: clock}
	for i, step := range []struct {
		after time.Duration
		given bool
		want  time.Duration
	}{
		{after: 0, want: disbelief},
		{after: 5 * time.Second, want: disbelief - 5*time.Second},
		{after: disbelief - 5*time.Second, want: 0},
		{after: hearsay, want: 0},
		{after: time.Second, given: true, want: disbelief},
		{after: disbelief, want: 0},
		{after: hearsay + time.Second, want: disbelief},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		if step.given {
			ips.given()
		}
		if got := ips.exhausted(); got != step.want {
			t.Errorf("step %d: it is believed in %v, want %v", i, got, step.want)
		}
	}
}
