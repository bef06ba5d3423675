package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// rivals are two teams that ask for the same hosts at the same moment, again and again.
type rivals struct {
	api        *api
	namespaces [2]string
	// held is a host that somebody else has, all the time.
	held string
	stop func()
	// won says how often each of them got a host, taken are the hosts that one got beside another, and failed the answers that were
	// neither a yes nor a no.
	won    [2]int
	rounds int
	taken  []string
	mu     sync.Mutex
	failed []error
}

// rivalsForHosts has two teams ask for hosts by annotated Services until the test ends.
func rivalsForHosts(t *testing.T, held string) *rivals {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &rivals{api: newAPI(t), namespaces: [2]string{newNamespace(t, "one"), newNamespace(t, "other")}, held: held}
	var asking sync.WaitGroup
	r.stop = func() { cancel(); asking.Wait() }
	t.Cleanup(r.stop)
	asking.Go(func() {
		for ; ctx.Err() == nil; r.rounds++ {
			r.race(ctx, fmt.Sprintf("race-%d.example.com", r.rounds))
			if r.ask(ctx, 0, "held", r.held) {
				r.taken = append(r.taken, r.held)
			}
		}
	})
	return r
}

// race has both ask for a host, and takes it away again.
func (r *rivals) race(ctx context.Context, host string) {
	var got [2]bool
	var both sync.WaitGroup
	for i := range r.namespaces {
		both.Go(func() { got[i] = r.ask(ctx, i, "site", host) })
	}
	both.Wait()
	if got[0] && got[1] {
		r.taken = append(r.taken, host)
	}
	for i := range got {
		if got[i] {
			r.won[i]++
		}
	}
}

// ask makes a Service that asks for a host, says whether it was admitted, and takes it away again a moment later.
func (r *rivals) ask(ctx context.Context, team int, name, host string) (admitted bool) {
	path := "/api/v1/namespaces/" + r.namespaces[team] + "/services"
	_, err := r.api.do(ctx, http.MethodPost, path, map[string]any{
		"metadata": map[string]any{"name": name, "annotations": map[string]string{"ingress/http": "class=nginx, host=" + host}},
		"spec":     map[string]any{"ports": []any{map[string]any{"port": 80}}},
	})
	if err == nil {
		time.Sleep(100 * time.Millisecond) // the other one asks meanwhile
		_, err = r.api.do(ctx, http.MethodDelete, path+"/"+name, nil)
		admitted = true
	}
	refused, isRefused := errors.AsType[*refusal](err)
	if ctx.Err() == nil && err != nil && (!isRefused || refused.Code != http.StatusUnprocessableEntity) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed = append(r.failed, err)
	}
	return admitted
}

// neverBothHadOne ends the race, and fails the test when two had one host, or got no answer.
func (r *rivals) neverBothHadOne(t *testing.T) {
	t.Helper()
	r.stop()
	t.Logf("two teams asked for %d hosts, of which they got %d and %d", r.rounds, r.won[0], r.won[1])
	if r.won[0]+r.won[1] < r.rounds/2 || len(r.taken) > 0 {
		t.Errorf("hosts that were given twice: %v", r.taken)
	}
	for i, err := range r.failed {
		if i == enough {
			t.Errorf("and so on, %d in all", len(r.failed))
			return
		}
		t.Error(err)
	}
}
