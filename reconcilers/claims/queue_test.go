package claims

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// about are requests about streams, each by its namespace/name.
func about(keys string) (requests []claimRequest) {
	for key := range strings.FieldsSeq(keys) {
		namespace, name, _ := strings.Cut(key, "/")
		requests = append(requests, claimRequest{Holder: claim.StreamHolder(namespace, name)})
	}
	return requests
}

func keyOf(req claimRequest) string { return req.Holder.Key().String() }

// TestLanes puts requests into lanes, and takes all of them up.
func TestLanes(t *testing.T) {
	for name, tc := range map[string]struct{ routine, happened, want string }{
		"a namespace keeps its order":             {"", "a/1 a/2 a/3", "a/1 a/2 a/3"},
		"a neighbor waits for one request":        {"", "a/1 a/2 a/3 b/1", "a/1 b/1 a/2 a/3"},
		"each has a turn":                         {"", "a/1 a/2 a/3 b/1 b/2 c/1", "a/1 b/1 c/1 a/2 b/2 a/3"},
		"who has more does not wait for ever":     {"", "a/1 a/2 b/1 b/2 b/3 b/4", "a/1 b/1 a/2 b/2 b/3 b/4"},
		"what is routine has one turn for all":    {"a/0 b/0 c/0", "a/1 a/2 b/1", "a/0 a/1 b/1 b/0 a/2 c/0"},
		"what is routine is taken up when it may": {"a/0 b/0", "", "a/0 b/0"},
		"a neighbor's routine waits for one":      {"a/1 a/2 a/3 b/1 b/2", "", "a/1 b/1 a/2 b/2 a/3"},
		"its turn is that of all":                 {"a/1 a/2 b/1", "c/1 c/2 c/3", "a/1 c/1 b/1 c/2 a/2 c/3"},
		"holders of no namespace have theirs":     {"a/1 a/2 /2", "a/3 a/4 /1", "a/1 a/3 /1 /2 a/4 a/2"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLanes(releasers)
			for _, req := range about(tc.routine) {
				req.Routine = true
				l.Push(req)
			}
			for _, req := range about(tc.happened) {
				l.Push(req)
			}
			var got []string
			for l.Len() > 0 {
				req := l.Pop()
				got = append(got, keyOf(req))
				l.done(req)
			}
			if want := strings.Fields(tc.want); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if len(l.all.within) > 0 {
				t.Errorf("it still remembers %v", l.all.within)
			}
		})
	}
}

// queued is a queue for a test, in which time stands still while nobody waits for it.
func queued(t *testing.T, play func(t *testing.T, q fairQueue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := newFairQueue(releasers, "", watch.BackOff[claimRequest]())
		defer q.ShutDown()
		play(t, q)
	})
}

// gets takes requests up, and lets them be done.
func (q fairQueue) gets(t *testing.T, want string) {
	t.Helper()
	for key := range strings.FieldsSeq(want) {
		req, _, shutdown := q.GetWithPriority()
		if got := keyOf(req); shutdown || got != key {
			t.Fatalf("got %s, want %s", got, key)
		}
		q.Done(req)
	}
	synctest.Wait()
	if left := q.Len(); left > 0 {
		t.Fatalf("%d requests are left", left)
	}
}

// TestWorkersOfOneNamespace has a namespace keep every worker busy that it may have, while its neighbor has some left: for what
// has happened, and for what is found after a start.
func TestWorkersOfOneNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		options priorityqueue.AddOpts
		most    int32
	}{
		"what has happened": {priorityqueue.AddOpts{}, releasers / 2},
		"what is routine":   {priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, releasers / 4},
	} {
		t.Run(name, func(t *testing.T) {
			queued(t, func(t *testing.T, q fairQueue) {
				for i := range releasers {
					q.AddWithOpts(tc.options, about(fmt.Sprintf("a/%d", i))...)
				}
				taken, free := q.work("a")
				has := func(when string, want int32) {
					t.Helper()
					synctest.Wait()
					if got := taken.Load(); got != want {
						t.Errorf("%s: %d requests were taken up, want %d", when, got, want)
					}
				}
				has("the namespace is alone", tc.most)
				q.AddWithOpts(tc.options, about("b/1")...)
				has("its neighbor comes", tc.most+1)
				free <- struct{}{}
				has("one of its workers is free", tc.most+2)
				close(free)
				has("all are", releasers+1)
				if len(q.lanes.all.within) > 0 {
					t.Errorf("it still remembers %v", q.lanes.all.within)
				}
			})
		})
	}
}

// work takes requests up by all workers. One of the namespace takes until something is sent to free, or that is closed.
func (q fairQueue) work(namespace string) (taken *atomic.Int32, free chan struct{}) {
	taken, free = &atomic.Int32{}, make(chan struct{})
	for range releasers {
		go func() {
			for {
				req, _, shutdown := q.GetWithPriority()
				if shutdown {
					return
				}
				taken.Add(1)
				if req.Holder.Namespace == namespace {
					<-free
				}
				q.Done(req)
			}
		}()
	}
	return taken, free
}

func TestAddedAgainWhileInProgress(t *testing.T) {
	queued(t, func(t *testing.T, q fairQueue) {
		q.AddWithOpts(priorityqueue.AddOpts{}, about("a/1 a/2 a/2 b/1")...)
		first, _, _ := q.GetWithPriority()
		q.Add(first)
		q.Add(first)
		q.Done(first)
		q.gets(t, "b/1 a/2 a/1")
	})
}

// TestNeighborOfRetries has many requests of a namespace become due at once, those that failed and those that had to wait.
func TestNeighborOfRetries(t *testing.T) {
	queued(t, func(t *testing.T, q fairQueue) {
		q.AddWithOpts(priorityqueue.AddOpts{After: time.Minute}, about("a/1 a/2 a/3")...)
		q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, about("c/1 c/2 c/3")...)
		synctest.Wait()
		if q.Len() > 0 {
			t.Error("something is due at once")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		q.Add(about("b/1")[0])
		var got []string
		for range 3 {
			req, _, _ := q.GetWithPriority()
			got = append(got, req.Holder.Namespace)
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("the first three are of %q", got)
		}
	})
}

// TestRoutineRequests adds requests as controller-runtime does for what was there at the start, and again after a failure.
func TestRoutineRequests(t *testing.T) {
	queued(t, func(t *testing.T, q fairQueue) {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, about("a/0 b/0 c/0")...)
		first, priority, _ := q.GetWithPriority()
		q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: &priority}, first)
		q.Done(first)
		time.Sleep(time.Minute)
		synctest.Wait()
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(0)}, about("a/0 a/1 b/1")...)
		q.gets(t, "b/0 a/0 b/1 c/0 a/1 a/0")
	})
}

func TestQueueEndsAtOnce(t *testing.T) {
	queued(t, func(t *testing.T, q fairQueue) {
		q.AddWithOpts(priorityqueue.AddOpts{}, about("a/1 a/2")...)
		q.ShutDown()
		if _, _, shutdown := q.GetWithPriority(); !shutdown {
			t.Error("it goes on with what is queued")
		}
	})
}
