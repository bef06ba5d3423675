package adversary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// observer looks at the cluster after every change of every object of some kinds. Nothing is sampled: it watches all of them, and
// looks at their changes in the order in which etcd, which all share, has stored them.
//
// A watch brings the changes of one kind in order, and says nothing of how far it is while that kind does not change. So
// a change is looked at when every watch has brought a later one; an object of each kind that is of no use is changed
// where nothing else is.
type observer struct {
	s       *stage
	watcher client.WithWatch
	// violated is closed with the first violation.
	violated chan struct{}

	mu sync.Mutex
	// reached is the version up to which each kind is known.
	reached map[string]uint64
	pending []change
	// last are the changes that were looked at last.
	last    []change
	now     *moment
	done    int
	failure string
	failed  time.Time
}

// told is how many changes a failure tells.
const told = 60

// change is what was stored, or deleted when gone says so.
type change struct {
	version uint64
	seen    time.Time
	gone    bool
	object  client.Object
}

// observe begins to watch, and ends with the test.
func observe(t *testing.T, s *stage) *observer {
	t.Helper()
	watcher, err := client.NewWithWatch(s.Config(), client.Options{Scheme: harness.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	o := &observer{s: s, watcher: watcher, violated: make(chan struct{}), reached: map[string]uint64{}, now: newMoment()}
	for _, b := range beats() {
		s.create(b.object)
	}
	for _, b := range beats() {
		if err := o.follow(t.Context(), b); err != nil {
			t.Fatalf("watching %T: %v", b.list, err)
		}
	}
	go o.beat(t.Context())
	return o
}

// follow notes what there is of a kind now, and everything that happens from then on.
func (o *observer) follow(ctx context.Context, b beat) error {
	if err := o.watcher.List(ctx, b.list); err != nil {
		return err
	}
	kind := kindOf(b.object)
	if err := meta.EachListItem(b.list, func(obj runtime.Object) error {
		o.note(kind, watch.Event{Type: watch.Added, Object: obj})
		return nil
	}); err != nil {
		return err
	}
	version, err := versionOf(b.list)
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.reached[kind] = version
	o.mu.Unlock()
	w, err := harness.Follow(ctx, o.watcher, b.list)
	if err != nil {
		return err
	}
	go func() {
		defer w.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case e, ok := <-w.ResultChan():
				if !ok {
					o.fail(errors.New("a watch has ended"), change{seen: time.Now()})
					return
				}
				o.note(kind, e)
			}
		}
	}()
	return nil
}

func (o *observer) note(kind string, e watch.Event) {
	object, ok := e.Object.(client.Object)
	if !ok {
		o.fail(fmt.Errorf("a watch said %v", e.Object), change{seen: time.Now()})
		return
	}
	version, err := versionOf(object)
	if err != nil {
		o.fail(err, change{seen: time.Now()})
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = append(o.pending, change{version: version, seen: time.Now(), gone: e.Type == watch.Deleted, object: object})
	o.reached[kind] = max(o.reached[kind], version)
	o.look()
}

// look looks at all changes up to the version that all watches have reached.
func (o *observer) look() {
	reached := o.reachedLocked()
	slices.SortStableFunc(o.pending, func(a, b change) int { return cmp.Compare(a.version, b.version) })
	n := 0
	for ; n < len(o.pending) && o.pending[n].version <= reached; n++ {
		c := o.pending[n]
		o.last = append(o.last[max(0, len(o.last)-told+1):], c)
		before := o.now.apply(c)
		o.done++
		for _, l := range laws {
			if err := l.check(o.now, c, before); err != nil && !(l.bypassed && o.now.isUnguarded(c)) {
				o.failLocked(fmt.Errorf("%s: %w", l.name, err), c)
			}
		}
	}
	o.pending = slices.Delete(o.pending, 0, n)
}

// versionOf is a resourceVersion as a number: they are those of etcd.
func versionOf(of interface{ GetResourceVersion() string }) (uint64, error) {
	return strconv.ParseUint(of.GetResourceVersion(), 10, 64)
}

// reachedLocked is the version up to which everything is known, 0 while not all kinds are listed.
func (o *observer) reachedLocked() (reached uint64) {
	for i, b := range beats() {
		version := o.reached[kindOf(b.object)]
		if i == 0 || version < reached {
			reached = version
		}
	}
	return reached
}

func (o *observer) fail(err error, at change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failLocked(err, at)
}

// failLocked notes the first violation.
func (o *observer) failLocked(err error, at change) {
	if o.failure != "" || o.s.t.Context().Err() != nil {
		return
	}
	o.failed = at.seen
	var changes []string
	for _, c := range o.last {
		changes = append(changes, c.String())
	}
	o.failure = fmt.Sprintf("%v\nwith %s\nthe last changes:\n%s\nthe last acts:\n%s", err, at, strings.Join(changes, "\n"), o.s.history.text())
	close(o.violated)
}

func (o *observer) wrong() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failure
}

func (o *observer) after(began time.Time) time.Duration { return o.failed.Sub(began) }

func (o *observer) looked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done
}

// beat has every kind change at least once a second, so that no watch keeps the others waiting.
func (o *observer) beat(ctx context.Context) {
	for harness.Pause(ctx, time.Second) == nil {
		o.mu.Lock()
		highest := uint64(0)
		for _, version := range o.reached {
			highest = max(highest, version)
		}
		var quiet []client.Object
		for _, b := range beats() {
			if o.reached[kindOf(b.object)] < highest {
				quiet = append(quiet, b.object)
			}
		}
		o.mu.Unlock()
		for _, object := range quiet {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"beat":"%d"}}}`, highest)
			// One that fails is made up for by the next.
			_ = o.s.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))
		}
	}
}

// version is that of what was stored last.
func (o *observer) version(ctx context.Context) (uint64, error) {
	list := &v1beta1.EdgeClaimList{}
	if err := o.s.Client.List(ctx, list); err != nil {
		return 0, err
	}
	return versionOf(list)
}

// settle waits until everything that was stored by now is looked at, and all is as it has to be when nobody acts.
func (o *observer) settle() error {
	version, err := o.version(o.s.t.Context())
	if err != nil {
		return err
	}
	return within(o.s.t.Context(), patience, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		switch reached := o.reachedLocked(); {
		case o.failure != "":
			return nil
		case reached < version:
			return fmt.Errorf("the observer has seen version %d, of %d", reached, version)
		default:
			return o.now.settled()
		}
	})
}
