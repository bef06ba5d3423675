package reconcilers

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// fairQueue is a queue of requests in which namespaces take turns, and none has all workers: whoever has deleted thousands of
// objects at once keeps nobody else waiting.
type fairQueue struct {
	claimQueue
	lanes *lanes
}

var _ priorityqueue.PriorityQueue[claimRequest] = fairQueue{}

// newFairQueue makes the queue of a controller.
func newFairQueue(name string, limiter workqueue.TypedRateLimiter[claimRequest]) claimQueue {
	l := newLanes()
	ready := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[claimRequest]{Name: name, Queue: l})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[claimRequest]{Name: name, Queue: ready})
	return fairQueue{workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[claimRequest]{Name: name, DelayingQueue: delayed}), l}
}

// AddWithOpts implements priorityqueue.PriorityQueue. controller-runtime gives a priority below zero to what was there at the
// start, and to what the cache tells of again.
func (q fairQueue) AddWithOpts(o priorityqueue.AddOpts, requests ...claimRequest) {
	for _, req := range requests {
		req.Routine = req.Routine || ptr.Deref(o.Priority, 0) < 0
		switch {
		case o.RateLimited:
			q.AddRateLimited(req)
		case o.After > 0:
			q.AddAfter(req, o.After)
		default:
			q.Add(req)
		}
	}
}

// GetWithPriority implements priorityqueue.PriorityQueue. What is queued when the queue is shut down is left to the next leader.
func (q fairQueue) GetWithPriority() (req claimRequest, priority int, shutdown bool) {
	req, shutdown = q.Get()
	return req, 0, shutdown || q.ShuttingDown()
}

// Done implements workqueue.TypedInterface. A worker asks for its next request after it. So nobody else has to be woken for what
// its lane may have taken up now.
func (q fairQueue) Done(req claimRequest) {
	q.lanes.done(req)
	q.claimQueue.Done(req)
}

// lane is where a request waits for its turn: with those of its holder's namespace, or, if it is routine, with all that are.
func (r claimRequest) lane() string {
	if r.Routine {
		return ""
	}
	return r.Holder.Namespace
}

const (
	// releasers is how many workers there are.
	releasers = 16
	// releasersOfOne is how many of them a lane may have.
	releasersOfOne = releasers / 2
)

// lanes are the requests that are ready, those of each lane in their order. Each lane in turn is one request ahead, so that
// every request is taken up in the end. The queue around it has a request here once at most.
type lanes struct {
	mu  sync.Mutex
	all map[string]*lane
	// turns are the lanes that have a request and may have another worker, the next one first.
	turns workqueue.Queue[string]
}

// lane is known while it has a request or a worker.
type lane struct {
	ready   workqueue.Queue[claimRequest]
	workers int
	// waits: it is one of the turns.
	waits bool
}

var _ workqueue.Queue[claimRequest] = &lanes{}

func newLanes() *lanes {
	return &lanes{all: map[string]*lane{}, turns: workqueue.DefaultQueue[string]()}
}

// Touch implements workqueue.Queue.
func (l *lanes) Touch(claimRequest) {}

// Push implements workqueue.Queue.
func (l *lanes) Push(req claimRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := req.lane()
	if l.all[name] == nil {
		l.all[name] = &lane{ready: workqueue.DefaultQueue[claimRequest]()}
	}
	l.all[name].ready.Push(req)
	l.settle(name)
}

// Len implements workqueue.Queue: it is 0 when no request may be taken up.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns.Len()
}

// Pop implements workqueue.Queue.
func (l *lanes) Pop() claimRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := l.turns.Pop()
	in := l.all[name]
	in.waits = false
	in.workers++
	req := in.ready.Pop()
	l.settle(name)
	return req
}

// done takes note that a worker has ended with a request.
func (l *lanes) done(req claimRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[req.lane()].workers--
	l.settle(req.lane())
}

// settle has a lane wait for its turn, or forgets it.
func (l *lanes) settle(name string) {
	switch in := l.all[name]; {
	case in.ready.Len() == 0 && in.workers == 0:
		delete(l.all, name)
	case in.ready.Len() > 0 && in.workers < releasersOfOne && !in.waits:
		in.waits = true
		l.turns.Push(name)
	}
}
