package claim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// The model is a small world around the real Ledger: an API server that stores claims and objects which ask for points, two
// replicas whose clocks differ and whose caches lag, and requests that are interleaved at every single read and write. A
// request can be abandoned between the promise and the storing, can be stored late, can lose against another and try
// again. An object that is deleted can live on behind a finalizer, and be changed. A write can fail, and may have taken
// effect all the same. One seed makes one history.

const (
	// requestLife is how long an API request can live.
	requestLife = time.Minute
	// maxSkew is how far a clock can be off.
	maxSkew = 30 * time.Second
)

// world is one history.
type world struct {
	variant
	rng      *rand.Rand
	now      time.Time
	claims   Fake
	stored   map[Holder]*object
	replicas [2]*replica
	versions int64
	// uids are those of all objects that were ever stored, gone those that were deleted since.
	uids []types.UID
	gone map[Holder][]types.UID

	// looked at by the reconciler are these now; it looks at an object with one worker at a time.
	looked map[Holder]bool
	// reliable: no write fails any more.
	reliable bool
	running  []*process
	current  *process
	trace    []string
	verbose  bool
}

// object is what asks for a point, as the API server stores it.
type object struct {
	uid                 types.UID
	generation, version int64
	at                  Coordinate
	// admitted says that this point was promised to it, or claimed for it; an object that got past admission has no promise.
	admitted bool
	// listed is the point in its status, which is open to it. It is the point that it came from for a while after it has moved.
	listed Coordinate
	// deleted says that it is being deleted, and lives on behind a finalizer.
	deleted bool
}

// has are the points that it was told yes for, and those that are open to it.
func (o *object) has() []Coordinate {
	var points []Coordinate
	if o.admitted {
		points = append(points, o.at)
	}
	if !o.listed.IsZero() && (!o.admitted || o.listed != o.at) {
		points = append(points, o.listed)
	}
	return points
}

// replica is one process that answers admission requests. Its caches show what was there when they were last synced.
type replica struct {
	skew   time.Duration
	claims map[string]*v1beta1.EdgeClaim
	uids   int
}

// process is something that happens step by step.
type process struct {
	name  string
	slow  bool
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

var errStopped = errors.New("the history has ended")

func newWorld(v variant, seed uint64) *world {
	w := &world{
		variant: v, rng: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1_800_000_000, 0),
		stored: map[Holder]*object{}, gone: map[Holder][]types.UID{}, looked: map[Holder]bool{},
	}
	w.claims.Before = func(string) { w.pause() }
	for i := range w.replicas {
		w.replicas[i] = &replica{skew: time.Duration(w.rng.Int64N(int64(2*maxSkew)+1)) - maxSkew}
	}
	if w.rng.IntN(2) == 0 { // the worst case, often
		w.replicas[0].skew, w.replicas[1].skew = -maxSkew, maxSkew
	}
	return w
}

// run plays a history to its end. It returns what went wrong, empty for nothing.
func (w *world) run() string {
	defer func() {
		for _, p := range w.running {
			p.stop()
		}
	}()
	script := w.script()
	for len(script) > 0 || len(w.running) > 0 {
		switch n := w.rng.IntN(100); {
		case n < 5:
			w.now = w.now.Add([]time.Duration{time.Second, time.Second, 10 * time.Second, requestLife - time.Second}[w.rng.IntN(4)])
		case n < 12:
			w.sync(w.replicas[w.rng.IntN(2)])
		case n < 40 && len(script) > 0:
			script[0](w.replicas[w.rng.IntN(2)])
			script = script[1:]
		case len(w.running) > 0:
			if i := w.next(); !w.running[i].slow || w.rng.IntN(6) == 0 {
				w.step(i)
			}
		}
		if wrong := w.wrong(); wrong != "" {
			return wrong
		}
	}
	return w.orphans()
}

// next picks a process to go on. Slow ones are overtaken by many others.
func (w *world) next() int {
	i := w.rng.IntN(len(w.running))
	for range 4 {
		if !w.running[i].slow {
			break
		}
		i = w.rng.IntN(len(w.running))
	}
	return i
}

// wrong checks what must be true at every moment.
func (w *world) wrong() string {
	yes := map[Coordinate]Holder{}
	for holder, o := range w.stored {
		for _, at := range o.has() {
			for other, by := range yes {
				if by != holder && collide(other, at) {
					return fmt.Sprintf("%s: both %s and %s were told yes", at, min(holder.String(), by.String()), max(holder.String(), by.String()))
				}
			}
			if c := w.claims.stored[at.Name()]; !w.twiceOnly && (c == nil || HolderOf(c) != holder) {
				return fmt.Sprintf("%s: %s was told yes and has lost its claim", at, holder)
			}
		}
		for _, at := range o.has() {
			yes[at] = holder
		}
	}
	return ""
}

// collide says whether two points can't be had by two.
func collide(a, b Coordinate) bool {
	return a == b || a.IsAddress() && b.IsAddress() && a.Address() == b.Address() && (a.Port() == 0 || b.Port() == 0) ||
		a.IsListener() && b.IsListener() && a.Port() == b.Port() && (a.ListenerHost() == "") != (b.ListenerHost() == "")
}

// orphans lets every grace pass, has every claim looked at once more, and says which is left without an owner.
func (w *world) orphans() string {
	w.reliable = true
	w.now = w.now.Add(2*DefaultGrace + 2*maxSkew)
	last := func(name string) bool { return name == hostsAt(Listener(edgeGateway, v1beta1.TCP, 1)).Name() }
	names := slices.Sorted(maps.Keys(w.claims.stored))
	for _, name := range append(slices.DeleteFunc(slices.Clone(names), last), slices.DeleteFunc(names, func(n string) bool { return !last(n) })...) {
		w.sync(w.replicas[0])
		w.start("last look at "+name, func() { w.release(w.replicas[0], name, "") })
		for len(w.running) > 0 {
			w.step(0)
		}
		if c := w.claims.stored[name]; c != nil && !w.stateOf(c).Wants {
			return fmt.Sprintf("%s: orphaned, held for %s", name, c.Spec.HeldBy)
		}
	}
	return w.wrong()
}

// start begins a process.
func (w *world) start(name string, body func()) {
	p := &process{name: name, slow: w.rng.IntN(4) == 0}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil && r != any(errStopped) {
				panic(r)
			}
		}()
		p.yield = yield
		body()
	})
	w.running = append(w.running, p)
	w.note("begins: %s", name)
}

// step lets a process run to its next pause.
func (w *world) step(i int) {
	w.current = w.running[i]
	if _, more := w.current.next(); !more {
		w.running = slices.Delete(w.running, i, i+1)
	}
}

// pause lets others go first.
func (w *world) pause() {
	if !w.current.yield(struct{}{}) {
		panic(errStopped)
	}
}

func (w *world) sync(r *replica) {
	r.claims, r.uids = maps.Clone(w.claims.stored), len(w.uids)
}

func (w *world) note(format string, args ...any) {
	if w.verbose {
		name := ""
		if w.current != nil {
			name = w.current.name + ": "
		}
		w.trace = append(w.trace, w.now.UTC().Format("15:04:05 ")+name+fmt.Sprintf(format, args...))
	}
}

// ledger is the real one, on a replica.
func (w *world) ledger(r *replica) *Ledger {
	l := &Ledger{
		Store: unreliable{&w.claims, w}, Grace: DefaultGrace, Clock: skewed{w, r},
		Seen:   func(_ context.Context, by Claimant) bool { return slices.Contains(w.uids[:r.uids], by.UID) },
		Cached: func(name string) *v1beta1.EdgeClaim { return r.claims[name] },
	}
	if w.breaks != nil {
		w.breaks(l)
	}
	return l
}

// skewed is the clock of a replica.
type skewed struct {
	w *world
	r *replica
}

func (c skewed) Now() time.Time                  { return c.w.now.Add(c.r.skew) }
func (c skewed) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
