package reconcilers

import (
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// fairQueue is a queue of requests in which namespaces take turns: whoever has deleted thousands of objects at once keeps nobody
// else waiting for more than a worker to be free.
type fairQueue struct {
	claimQueue
}

var _ priorityqueue.PriorityQueue[claimRequest] = fairQueue{}

// newFairQueue makes the queue of a controller.
func newFairQueue(name string, limiter workqueue.TypedRateLimiter[claimRequest]) claimQueue {
	ready := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[claimRequest]{Name: name, Queue: newLanes()})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[claimRequest]{Name: name, Queue: ready})
	return fairQueue{workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[claimRequest]{Name: name, DelayingQueue: delayed})}
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

// lane is where a request waits for its turn: with those of its holder's namespace, or, if it is routine, with all that are.
func (r claimRequest) lane() string {
	if r.Routine {
		return ""
	}
	return r.Holder.Namespace
}

// lanes are the requests that are ready, those of each lane in their order. Each lane in turn is one request ahead, so that
// every request is taken up in the end. The queue around it has a request here once at most, and locks it.
type lanes struct {
	ready map[string]workqueue.Queue[claimRequest]
	// turns are the lanes that have a request, the next one first.
	turns workqueue.Queue[string]
	total int
}

var _ workqueue.Queue[claimRequest] = &lanes{}

func newLanes() *lanes {
	return &lanes{ready: map[string]workqueue.Queue[claimRequest]{}, turns: workqueue.DefaultQueue[string]()}
}

// Touch implements workqueue.Queue.
func (l *lanes) Touch(claimRequest) {}

// Push implements workqueue.Queue.
func (l *lanes) Push(req claimRequest) {
	name := req.lane()
	lane := l.ready[name]
	if lane == nil {
		lane = workqueue.DefaultQueue[claimRequest]()
		l.ready[name] = lane
		l.turns.Push(name)
	}
	lane.Push(req)
	l.total++
}

// Len implements workqueue.Queue.
func (l *lanes) Len() int { return l.total }

// Pop implements workqueue.Queue.
func (l *lanes) Pop() claimRequest {
	name := l.turns.Pop()
	lane := l.ready[name]
	req := lane.Pop()
	l.total--
	if lane.Len() > 0 {
		l.turns.Push(name)
	} else {
		delete(l.ready, name)
	}
	return req
}
