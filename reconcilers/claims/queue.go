package claims

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// fairQueue is a queue of requests in which namespaces take turns, and none has all workers: whoever has deleted thousands of
// objects at once keeps nobody else waiting, also when another replica leads and finds their claims.
type fairQueue struct {
	claimQueue
	lanes *lanes
}

var _ priorityqueue.PriorityQueue[claimRequest] = fairQueue{}

// newFairQueue makes the queue of a controller with so many workers.
func newFairQueue(workers int, name string, limiter workqueue.TypedRateLimiter[claimRequest]) fairQueue {
	l := newLanes(workers)
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

// laneName names one of the lanes that take turns with each other: that of a namespace, "" for holders of none, or that of all
// that is routine.
type laneName struct {
	namespace string
	routine   bool
}

// lane is where a request waits for its turn: with those of its holder's namespace. If it is routine, those lanes are within the
// one of all that is.
func (r claimRequest) lane() []laneName {
	of := laneName{namespace: r.Holder.Namespace}
	if r.Routine {
		return []laneName{{routine: true}, of}
	}
	return []laneName{of}
}

// lanes are the requests that are ready, those of each lane in their order. Each lane in turn is one request ahead, so that
// every request is taken up in the end. The queue around it has a request here once at most.
type lanes struct {
	mu  sync.Mutex
	all *lane
}

// lane has either requests, or lanes that take turns. It is known while it has a request or a worker.
type lane struct {
	ready  workqueue.Queue[claimRequest]
	within map[laneName]*lane
	// turns are the lanes within that have a request and may have another worker, the next one first.
	turns   workqueue.Queue[laneName]
	workers int
	// most is how many workers it may have.
	most int
	// waits: it is one of the turns.
	waits bool
}

var _ workqueue.Queue[claimRequest] = &lanes{}

// newLanes are those of so many workers, at least four. A lane may have half of them; one within another, half of that one's.
func newLanes(workers int) *lanes { return &lanes{all: newLane(workers)} }

func newLane(most int) *lane {
	return &lane{
		ready: workqueue.DefaultQueue[claimRequest](), within: map[laneName]*lane{}, turns: workqueue.DefaultQueue[laneName](), most: most,
	}
}

// Touch implements workqueue.Queue.
func (l *lanes) Touch(claimRequest) {}

// Push implements workqueue.Queue.
func (l *lanes) Push(req claimRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.push(req, req.lane())
}

// Len implements workqueue.Queue: it is 0 when no request may be taken up.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.len()
}

// Pop implements workqueue.Queue.
func (l *lanes) Pop() claimRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.pop()
}

// done takes note that a worker has ended with a request.
func (l *lanes) done(req claimRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.done(req.lane())
}

// push adds a request, in the lane that the names lead to.
func (l *lane) push(req claimRequest, names []laneName) {
	if len(names) == 0 {
		l.ready.Push(req)
		return
	}
	name := names[0]
	if l.within[name] == nil {
		l.within[name] = newLane(l.most / 2)
	}
	l.within[name].push(req, names[1:])
	l.settle(name)
}

// len is how many requests may be taken up, at least one if there is any.
func (l *lane) len() int { return l.ready.Len() + l.turns.Len() }

// pop takes a request up.
func (l *lane) pop() claimRequest {
	l.workers++
	if l.turns.Len() == 0 {
		return l.ready.Pop()
	}
	name := l.turns.Pop()
	next := l.within[name]
	next.waits = false
	req := next.pop()
	l.settle(name)
	return req
}

// done takes note that a worker has ended with a request of the lane that the names lead to.
func (l *lane) done(names []laneName) {
	l.workers--
	if len(names) > 0 {
		l.within[names[0]].done(names[1:])
		l.settle(names[0])
	}
}

// settle has a lane within wait for its turn, or forgets it.
func (l *lane) settle(name laneName) {
	switch in := l.within[name]; {
	case in.len() == 0 && in.workers == 0:
		delete(l.within, name)
	case in.len() > 0 && in.workers < in.most && !in.waits:
		in.waits = true
		l.turns.Push(name)
	}
}
