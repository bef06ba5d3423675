package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// settling is how long the users go on when what disturbed them is over.
const settling = 3 * time.Second

// TestRollingUpdate replaces both replicas while users create StreamIngresses. Nobody notices.
func TestRollingUpdate(t *testing.T) {
	replicas(t)
	t.Cleanup(bePatient(t))
	u := busy(t, "rolling")
	time.Sleep(settling)
	restart(t)
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

// taking is how long kube-proxy may take to do what the EndpointSlice says, on a machine with much else to do.
const taking = 10 * time.Second

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

// long is how many seconds the API server may wait for a webhook where that is no matter of the test: as many as a machine
// with much else to do may need.
const long = 30

// bePatient lets the API server wait long for the webhooks until restore. How long it waits at most is another's matter; those
// that call this ask whether every request is answered.
func bePatient(t *testing.T) (restore func()) {
	t.Helper()
	var former []int
	for text := range strings.FieldsSeq(kubectl(t, "get", "validatingwebhookconfiguration", "portcullis", "-o", "jsonpath={.webhooks[*].timeoutSeconds}")) {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		former = append(former, seconds)
	}
	letWebhooksTake(t, slices.Repeat([]int{long}, len(former))...)
	return func() { letWebhooksTake(t, former...) }
}

// letWebhooksTake says how many seconds the API server waits at most for each webhook, in their order.
func letWebhooksTake(t *testing.T, seconds ...int) {
	t.Helper()
	var patch []string
	for i, most := range seconds {
		patch = append(patch, fmt.Sprintf(`{"op":"replace","path":"/webhooks/%d/timeoutSeconds","value":%d}`, i, most))
	}
	kubectl(t, "patch", "validatingwebhookconfiguration", "portcullis", "--type=json", "-p", "["+strings.Join(patch, ",")+"]")
}
