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
			if r.asks(ctx, 0, "held", r.held) {
				r.taken = append(r.taken, r.held)
				r.givesBack(ctx, 0, "held")
			}
			time.Sleep(100 * time.Millisecond) // others use the cluster, too
		}
	})
	return r
}

// race has both ask for a host. Who gets it keeps it until the other one is answered, too, however long that takes.
func (r *rivals) race(ctx context.Context, host string) {
	var got [2]bool
	var both sync.WaitGroup
	for i := range r.namespaces {
		both.Go(func() { got[i] = r.asks(ctx, i, "site", host) })
	}
	both.Wait()
	if got[0] && got[1] {
		r.taken = append(r.taken, host)
	}
	for i := range got {
		if got[i] {
			r.won[i]++
			r.givesBack(ctx, i, "site")
		}
	}
}

// asks makes a Service that asks for a host, and says whether it was admitted.
func (r *rivals) asks(ctx context.Context, team int, name, host string) (admitted bool) {
	_, err := r.api.do(ctx, http.MethodPost, r.services(team), map[string]any{
		"metadata": map[string]any{"name": name, "annotations": map[string]string{"ingress/http": "class=nginx, host=" + host}},
		"spec":     map[string]any{"ports": []any{map[string]any{"port": 80}}},
	})
	if refused, isRefused := errors.AsType[*refusal](err); !isRefused || refused.Code != http.StatusUnprocessableEntity {
		r.note(ctx, err)
	}
	return err == nil
}

// givesBack deletes the Service.
func (r *rivals) givesBack(ctx context.Context, team int, name string) {
	_, err := r.api.do(ctx, http.MethodDelete, r.services(team)+"/"+name, nil)
	r.note(ctx, err)
}

func (r *rivals) services(team int) string {
	return "/api/v1/namespaces/" + r.namespaces[team] + "/services"
}

// note notes that something failed, unless that is because the race is over.
func (r *rivals) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed = append(r.failed, err)
	}
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
