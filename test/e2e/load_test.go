package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// outcome is what came of one create.
type outcome struct {
	name string
	port int
	at   time.Time
	took time.Duration
	err  error
}

// conflict says whether the answer was a no that names the holder, as one of two rivals has to get.
func (o outcome) conflict() bool {
	var refused *refusal
	return errors.As(o.err, &refused) && refused.Code == http.StatusUnprocessableEntity && strings.Contains(refused.Message, "held ")
}

// users create StreamIngresses all the time, 20 a second: two each tenth of a second, which want the same port. Where that is more than a
// busy machine can take, they come less often: not while there are so many who wait for an answer.
type users struct {
	edge
	api      *api
	stop     func()
	mu       sync.Mutex
	outcomes []outcome
}

const (
	// pace is how often two rivals come.
	pace = 100 * time.Millisecond
	// waiting is how many wait for an answer at the same time, at most. A namespace may have a hundred that are not stored yet: with those of a
	// burst there are fewer.
	waiting = 30
	// firstPort is the one that the first rivals want; each pair wants the next.
	firstPort = 1024
)

// busy lets users create StreamIngresses until stop.
func busy(t *testing.T, name string) *users {
	t.Helper()
	u := &users{edge: newEdge(t, name), api: newAPI(t)}
	ctx, cancel := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	requests.Go(func() {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		places := make(chan struct{}, waiting)
		for port := firstPort; ctx.Err() == nil; port++ {
			for _, rival := range []string{"a", "b"} {
				places <- struct{}{}
				requests.Go(func() {
					defer func() { <-places }()
					u.create(t.Context(), fmt.Sprintf("%s-%d", rival, port), port)
				})
			}
			<-ticker.C
		}
	})
	u.stop = func() {
		cancel()
		requests.Wait()
	}
	t.Cleanup(u.stop)
	return u
}

// burst lets many others come at once, with a port for each from the first on. The API server opens a connection for
// each of them, and keeps some.
func (u *users) burst(t *testing.T, first, many int) {
	t.Helper()
	var requests sync.WaitGroup
	for port := first; port < first+many; port++ {
		requests.Go(func() { u.create(t.Context(), fmt.Sprintf("burst-%d", port), port) })
	}
	requests.Wait()
}

// calm waits until the latest answers came fast, for what is told late once the API server waits no longer than it is shipped to. What else
// the machine does may end; after a while it goes on in any case.
func (u *users) calm(t *testing.T) {
	t.Helper()
	const latest, fast = 100, time.Second
	slow := func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return slices.ContainsFunc(u.outcomes[max(0, len(u.outcomes)-latest):], func(o outcome) bool { return o.took > fast })
	}
	for deadline := time.Now().Add(patience); slow(); time.Sleep(pace) {
		if time.Now().After(deadline) {
			t.Logf("the machine is busy: some of the latest %d answers took more than %s", latest, fast)
			return
		}
	}
}

// create asks once.
func (u *users) create(ctx context.Context, name string, port int) {
	o := outcome{name: name, port: port, at: time.Now()}
	_, o.err = u.api.do(ctx, http.MethodPost, "/apis/nginx-stream.jeffthecoder.xyz/v1beta1/namespaces/"+u.namespace+"/streamingresses", map[string]any{
		"apiVersion": "nginx-stream.jeffthecoder.xyz/v1beta1", "kind": "StreamIngress", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"className": u.class, "listen": port, "upstream": map[string]any{"service": "web", "port": 80}},
	})
	o.took = time.Since(o.at)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.outcomes = append(u.outcomes, o)
}

// failures are the outcomes that are neither a yes nor a no.
func (u *users) failures() []outcome {
	return slices.DeleteFunc(slices.Clone(u.outcomes), func(o outcome) bool { return o.err == nil || o.conflict() })
}

// report tells what came of it.
func (u *users) report(t *testing.T) {
	t.Helper()
	var took []time.Duration
	granted, failed := 0, u.failures()
	for _, o := range u.outcomes {
		took = append(took, o.took)
		if o.err == nil {
			granted++
		}
	}
	slices.Sort(took)
	t.Logf("%d creates: %d granted, %d failed; median %s, 99 %% within %s, slowest %s", len(took), granted, len(failed),
		took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
}

// enough is how many failures are shown: they resemble each other.
const enough = 20

// noneFailed fails the test when a request got neither a yes nor a no.
func (u *users) noneFailed(t *testing.T) {
	t.Helper()
	for i, o := range u.failures() {
		if i == enough {
			t.Error("and so on")
			return
		}
		t.Errorf("%s at %s, after %s: %v", o.name, o.at.Format("15:04:05.000"), o.took.Round(time.Millisecond), o.err)
	}
}

// keptTheirWord waits until everything that is stored is programmed, and nothing else. No port was given twice, and
// nothing that was granted is lost.
func (u *users) keptTheirWord(t *testing.T) {
	t.Helper()
	granted := map[int]string{}
	failed := map[int]bool{}
	for _, o := range u.outcomes {
		switch former := granted[o.port]; {
		case o.err == nil && former != "":
			t.Errorf("TCP/%d was given to both %s and %s", o.port, former, o.name)
		case o.err == nil:
			granted[o.port] = o.name
		case !o.conflict():
			failed[o.port] = true
		}
	}
	for _, o := range u.outcomes {
		if granted[o.port] == "" && !failed[o.port] {
			t.Errorf("TCP/%d was given to neither: %s was told %v", o.port, o.name, o.err)
		}
	}
	entries := map[int]string{}
	for port, holder := range u.programmed(t) {
		entries[port] = u.namespace + "/web:80"
		if want := granted[port]; want != "" && want != holder {
			t.Errorf("TCP/%d was given to %s, and is held by %s", port, want, holder)
		}
		delete(granted, port)
	}
	for port, name := range granted {
		t.Errorf("%s is lost, which was given TCP/%d", name, port)
	}
	u.leadsTo(t, entries)
}
