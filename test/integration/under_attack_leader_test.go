package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// leader waits until one of the replicas leads. Of those that have ended, none does.
func leader(w *fixture, of ...*harness.Replica) *harness.Replica {
	w.t.Helper()
	var found *harness.Replica
	w.eventually("a leader", func() error {
		var errs []error
		for _, r := range of {
			values, err := scrape(w.t.Context(), r.Metrics+"/metrics", http.DefaultClient)
			if err != nil {
				errs = append(errs, err)
			}
			for name, value := range values {
				if strings.HasPrefix(name, "leader_election_master_status{") && value == 1 {
					found = r
					return nil
				}
			}
		}
		return errors.Join(append(errs, fmt.Errorf("none of %d leads", len(of)))...)
	})
	return found
}

// replaced starts another replica for each that has ended by itself, as the kubelet would: a leader does that could not renew its lease.
func (w *fixture) replaced(alive ...*harness.Replica) (now []*harness.Replica) {
	w.t.Helper()
	for _, r := range alive {
		if hasEnded(r) {
			another, err := w.StartReplica(w.t.Context())
			must(w, err)
			r = another
		}
		now = append(now, r)
	}
	return now
}

func hasEnded(r *harness.Replica) bool {
	select {
	case <-r.Ended():
		return true
	default:
		return false
	}
}

func others(all []*harness.Replica, without *harness.Replica) (rest []*harness.Replica) {
	for _, r := range all {
		if r != without {
			rest = append(rest, r)
		}
	}
	return rest
}

// TestLeaderChanges lets one leader die, and the next one hang until it has long been replaced: it wakes up with
// everything in its head that was true half a minute ago.
func TestLeaderChanges(t *testing.T) {
	t.Parallel()
	h := start(t, raceOptions())
	w, history := newFixture(t, h), streamHistory(t, h)
	e := w.newEdge("leaders", autoAssign(30000, 30999))
	c := e.churning("leaders", 2)
	c.live(0, 50, 8)

	dead := leader(w, h.Replicas...)
	must(w, dead.Kill())
	c.live(50, 100, 8)
	w.delete(c.stream(3), c.stream(8))
	e.isExact()

	third, err := h.StartReplica(t.Context())
	must(w, err)
	frozen := leader(w, others(h.Replicas, dead)...)
	if frozen == third {
		t.Log("the replica that was started last leads already")
	}
	must(w, frozen.Freeze())
	c.live(100, 150, 8)
	w.delete(c.stream(13), c.stream(18))
	alive := others(others(h.Replicas, dead), frozen)
	leader(w, alive...)
	e.isExact()
	must(w, frozen.Thaw())
	w.delete(c.stream(103), c.stream(108))
	c.live(150, 200, 8)
	select {
	case <-frozen.Ended():
	case <-time.After(patience):
		t.Error("a leader that has lost its lease goes on")
	}
	e.isExact()
	e.nobodyWasLiedTo()
	history.mustHold(w)
}
