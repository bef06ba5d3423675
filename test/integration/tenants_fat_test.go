package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
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
func (w *world) createSideBySide(n int, object func(i int) client.Object) {
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
func (w *world) keepsBelow(mib float64) {
	w.t.Helper()
	peak := process.Peak(w.Replicas[0].PID())
	if peak > mib {
		w.t.Errorf("it took %.0f MiB at its peak, want at most %.0f", peak, mib)
	}
	w.t.Logf("it took %.0f MiB at its peak", peak)
}

// TestFatGrantsDontFillTheMemory: a tenant fills a namespace with ReferenceGrants, and streams of another ask to lead there, all at
// once. None of the grants is for them, so that each is read to the last.
func TestFatGrantsDontFillTheMemory(t *testing.T) {
	t.Parallel()
	w := inWorld(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--audit-interval=0"}, Env: tight}))
	w.create(namespace("asking"), namespace("asked"))
	w.newEdge("fat", autoAssign(20000, 20999))
	w.createSideBySide(20, func(i int) client.Object { return fat(grant(fmt.Sprintf("asked/grant-%d", i), "elsewhere")) })
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			s := sti(fmt.Sprintf("asking/stream-%d", i), of("fat"), to("asked/db", 80))
			err := w.Client.Create(t.Context(), s, client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), "has not consented") && !strings.Contains(err.Error(), "try again") {
				t.Errorf("without a consent, the answer is: %v", err)
			}
		})
	}
	all.Wait()
	w.keepsBelow(mostMemory)
	w.create(grant("asked/last", "asking"))
	w.create(sti("asking/last", of("fat"), to("asked/db", 80)))
}

// TestFatServicesDontFillTheMemory: a tenant writes large Services, and the audit reads them all.
func TestFatServicesDontFillTheMemory(t *testing.T) {
	t.Parallel()
	w := inWorld(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--audit-interval=5s"}, Env: tight}))
	w.create(namespace("fat"), addressPool("fat", []string{"192.0.2.0/24"})) // so that Services are read whole
	w.createSideBySide(100, func(i int) client.Object { return fat(service(fmt.Sprintf("fat/service-%d", i), port("http", 80))) })
	looks := func() float64 {
		return metrics(w, w.Replicas[0].Metrics+"/metrics", http.DefaultClient)[`portcullis_ledger_audits_total{result="done"}`]
	}
	before := looks()
	w.eventually("an audit from its beginning to its end", func() error { return is(looks() >= before+2, true) })
	w.keepsBelow(mostMemory)
}
