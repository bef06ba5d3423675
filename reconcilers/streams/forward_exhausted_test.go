package streams

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// TestNoClusterIPIsBelievedLate has the API server say that no cluster IP is left: that is believed once it was said for a while, and
// not for having been said once before.
func TestNoClusterIPIsBelievedLate(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1700000000, 0))
	ips := newClusterIPs(clock)
	at, other := claim.Stream("kernel", v1beta1.TCP, 80), claim.Stream("kernel", v1beta1.TCP, 81)
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
			ips.given(at)
		}
		if got := ips.exhausted(at); got != step.want {
			t.Errorf("step %d: it is believed in %v, want %v", i, got, step.want)
		}
	}
	clock.SetTime(clock.Now().Add(disbelief))
	ips.given(other)
	if got := ips.exhausted(at); got != 0 {
		t.Errorf("what another port got keeps it from being believed for %v", got)
	}
	if got := ips.exhausted(other); got != disbelief {
		t.Errorf("what another port has heard has it believed in %v", got)
	}
}
