package watch

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// workers is how many workers the queues of these tests have.
const workers = 16

// namespaceOf is that of a request, which is a namespace/name here.
func namespaceOf(req string) string {
	namespace, _, _ := strings.Cut(req, "/")
	return namespace
}

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
			l := newLanes(workers, namespaceOf)
			for req := range strings.FieldsSeq(tc.routine) {
				l.mark(req, true)
				l.Push(req)
			}
			for req := range strings.FieldsSeq(tc.happened) {
				l.Push(req)
			}
			var got []string
			for l.Len() > 0 {
				req := l.Pop()
				got = append(got, req)
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

// TestLanesWithoutTurns has what has happened come first, in its order, and then what is routine.
func TestLanesWithoutTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("", BackOff[string](), newLanes[string](1, nil))
		defer q.ShutDown()
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, strings.Fields("a/0 b/0 c/0")...)
		q.AddWithOpts(priorityqueue.AddOpts{}, strings.Fields("a/1 a/2 c/0 b/1")...)
		gets(t, q, "a/1 a/2 c/0 b/1 a/0 b/0")
		if len(q.lanes.all.within) > 0 {
			t.Errorf("it still remembers %v", q.lanes.all.within)
		}
	})
}

// TestWorkersWithoutTurns has one namespace, and what is routine, keep every worker busy that there is. Then one of them is free for
// what has happened, which waits for what had happened before and for nothing routine.
func TestWorkersWithoutTurns(t *testing.T) {
	for name, tc := range map[string]struct {
		options priorityqueue.AddOpts
		waiting int
	}{
		"what has happened": {priorityqueue.AddOpts{}, 1},
		"what is routine":   {priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue("", BackOff[string](), newLanes[string](workers, nil))
				defer q.ShutDown()
				for i := range workers + 1 {
					q.AddWithOpts(tc.options, fmt.Sprintf("a/%d", i))
				}
				taken, free := work(q, "a")
				synctest.Wait()
				if got := taken.Load(); got != workers {
					t.Errorf("%d requests were taken up, want %d", got, workers)
				}
				q.Add("b/0")
				free <- struct{}{}
				synctest.Wait()
				if got := q.lanes.all.ready.Len(); got != tc.waiting {
					t.Errorf("%d requests wait of what has happened, want %d", got, tc.waiting)
				}
				close(free)
				synctest.Wait()
				if got := taken.Load(); got != workers+2 {
					t.Errorf("%d requests were taken up in the end, want %d", got, workers+2)
				}
			})
		})
	}
}

// queued is a queue for a test, in which time stands still while nobody waits for it.
func queued(t *testing.T, play func(t *testing.T, q queue[string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("", BackOff[string](), newLanes(workers, namespaceOf))
		defer q.ShutDown()
		play(t, q)
	})
}

// gets takes requests up, and lets them be done.
func gets(t *testing.T, q queue[string], want string) {
	t.Helper()
	for key := range strings.FieldsSeq(want) {
		req, _, shutdown := q.GetWithPriority()
		if shutdown || req != key {
			t.Fatalf("got %s, want %s", req, key)
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
		"what has happened": {priorityqueue.AddOpts{}, workers / 2},
		"what is routine":   {priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, workers / 4},
	} {
		t.Run(name, func(t *testing.T) {
			queued(t, func(t *testing.T, q queue[string]) {
				for i := range workers {
					q.AddWithOpts(tc.options, fmt.Sprintf("a/%d", i))
				}
				taken, free := work(q, "a")
				has := func(when string, want int32) {
					t.Helper()
					synctest.Wait()
					if got := taken.Load(); got != want {
						t.Errorf("%s: %d requests were taken up, want %d", when, got, want)
					}
				}
				has("the namespace is alone", tc.most)
				q.AddWithOpts(tc.options, strings.Fields("b/1")...)
				has("its neighbor comes", tc.most+1)
				free <- struct{}{}
				has("one of its workers is free", tc.most+2)
				close(free)
				has("all are", workers+1)
				if len(q.lanes.all.within) > 0 {
					t.Errorf("it still remembers %v", q.lanes.all.within)
				}
			})
		})
	}
}

// work takes requests up by all workers. One of the namespace takes until something is sent to free, or that is closed.
func work(q queue[string], namespace string) (taken *atomic.Int32, free chan struct{}) {
	taken, free = &atomic.Int32{}, make(chan struct{})
	for range workers {
		go func() {
			for {
				req, _, shutdown := q.GetWithPriority()
				if shutdown {
					return
				}
				taken.Add(1)
				if namespaceOf(req) == namespace {
					<-free
				}
				q.Done(req)
			}
		}()
	}
	return taken, free
}

func TestAddedAgainWhileInProgress(t *testing.T) {
	queued(t, func(t *testing.T, q queue[string]) {
		q.AddWithOpts(priorityqueue.AddOpts{}, strings.Fields("a/1 a/2 a/2 b/1")...)
		first, _, _ := q.GetWithPriority()
		q.Add(first)
		q.Add(first)
		q.Done(first)
		gets(t, q, "b/1 a/2 a/1")
	})
}

// TestNeighborOfRetries has many requests of a namespace become due at once, those that failed and those that had to wait.
func TestNeighborOfRetries(t *testing.T) {
	queued(t, func(t *testing.T, q queue[string]) {
		q.AddWithOpts(priorityqueue.AddOpts{After: time.Minute}, strings.Fields("a/1 a/2 a/3")...)
		q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, strings.Fields("c/1 c/2 c/3")...)
		synctest.Wait()
		if q.Len() > 0 {
			t.Error("something is due at once")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		q.Add("b/1")
		var got []string
		for range 3 {
			req, _, _ := q.GetWithPriority()
			got = append(got, namespaceOf(req))
		}
		slices.Sort(got)
		if !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("the first three are of %q", got)
		}
	})
}

// TestRoutineRequests adds requests as controller-runtime does for what was there at the start, and again after a failure; something
// happens to one of them.
func TestRoutineRequests(t *testing.T) {
	queued(t, func(t *testing.T, q queue[string]) {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, strings.Fields("a/0 b/0 c/0")...)
		first, priority, _ := q.GetWithPriority()
		q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: &priority}, first)
		q.Done(first)
		time.Sleep(time.Minute)
		synctest.Wait()
		q.AddWithOpts(priorityqueue.AddOpts{Priority: new(0)}, strings.Fields("b/0 a/1 b/1")...)
		gets(t, q, "c/0 b/0 a/1 a/0 b/1")
	})
}

// TestEventDuringRoutine has something happen to a request that is routine, while a worker has it, or while it waits to be looked at
// again. It is ahead of all but one of what is routine, also if the look is to be repeated.
func TestEventDuringRoutine(t *testing.T) {
	routine := priorityqueue.AddOpts{Priority: new(handler.LowPriority)}
	again := priorityqueue.AddOpts{Priority: routine.Priority, After: time.Minute}
	for name, happens := range map[string]func(q queue[string]){
		"while a worker has it": func(q queue[string]) {
			q.AddWithOpts(again, "a/0")
			q.Add("a/0")
		},
		"while a worker has it, which fails for that": func(q queue[string]) {
			q.Add("a/0")
			q.AddWithOpts(again, "a/0")
		},
		"while a worker has it, and it is found anew": func(q queue[string]) {
			q.Add("a/0")
			q.AddWithOpts(routine, "a/0")
		},
		"and it is looked at later": func(q queue[string]) {
			q.AddWithOpts(again, "a/0")
			q.AddAfter("a/0", time.Second)
		},
		"and it is looked at when it may be": func(q queue[string]) {
			q.AddWithOpts(again, "a/0")
			q.AddRateLimited("a/0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			queued(t, func(t *testing.T, q queue[string]) {
				q.AddWithOpts(routine, strings.Fields("a/0 b/0 c/0")...)
				first, _, _ := q.GetWithPriority()
				happens(q)
				q.Done(first)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				gets(t, q, "b/0 a/0 c/0")
			})
		})
	}
}

// TestLongLookIsTold has a worker look at a request for long: the metrics tell of it, and that it is over, each calmTick, and not before.
func TestLongLookIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("told", BackOff[string](), newLanes(workers, namespaceOf))
		defer q.ShutDown()
		q.Add("a/0")
		req, _, _ := q.GetWithPriority()
		tells := func(seconds int) {
			t.Helper()
			synctest.Wait()
			const name = "workqueue_longest_running_processor_seconds"
			want := fmt.Sprintf(`# HELP %[1]s How many seconds has the longest running processor for workqueue been running.
# TYPE %[1]s gauge
%[1]s{controller="told",name="told"} %[2]d
`, name, seconds)
			if err := testutil.GatherAndCompare(metrics.Registry, strings.NewReader(want), name); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(calmTick + time.Second)
		tells(int(calmTick.Seconds()))
		q.Done(req)
		time.Sleep(calmTick - 2*time.Second)
		tells(int(calmTick.Seconds()))
		time.Sleep(2 * time.Second)
		tells(0)
	})
}

func TestQueueEndsAtOnce(t *testing.T) {
	queued(t, func(t *testing.T, q queue[string]) {
		q.AddWithOpts(priorityqueue.AddOpts{}, strings.Fields("a/1 a/2")...)
		q.ShutDown()
		if _, _, shutdown := q.GetWithPriority(); !shutdown {
			t.Error("it goes on with what is queued")
		}
	})
}
