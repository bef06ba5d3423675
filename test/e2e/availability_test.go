package e2e

import (
	"errors"
	"testing"
	"time"
)

// settling is how long the users go on when what disturbed them is over.
const settling = 3 * time.Second

// TestRollingUpdate replaces both replicas while users create StreamIngresses. Nobody notices.
func TestRollingUpdate(t *testing.T) {
	replicas(t)
	u := busy(t, "rolling")
	time.Sleep(settling)
	kubectl(t, "rollout", "restart", "deployment/portcullis", "-n", system)
	kubectl(t, "rollout", "status", "deployment/portcullis", "-n", system, "--timeout=3m")
	replicas(t) // the former ones have drained, and are gone
	time.Sleep(settling)
	u.stop()
	u.report(t)
	u.noneFailed(t)
	u.keptTheirWord(t)
}

// TestLeaderKilled kills the process that leads. Requests that it was answering fail, and nothing else does.
func TestLeaderKilled(t *testing.T) {
	needs(t, target.script != "", "processes are killed only on a cluster that CLUSTER makes")
	replicas(t)
	victim := leader(t)
	e, u := watchEndpoints(t), busy(t, "killed")
	time.Sleep(settling)
	kill(t, victim)
	begin := time.Now()
	awaitGone(t, e, victim)
	next := awaitOther(t, victim)
	t.Logf("%s leads %s after %s was killed", next.Metadata.Name, time.Since(begin).Round(time.Second), victim.Metadata.Name)
	replicas(t)
	time.Sleep(settling)
	u.stop()
	u.report(t)
	u.failedOnlyBetween(t, e, victim, begin)
	u.keptTheirWord(t)
}

// awaitGone waits until the Service sends a replica nothing any more.
func awaitGone(t *testing.T, e *endpoints, lost replica) {
	t.Helper()
	eventually(t, "the endpoint to go", func() error {
		if _, gone := e.gone(lost.Status.PodIP); !gone {
			return errors.New("it is there")
		}
		return nil
	})
}

// taking is how long kube-proxy may take to do what the EndpointSlice says.
const taking = 2 * time.Second

// failedOnlyBetween fails the test with every request that failed and was made before a replica was lost, or after its
// endpoint was gone.
func (u *users) failedOnlyBetween(t *testing.T, e *endpoints, lost replica, lostAt time.Time) {
	t.Helper()
	gone, was := e.gone(lost.Status.PodIP)
	if !was {
		t.Fatal("the endpoint did not go")
	}
	t.Logf("the endpoint was gone %s after the replica", gone.Sub(lostAt).Round(100*time.Millisecond))
	for _, o := range u.failures() {
		if o.at.Add(o.took).Before(lostAt) || o.at.After(gone.Add(taking)) {
			t.Errorf("%s failed %s after the replica was lost, within %s: %v", o.name, o.at.Sub(lostAt).Round(time.Millisecond),
				o.took.Round(time.Millisecond), o.err)
		}
	}
	if t.Failed() {
		t.Logf("endpoints since the replica was lost:\n%s", e.story(lostAt))
	}
}
