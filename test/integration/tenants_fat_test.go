package integration

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/bench/process"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// What objects as large as the API server takes cost when they are read whole.

// tight is the environment of a replica with the memory that config/ gives it.
var tight = []string{"GOGC=50", "GOMEMLIMIT=512000000B"}

// mostMemory is what a replica may take at its peak, in MiB: well below its limit of 512.
const mostMemory = 350

// fat writes finalizers of 1.4 MiB onto an object.
func fat[T client.Object](obj T) T {
	prefix := strings.Repeat(strings.Repeat("x", 62)+".", 3) + "example.com/"
	finalizers := make([]string, 7000)
	for i := range finalizers {
		finalizers[i] = fmt.Sprintf("%sf%04d", prefix, i)
	}
	obj.SetFinalizers(finalizers)
	return obj
}

// createSideBySide creates n objects, a few at a time.
func (w *fixture) createSideBySide(n int, object func(i int) client.Object) {
	w.t.Helper()
	const writers = 4
	var all sync.WaitGroup
	for first := range writers {
		all.Go(func() {
			for i := first; i < n; i += writers {
				if err := w.try(object(i)); err != nil {
					w.t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// keepsBelow fails the test if the first replica has taken too much memory.
func (w *fixture) keepsBelow(mib float64) {
	w.t.Helper()
	peak := process.Peak(w.Replicas[0].PID())
	if peak > mib {
		w.t.Errorf("it took %.0f MiB at its peak, want at most %.0f", peak, mib)
	}
	w.t.Logf("it took %.0f MiB at its peak", peak)
}

// TestFatGrantsDontFillTheMemory: a tenant fills a namespace with ReferenceGrants, and streams of many others ask to lead there, all
// at once. None of the grants is for them, so that each is read to the last. As they take turns, a busy machine may have an answer
// for none of them in time: fewer ask then, until one does.
func TestFatGrantsDontFillTheMemory(t *testing.T) {
	t.Parallel()
	const namespaces = 60
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--audit-interval=0"}, Env: tight}))
	w.create(namespace("asked"))
	for i := range namespaces {
		w.create(namespace(fmt.Sprintf("asking-%d", i)))
	}
	w.newEdge("fat", autoAssign(20000, 20999))
	w.createSideBySide(20, func(i int) client.Object { return fat(grant(fmt.Sprintf("asked/grant-%d", i), "elsewhere")) })
	asking := 2 * namespaces
	w.eventually("somebody to be told that there is no consent", func() error {
		asking = max(asking/2, 1)
		var all sync.WaitGroup
		var told atomic.Int32
		for i := range asking {
			all.Go(func() {
				s := sti(fmt.Sprintf("asking-%d/stream", i), of("fat"), to("asked/db", 80))
				switch err := w.Client.Create(t.Context(), s, client.DryRunAll); {
				case err != nil && strings.Contains(err.Error(), "has not consented"):
					told.Add(1)
				case err == nil || !strings.Contains(err.Error(), "try again") && !timedOut(err):
					t.Errorf("without a consent, the answer is: %v", err)
				}
			})
		}
		all.Wait()
		t.Logf("of %d, %d were told that there is no consent", asking, told.Load())
		return is(told.Load() > 0, true)
	})
	w.keepsBelow(mostMemory)
	w.create(grant("asked/last", "asking-0"))
	w.admitted(sti("asking-0/last", of("fat"), to("asked/db", 80)))
}

// TestFatRequestsDontFillTheMemory: a tenant has streams judged that are as large as a request can be, many at once, as by dry runs.
// Those for which there is no room in time have no verdict, and those of others have theirs.
func TestFatRequestsDontFillTheMemory(t *testing.T) {
	t.Parallel()
	const requests = 50
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--audit-interval=0"}, Env: tight}))
	w.create(namespace("fat"), namespace("lean"))
	w.newEdge("fat")
	stream := fat(sti("fat/stream", of("fat"), tcp(1000)))
	for range 3 {
		stream.Finalizers = append(stream.Finalizers, stream.Finalizers[:7000]...)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	asked := make([]*http.Request, requests)
	for i := range asked {
		asked[i] = w.toJudge(w.Replicas[0], stream)
	}
	var judged atomic.Int32
	var all sync.WaitGroup
	for _, req := range asked {
		all.Go(func() {
			resp, err := (&http.Client{Transport: transport}).Do(req)
			if err != nil {
				t.Logf("a large request: %v", err) // it was told so while it was still being sent
				return
			}
			defer resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusOK:
				judged.Add(1)
			case http.StatusServiceUnavailable:
			default:
				t.Errorf("a large request is answered with %s", resp.Status)
			}
		})
	}
	for i := range 5 {
		w.create(sti(fmt.Sprintf("lean/stream-%d", i), of("fat"), tcp(int32(100+i)))) //nolint:gosec // small
	}
	all.Wait()
	t.Logf("%d of %d large requests were judged", judged.Load(), requests)
	if judged.Load() == 0 {
		t.Error("no large request was judged")
	}
	w.keepsBelow(mostMemory)
}

// TestFatServicesDontFillTheMemory: a tenant writes large Services, and the audit reads them all.
func TestFatServicesDontFillTheMemory(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--audit-interval=5s"}, Env: tight}))
	w.create(namespace("fat"), addressPool("fat", []string{"192.0.2.0/24"})) // so that Services are read whole
	w.createSideBySide(100, func(i int) client.Object { return fat(service(fmt.Sprintf("fat/service-%d", i), port("http", 80))) })
	looks := func() float64 {
		return metrics(w, w.Replicas[0].Metrics+"/metrics", http.DefaultClient)[`portcullis_ledger_audits_total{result="done"}`]
	}
	before := looks()
	w.eventually("an audit from its beginning to its end", func() error { return is(looks() >= before+2, true) })
	w.keepsBelow(mostMemory)
}
