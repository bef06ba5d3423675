package streams

import (
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/test/accesstest"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"jeffthecoder.xyz/portcullis/internal/stream"
)

// TestRefusalsAreRemembered asks again and again about a Service on which port 81 was refused, and where there was room for 82
// and not for 83.
func TestRefusalsAreRemembered(t *testing.T) {
	for name, tc := range map[string]struct {
		after         time.Duration
		class, around string
		missing       []stream.PortKey
		stale         []stream.PortKey
		refused       []stream.PortKey
		others        []stream.PortKey
	}{
		"at once":                      {class: "public", missing: tcpPorts(81), refused: tcpPorts(81)},
		"shortly before a retry":       {after: watch.RefusedRetry - 2*time.Second, class: "public", missing: tcpPorts(81, 83), refused: tcpPorts(81, 83)},
		"at the retry":                 {after: watch.RefusedRetry, class: "public", missing: tcpPorts(81, 83), others: tcpPorts(81, 83)},
		"with another port to open":    {class: "public", missing: tcpPorts(81, 84), refused: tcpPorts(81, 84)},
		"when a port goes":             {class: "public", missing: tcpPorts(81, 83), stale: tcpPorts(82), others: tcpPorts(81, 83)},
		"when the Service is another":  {class: "public", around: "type: NodePort", missing: tcpPorts(81, 83), others: tcpPorts(81, 83)},
		"for another class":            {class: "internal", missing: tcpPorts(81, 83), others: tcpPorts(81, 83)},
		"when nothing of it is wanted": {class: "public"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(accesstest.Noon)
			r, api := newRejectedPorts(clock), server{bad: bad(81), room: 2}
			plan := stream.PortPlan{Current: tcpPorts(80), Missing: tcpPorts(81, 82, 83)}
			if _, missing := r.recall("public", "", plan); len(missing) != 3 {
				t.Fatal(missing)
			}
			s := newBisect(unlimited, api.apply)
			if err := s.run(plan, false); err != nil {
				t.Fatal(err)
			}
			r.remember("public", s)
			clock.SetTime(accesstest.Noon.Add(tc.after))
			refused, others := r.recall(tc.class, tc.around, stream.PortPlan{Missing: tc.missing, Stale: tc.stale})
			if diff := cmp.Diff(tc.refused, sorted(refused)); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.others, others); diff != "" {
				t.Errorf("others (-want +got):\n%s", diff)
			}
			for port, words := range refused {
				if (words == invalid(port).Error()) != (port.Port == 81) {
					t.Errorf("%s is refused with the words %q", port, words)
				}
			}
		})
	}
}

// TestOneBadPortKeepsNoOtherFromBeingTried remembers a port that is bad, where there is room.
func TestOneBadPortKeepsNoOtherFromBeingTried(t *testing.T) {
	r, api := newRejectedPorts(clocktesting.NewFakePassiveClock(accesstest.Noon)), server{bad: bad(81)}
	plan := stream.PortPlan{Missing: tcpPorts(81, 82)}
	r.recall("public", "", plan)
	s := newBisect(unlimited, api.apply)
	if err := s.run(plan, false); err != nil {
		t.Fatal(err)
	}
	r.remember("public", s)
	refused, others := r.recall("public", "", stream.PortPlan{Missing: tcpPorts(81, 83)})
	if diff := cmp.Diff(tcpPorts(81), sorted(refused)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(tcpPorts(83), others); diff != "" {
		t.Error(diff)
	}
	r.forget("public")
	if _, others := r.recall("public", "", plan); len(others) != 2 {
		t.Errorf("it remembers all but %v", others)
	}
}
