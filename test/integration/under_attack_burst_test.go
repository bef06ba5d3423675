package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestBurst creates a thousand streams at 32 at once, and counts at the API server what Portcullis writes for them.
func TestBurst(t *testing.T) {
	t.Parallel()
	const streams, clients = 1000, 32
	h := start(t, harness.Options{Replicas: 2, ControlPlane: controlplane.Options{Audit: true}})
	w := newFixture(t, h)
	e := w.newEdge("burst")
	users := w.creators("burst", clients)
	w.settles(3 * time.Second)
	before := len(w.writes())

	began := time.Now()
	var group sync.WaitGroup
	for i, c := range users {
		group.Go(func() {
			for n := i; n < streams; n += clients {
				s := sti(fmt.Sprintf("%s/burst-%d", c.namespace, n), of("burst"), tcp(int32(10000+n)))
				if err := c.Create(t.Context(), s); err != nil {
					t.Errorf("creating %s: %v", s.Name, err)
				}
			}
		})
	}
	group.Wait()
	created := time.Since(began)
	e.isExact()
	took := time.Since(began)
	t.Logf("%d streams created in %v by %d clients, all programmed %v after the first was",
		streams, created.Round(time.Millisecond), clients, took.Round(time.Millisecond))
	w.settles(5 * time.Second)

	all, perStream := map[string]int{}, map[string]int{}
	for _, write := range w.writes()[before:] {
		if write.Code >= 400 {
			all[fmt.Sprintf("%s %s, answered %d", write.Verb, write.Resource, write.Code)]++
			continue
		}
		all[write.Verb+" "+write.Resource]++
		if strings.HasSuffix(write.Resource, "/status") && strings.HasPrefix(write.Resource, "streamingresses.") {
			perStream[write.Namespace+"/"+write.Name]++
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		t.Logf("%6d %s", all[kind], kind)
	}
	// What waits is written together, at most every half second.
	most := 20 + int(took/(500*time.Millisecond))
	for _, resource := range []string{"configmaps", "services"} {
		if n := all["patch "+resource]; n < 1 || n > most {
			t.Errorf("%d writes of %s, want 1 to %d", n, resource, most)
		}
	}
	histogram := map[int]int{}
	for key, n := range perStream {
		histogram[n]++
		if n > 2 {
			t.Errorf("the status of %s was written %d times", key, n)
		}
	}
	t.Logf("writes of a status: number of streams: %v", histogram)
	if len(perStream) != streams {
		t.Errorf("the status of %d streams was written", len(perStream))
	}
}

// writes are what Portcullis has written so far, leases, events and dry runs left out.
func (w *fixture) writes() (ours []controlplane.Write) {
	w.t.Helper()
	all, err := w.Writes()
	must(w, err)
	for _, write := range all {
		if write.User == harness.User && !strings.HasPrefix(write.Resource, "leases.") && !strings.HasPrefix(write.Resource, "events") &&
			!strings.Contains(write.RequestURI, "dryRun=") {
			ours = append(ours, write)
		}
	}
	return ours
}

// settles waits until Portcullis has written nothing for a while.
func (w *fixture) settles(quiet time.Duration) {
	w.t.Helper()
	since, last := time.Now(), len(w.writes())
	w.eventually(fmt.Sprintf("no writes for %v", quiet), func() error {
		if now := len(w.writes()); now != last {
			since, last = time.Now(), now
		}
		return is(time.Since(since) > quiet, true)
	})
}
