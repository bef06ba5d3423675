package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// TestRollingUpdate replaces both replicas, twice, while users create streams without a pause. Nobody may
// notice: a replica that is told to end answers what it was asked.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	const users, updates = 8, 2
	h := start(t, raceOptions())
	w := newFixture(t, h)
	e := w.newEdge("rolling", hostNetwork)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	created, failed := make([]int, users), make([]error, users)
	for i, c := range w.creators("rolling", users) {
		group.Go(func() {
			for n := 0; ctx.Err() == nil && failed[i] == nil; n++ {
				s := sti(fmt.Sprintf("%s/rolling-%d", c.namespace, n), of("rolling"), tcp(int32(1000+5000*i+n)))
				failed[i] = c.Create(t.Context(), s)
				created[i] = n
			}
		})
	}
	for range updates {
		for _, old := range h.Replicas[len(h.Replicas)-2:] {
			_, err := h.StartReplica(t.Context())
			must(w, err)
			must(w, old.Retire(t.Context()))
		}
	}
	cancel()
	group.Wait()
	total := 0
	for i, err := range failed {
		if total += created[i]; err != nil {
			t.Errorf("user %d, after %d creates: %v", i, created[i], err)
		}
	}
	t.Logf("%d creates while %d replicas were replaced", total, 2*updates)
	e.isExact()
}
