// Package adversary lets three tenants, who may edit one namespace each, and have ListenerSets there, do at random whatever that lets
// them do, against two replicas of the real binary, while an administrator changes classes, pools and a Gateway, and replicas are
// killed. An observer looks at the cluster after every change of every object: see the laws.
//
// What each of them does follows from a seed. How their requests interleave does not, so that a seed plays the same attacks again,
// and mostly with the same end.
package adversary

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

var (
	seed     = flag.Uint64("seed", 1, "what the random acts follow from; 0 for another one each time")
	duration = flag.Duration("for", 20*time.Second, "how long the tenants act")
	rate     = flag.Float64("rate", 5, "how many acts each tenant begins in a second; some of them are several requests")
	only     = flag.String("only", "", "a regular expression: acts whose names it does not match are left out")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// What clients of the tests have to say is in their errors.
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

const (
	// patience is how long is waited for what should come within moments: machines are busy, and only what never comes has to
	// wait this long.
	patience = 5 * time.Minute
	// requestTimeout is how long an API request lives. The grace of claims is longer by more than this machine stands still.
	requestTimeout = 20 * time.Second
	grace          = 75 * time.Second
)

// TestNobodyTakesWhatIsHeld is the promise to everybody who shares a cluster with people who may edit their namespaces.
func TestNobodyTakesWhatIsHeld(t *testing.T) {
	chosen, err := regexp.Compile(*only)
	if err != nil {
		t.Fatalf("-only: %v", err)
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	t.Logf("seed %d", *seed)
	s := newStage(t)
	o := observe(t, s)
	acting, stop := context.WithTimeout(t.Context(), *duration)
	defer stop()
	go func() { // one violation is enough to read, and what comes after it may follow from it
		select {
		case <-o.violated:
			stop()
		case <-acting.Done():
		}
	}()
	began := time.Now()
	s.act(acting, o, chosen)
	s.restore()
	t.Logf("%d acts in %v, %d changes were looked at", s.history.count(), time.Since(began).Round(time.Second), o.looked())
	if err := o.settle(); err != nil {
		o.fail(fmt.Errorf("some time after everybody has stopped: %w", err), change{seen: time.Now()})
	}
	if wrong := o.wrong(); wrong != "" {
		t.Errorf("after %v: %s\nto play it again: make adversary SEED=%d FOR=%v", o.after(began).Round(time.Second), wrong, *seed, *duration)
	}
}

// options are two replicas that may be killed, and an API server whose requests are so short-lived that a test can wait for
// the end of a grace.
func options() harness.Options {
	roomy := []string{"GOGC=400", "GOMEMLIMIT=1GiB"}
	return harness.Options{
		Replicas: 2, WebhookTimeout: 20, Env: roomy, Guard: true,
		Flags: []string{"--claim-grace=" + grace.String(), "--leader-elect-lease-duration=20s", "--leader-elect-renew-deadline=15s"},
		ControlPlane: controlplane.Options{
			Controllers: true, Env: roomy, APIServerFlags: []string{"--request-timeout=" + requestTimeout.String()},
		},
	}
}
