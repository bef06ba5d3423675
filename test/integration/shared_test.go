package integration

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// grace is how long the shared Portcullis keeps a claim whose holder was never stored: short, so that tests can see it
// end, and much longer than a request takes even on a busy machine.
const grace = 20 * time.Second

// patientGivers has the Ingress of a Service wait for as long as a busy machine may take, where a test looks for a gap.
const patientGivers = "--heir-patience=10m"

// sharing is one Portcullis for all tests that disturb nobody: each has an edge and namespaces of its own. There is no
// default class.
var sharing struct {
	once sync.Once
	h    *harness.Harness
	err  error
}

// shared runs a test beside others, in a Portcullis of two replicas that all of them share.
func shared(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	sharing.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		sharing.h, sharing.err = harness.Start(ctx, onThisMachine(harness.Options{
			Replicas: 2, Flags: []string{"--claim-grace=" + grace.String(), patientGivers},
		}))
	})
	if sharing.err != nil {
		t.Fatalf("starting Portcullis: %v", sharing.err)
	}
	allProcessors()
	t.Cleanup(func() {
		if t.Failed() {
			for _, r := range sharing.h.Replicas {
				t.Logf("errors of %s:\n%s", r.Log, errorsIn(r.LogTail(1<<20)))
			}
		}
	})
	return newFixture(t, sharing.h)
}

// errorsIn is the last lines of a log that say more than that all goes well, few and short enough that what the test itself had to
// say is not lost among them.
func errorsIn(log string) string {
	const enough, long = 10, 400
	lines := slices.DeleteFunc(strings.Split(log, "\n"), func(line string) bool { return line == "" || strings.Contains(line, `"level":"info"`) })
	lines = lines[max(0, len(lines)-enough):]
	for i, line := range lines {
		line, _, _ = strings.Cut(line, `,"stacktrace":`)
		lines[i] = line[:min(len(line), long)]
	}
	return strings.Join(lines, "\n")
}

// stopShared ends the shared Portcullis, if a test has started it.
func stopShared() {
	if sharing.h == nil {
		return
	}
	if err := sharing.h.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the shared Portcullis:", err)
	}
}
