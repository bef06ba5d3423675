package watch

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Fairly are the options of a controller with so many workers, at which namespaces take turns. namespace says whose turn a request
// waits for, "" for nobody's: it is asked when the request is ready, and must not wait for anything. There are at least four workers.
func Fairly[request comparable](workers int, namespace func(request) string) controller.TypedOptions[request] {
	return controller.TypedOptions[request]{
		MaxConcurrentReconciles: workers, RateLimiter: BackOff[request](),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request] {
			return newQueue(name, limiter, newLanes(workers, namespace))
		},
	}
}

// Orderly are the options of a controller with so many workers, at which what has happened comes before all that is routine, as in
// controller-runtime's own queue. That one wakes the process twice a second: see calmTick.
func Orderly[request comparable](workers int) controller.TypedOptions[request] {
	return Fairly[request](workers, nil)
}

// queue is a queue of requests that are taken up in the order of lanes. Where namespaces take turns, none has all workers: whoever has
// made or deleted thousands of objects at once keeps nobody else waiting, also when another replica leads and finds them.
type queue[request comparable] struct {
	workqueue.TypedRateLimitingInterface[request]
	lanes *lanes[request]
}

var _ priorityqueue.PriorityQueue[string] = queue[string]{}

func newQueue[request comparable](name string, limiter workqueue.TypedRateLimiter[request], l *lanes[request]) queue[request] {
	ready := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[request]{Name: name, Queue: l, Clock: calm{}})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[request]{Name: name, Queue: ready})
	return queue[request]{workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[request]{Name: name, DelayingQueue: delayed}), l}
}

// calmTick is how often a queue tells the metrics for how long its requests have been looked at. client-go's queues and those of
// controller-runtime do so twice a second, which for some twenty controllers is most of what wakes a process at rest. Prometheus reads
// less often than either.
const calmTick = 5 * time.Second

// calm is a clock whose tickers take at least a calmTick.
type calm struct{ clock.RealClock }

// NewTicker implements clock.WithTicker.
func (c calm) NewTicker(d time.Duration) clock.Ticker { return c.RealClock.NewTicker(max(d, calmTick)) }

// AddWithOpts implements priorityqueue.PriorityQueue. controller-runtime gives a priority below zero to what was there at the
// start, and to what the cache tells of again. Such a request is routine, until one for the same comes that is not.
func (q queue[request]) AddWithOpts(o priorityqueue.AddOpts, requests ...request) {
	for _, req := range requests {
		q.lanes.mark(req, ptr.Deref(o.Priority, 0) < 0)
		switch {
		case o.RateLimited:
			q.TypedRateLimitingInterface.AddRateLimited(req)
		case o.After > 0:
			q.TypedRateLimitingInterface.AddAfter(req, o.After)
		default:
			q.TypedRateLimitingInterface.Add(req)
		}
	}
}

// Add implements workqueue.TypedInterface: something has happened.
func (q queue[request]) Add(req request) { q.AddWithOpts(priorityqueue.AddOpts{}, req) }

// AddAfter implements workqueue.TypedDelayingInterface: something has happened, and is looked at later.
func (q queue[request]) AddAfter(req request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, req)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface: something has happened, and is looked at once more.
func (q queue[request]) AddRateLimited(req request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, req)
}

// GetWithPriority implements priorityqueue.PriorityQueue. What is queued when the queue is shut down is left to the next leader.
func (q queue[request]) GetWithPriority() (req request, priority int, shutdown bool) {
	req, shutdown = q.Get()
	if q.lanes.hasRoutine(req) {
		priority = handler.LowPriority // with which it is added again when it has failed
	}
	return req, priority, shutdown || q.ShuttingDown()
}

// Done implements workqueue.TypedInterface. A worker asks for its next request after it. So nobody else has to be woken for what
// its lane may have taken up now.
func (q queue[request]) Done(req request) {
	q.lanes.done(req)
	q.TypedRateLimitingInterface.Done(req)
}

// lanes are the requests that are ready, those of each lane in their order. Each lane in turn is one request ahead, so that
// every request is taken up in the end; where namespaces take no turns, what is routine when nothing else is ready. The queue around it
// has a request here once at most.
type lanes[request comparable] struct {
	// namespace is that of a request, nil where namespaces take no turns.
	namespace func(request) string

	mu  sync.Mutex
	all *lane
	// placed are the requests that wait here, or that a worker has.
	placed map[request]place
	// routine says of those that are to come here whether nothing is known to have happened.
	routine map[request]bool
}

// place is where a request waits for its turn, or had it: the way to its lane, and its element there.
type place struct {
	way     []laneName
	element *list.Element
}

func (p place) isRoutine() bool { return len(p.way) > 0 && p.way[0].routine }

// laneName names one of the lanes that take turns with each other: that of a namespace, or that of all that is routine, within which
// namespaces have lanes of their own.
type laneName struct {
	namespace string
	routine   bool
}

var _ workqueue.Queue[string] = &lanes[string]{}

// newLanes are those of so many workers. A lane may have half of them; one within another, half of that one's. Where namespaces take no
// turns, what is routine is the only lane, and may have them all.
func newLanes[request comparable](workers int, namespace func(request) string) *lanes[request] {
	if namespace == nil {
		workers *= 2 // of which a lane may have half
	}
	return &lanes[request]{
		namespace: namespace, all: newLane(workers), placed: map[request]place{}, routine: map[request]bool{},
	}
}

// mark notes whether the request that comes next is routine. It isn't where something has happened since it came last, as while a worker
// had it: what failed for that is added again as what it was.
func (l *lanes[request]) mark(req request, routine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, known := l.placed[req]
	if was, marked := l.routine[req]; marked {
		routine = routine && was
	} else if known {
		routine = routine && at.isRoutine()
	}
	l.routine[req] = routine
}

// Push implements workqueue.Queue.
func (l *lanes[request]) Push(req request) {
	var way []laneName
	if l.namespace != nil {
		way = []laneName{{namespace: l.namespace(req)}}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.routine[req] {
		way = append([]laneName{{routine: true}}, way...)
	}
	delete(l.routine, req)
	l.placed[req] = place{way, l.all.push(req, way)}
}

// Touch implements workqueue.Queue: a request that waits is asked for again. It is no longer routine if it is not now.
func (l *lanes[request]) Touch(req request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.placed[req]
	if at.isRoutine() && !l.routine[req] {
		l.all.remove(at.element, at.way)
		way := at.way[1:]
		l.placed[req] = place{way, l.all.push(req, way)}
	}
	delete(l.routine, req)
}

// Len implements workqueue.Queue: it is 0 when no request may be taken up.
func (l *lanes[request]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.len()
}

// Pop implements workqueue.Queue.
func (l *lanes[request]) Pop() request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.pop().(request)
}

// hasRoutine says whether a request, which a worker has, is routine.
func (l *lanes[request]) hasRoutine(req request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.placed[req].isRoutine()
}

// done takes note that a worker has ended with a request.
func (l *lanes[request]) done(req request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.done(l.placed[req].way)
	delete(l.placed, req)
}

// lane has requests, and lanes that take turns when it has none. It is known while it has a request or a worker.
type lane struct {
	ready  *list.List
	within map[laneName]*lane
	// turns are the lanes within that have a request and may have another worker, the next one first.
	turns   *list.List
	workers int
	// most is how many workers it may have.
	most int
	// waits is its element of the turns, nil if it is none of them.
	waits *list.Element
}

func newLane(most int) *lane {
	return &lane{ready: list.New(), within: map[laneName]*lane{}, turns: list.New(), most: most}
}

// push adds a request, in the lane that the names lead to.
func (l *lane) push(req any, way []laneName) *list.Element {
	if len(way) == 0 {
		return l.ready.PushBack(req)
	}
	name := way[0]
	if l.within[name] == nil {
		l.within[name] = newLane(l.most / 2)
	}
	defer l.settle(name)
	return l.within[name].push(req, way[1:])
}

// remove takes a request out of the lane that the names lead to.
func (l *lane) remove(element *list.Element, way []laneName) {
	if len(way) == 0 {
		l.ready.Remove(element)
		return
	}
	l.within[way[0]].remove(element, way[1:])
	l.settle(way[0])
}

// len is how many requests may be taken up, at least one if there is any.
func (l *lane) len() int { return l.ready.Len() + l.turns.Len() }

// pop takes a request up.
func (l *lane) pop() any {
	l.workers++
	if l.ready.Len() > 0 {
		return l.ready.Remove(l.ready.Front())
	}
	name := l.turns.Front().Value.(laneName)
	next := l.within[name]
	l.turns.Remove(next.waits)
	next.waits = nil
	defer l.settle(name)
	return next.pop()
}

// done takes note that a worker has ended with a request of the lane that the names lead to.
func (l *lane) done(way []laneName) {
	l.workers--
	if len(way) > 0 {
		l.within[way[0]].done(way[1:])
		l.settle(way[0])
	}
}

// settle has a lane within wait for its turn, or not, or forgets it.
func (l *lane) settle(name laneName) {
	in := l.within[name]
	switch may := in.len() > 0 && in.workers < in.most; {
	case may && in.waits == nil:
		in.waits = l.turns.PushBack(name)
	case !may && in.waits != nil:
		l.turns.Remove(in.waits)
		in.waits = nil
	}
	if in.len() == 0 && in.workers == 0 {
		delete(l.within, name)
	}
}
