// Package integration tests Portcullis from outside: real processes against a real control plane.
package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// binary is the program under test, built once for all tests, and templates are what their control planes begin with.
var (
	binary    string
	templates *harness.Templates
)

// atOnce is how many tests may run beside each other, whatever the number of processors: they wait much of the time. With more of them
// two processors do more for control planes at rest.
const atOnce = 4

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err) // it is a flag of package testing
	}
	inOrder()
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
	// What clients of the tests have to say is in their errors.
	log.SetLogger(logr.Discard())
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "portcullis-integration-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if binary, err = harness.Build(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		templates = harness.NewTemplates(dir)
		defer stopShared()
		return m.Run()
	}())
}

// inOrder has tests that run beside others begin in an order: those of the last file first. Attacks and audits take minutes, and
// are there, so that no processor waits for one of them at the end. All tests queue for their turn at one moment; several
// processors would mix them up, and one does not. From the first start of a control plane on, by when they have queued, all
// processors are used. Should Go ever order them otherwise, nothing but time is lost.
func inOrder() { runtime.GOMAXPROCS(1) }

var allProcessors = sync.OnceFunc(runtime.SetDefaultGOMAXPROCS)

// webhookTimeout is how many seconds the API server waits for an answer in tests: as long as it can, because this machine
// may stand still for longer than a cluster would put up with.
const webhookTimeout = 30

// roomy has a replica collect its garbage seldom while there is memory: one that lives for a test mostly makes garbage, and
// there are few processors. So does this one, see TestMain. Not so a control plane: what it has at its start is most of what it
// ever has, and where memory is slow to come by, more of it costs more than its garbage does.
var roomy = []string{"GOGC=400", "GOMEMLIMIT=1GiB"}

// frugal has a program of a control plane use one processor where there are fewer than tests. It gains nothing by several, and takes a
// quarter less of them for a request without.
func frugal() []string {
	if runtime.NumCPU() >= atOnce {
		return nil
	}
	return []string{"GOMAXPROCS=1"}
}

// A leader ends that is not heard of in time, also when it is this machine that stands still, and nobody starts it again. So
// leases are long, but in tests that kill leaders: with a short one another soon follows.
var (
	shortLease = []string{"--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=25s"}
	longLease  = []string{"--leader-elect-lease-duration=75s", "--leader-elect-renew-deadline=60s"}
)

// longWait has a giver stay listed until its heir is, however long this machine stands still.
var longWait = []string{"--hand-over-wait=5m"}

// onThisMachine adds to options what is the same for all tests.
func onThisMachine(o harness.Options) harness.Options {
	o.Binary, o.Templates, o.WebhookTimeout = binary, templates, webhookTimeout
	o.Env, o.ControlPlane.Env = slices.Concat(roomy, o.Env), frugal()
	o.Flags = slices.Concat(longLease, longWait, o.Flags)
	return o
}

// start runs Portcullis for one test. The replicas' errors are shown when the test fails.
func start(t *testing.T, o harness.Options) *harness.Harness {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	h, err := harness.Start(ctx, onThisMachine(o))
	if err != nil {
		t.Fatalf("starting Portcullis: %v", err)
	}
	allProcessors()
	t.Cleanup(func() {
		if t.Failed() {
			for _, r := range h.Replicas {
				t.Logf("errors of %s:\n%s", r.Log, errorsIn(r.LogTail(1<<20)))
			}
		}
		if err := h.Stop(); err != nil {
			t.Errorf("stopping Portcullis: %v", err)
		}
	})
	return h
}
