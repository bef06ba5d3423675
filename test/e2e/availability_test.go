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
	begin := kill(t, victim)
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
	former, err := webhooksTake()
	if err == nil {
		err = letWebhooksTake(slices.Repeat([]int{long}, len(former))...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := letWebhooksTake(former...); err != nil {
			t.Error(err)
		}
	}
}

// waitLong lets the API server wait long for the webhooks of what was just deployed. A test that is about how long it waits calls asShipped.
func waitLong() (err error) {
	if target.waits, err = webhooksTake(); err != nil {
		return err
	}
	return letWebhooksTake(slices.Repeat([]int{long}, len(target.waits))...)
}

// asShipped lets the API server wait for the webhooks as long as the manifests say, until the test ends.
func asShipped(t *testing.T) {
	t.Helper()
	if len(target.waits) == 0 { // it was never told otherwise
		return
	}
	t.Cleanup(func() {
		if err := waitLong(); err != nil {
			t.Error(err)
		}
	})
	if err := letWebhooksTake(target.waits...); err != nil {
		t.Fatal(err)
	}
}

// webhooksTake is how many seconds the API server waits at most for each webhook, in their order.
func webhooksTake() (all []int, err error) {
	out, err := tryKubectl("", "get", "validatingwebhookconfiguration", "portcullis", "-o", "jsonpath={.webhooks[*].timeoutSeconds}")
	for text := range strings.FieldsSeq(out) {
		seconds, errRead := strconv.Atoi(text)
		all, err = append(all, seconds), errors.Join(err, errRead)
	}
	return all, err
}

// letWebhooksTake says how many seconds that is to be.
func letWebhooksTake(seconds ...int) error {
	var patch []string
	for i, most := range seconds {
		patch = append(patch, fmt.Sprintf(`{"op":"replace","path":"/webhooks/%d/timeoutSeconds","value":%d}`, i, most))
	}
	_, err := tryKubectl("", "patch", "validatingwebhookconfiguration", "portcullis", "--type=json", "-p", "["+strings.Join(patch, ",")+"]")
	return err
}
