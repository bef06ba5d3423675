package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/harness"
)

// history records every change of every object of some kind and of every claim. Nothing is sampled: it watches both
// kinds, and puts their events in the order in which etcd, which both share, has stored them.
type history struct {
	watcher client.WithWatch
	stop    []func()
	// kinds are what is watched.
	kinds []client.ObjectList
	// blank is the moment before anything was stored.
	blank func() moment

	mu     sync.Mutex
	events []happening
	err    error
	// since is the version from which on both kinds are known.
	since uint64
}

// happening is one change. stored is what was stored, or deleted when gone says so.
type happening struct {
	version uint64
	gone    bool
	stored  client.Object
}

// moment is what was stored at one version.
type moment interface {
	// apply makes a change, and returns whom it concerns.
	apply(e happening) []types.NamespacedName
	// everybody is whom it could concern.
	everybody() []types.NamespacedName
	// check says what is wrong with one of them, if it is stored.
	check(key types.NamespacedName) error
	// around tells the last changes up to the i-th that have to do with one of them, for the reader of a failure.
	around(events []happening, i int, key types.NamespacedName) string
}

// newHistory starts a history of some kinds.
func newHistory(t *testing.T, h *harness.Harness, blank func() moment, kinds ...client.ObjectList) *history {
	t.Helper()
	watcher, err := client.NewWithWatch(h.Config(), client.Options{Scheme: harness.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	c := &history{watcher: watcher, kinds: kinds, blank: blank}
	for _, list := range c.kinds {
		if err := c.follow(t.Context(), list); err != nil {
			t.Fatalf("watching %T: %v", list, err)
		}
	}
	t.Cleanup(func() {
		for _, stop := range c.stop {
			stop()
		}
	})
	return c
}

// follow notes what is there now and everything that happens from then on.
func (c *history) follow(ctx context.Context, list client.ObjectList) error {
	if err := c.watcher.List(ctx, list); err != nil {
		return err
	}
	version, err := strconv.ParseUint(list.GetResourceVersion(), 10, 64)
	if err != nil {
		return err
	}
	c.since = max(c.since, version)
	if err := meta.EachListItem(list, func(obj runtime.Object) error {
		c.note(watch.Event{Type: watch.Added, Object: obj})
		return nil
	}); err != nil {
		return err
	}
	w, err := harness.Follow(ctx, c.watcher, list)
	if err != nil {
		return err
	}
	c.stop = append(c.stop, w.Stop)
	go func() {
		for e := range w.ResultChan() {
			c.note(e)
		}
		if ctx.Err() == nil {
			c.note(watch.Event{Type: watch.Error})
		}
	}()
	return nil
}

func (c *history) note(e watch.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	obj, ok := e.Object.(client.Object)
	if !ok || e.Type == watch.Error {
		c.err = errors.Join(c.err, fmt.Errorf("the watch ended: %v", e.Object))
		return
	}
	version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	c.err = errors.Join(c.err, err)
	c.events = append(c.events, happening{version: version, gone: e.Type == watch.Deleted, stored: obj})
}

// mustHold waits until the history knows of everything that has happened so far, and fails the test for each object
// with which something was wrong at any moment.
func (c *history) mustHold(w *fixture) {
	w.t.Helper()
	w.eventually("the history to be complete", func() error { return c.complete(w) })
	told, wrong := c.violations()
	for i, v := range wrong {
		if i == 10 {
			w.t.Errorf("... and %d more", len(wrong)-i)
			break
		}
		w.t.Error(v)
	}
	w.t.Logf("%d changes, %d objects were ever without their claim", told, len(wrong))
}

// complete says whether the history ends with what is stored now.
func (c *history) complete(w *fixture) error {
	want, got := map[string]string{}, map[string]string{}
	for _, kind := range c.kinds {
		list := kind.DeepCopyObject().(client.ObjectList)
		if err := w.Client.List(w.t.Context(), list); err != nil {
			return err
		}
		if err := meta.EachListItem(list, func(obj runtime.Object) error {
			stored := obj.(client.Object)
			want[historyKey(stored)] = stored.GetResourceVersion()
			return nil
		}); err != nil {
			return err
		}
	}
	for _, e := range c.sorted() {
		if got[historyKey(e.stored)] = e.stored.GetResourceVersion(); e.gone {
			delete(got, historyKey(e.stored))
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("it ends with %d objects, there are %d, or their versions differ", len(got), len(want))
	}
	return nil
}

func historyKey(obj client.Object) string {
	return fmt.Sprintf("%T %s", obj, client.ObjectKeyFromObject(obj))
}

func (c *history) sorted() []happening {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(c.events, func(a, b happening) int { return cmp.Compare(a.version, b.version) })
	return slices.Clone(c.events)
}

// violations tells the story again, and returns how many changes it has and what was wrong after which.
func (c *history) violations() (told int, wrong []string) {
	c.mu.Lock()
	if c.err != nil {
		wrong = append(wrong, c.err.Error())
	}
	c.mu.Unlock()
	events := c.sorted()
	now := c.blank()
	known := map[types.NamespacedName]bool{} // one violation of an object is enough to read
	for i, e := range events {
		concerned := now.apply(e)
		if e.version < c.since {
			continue
		}
		told++
		if told == 1 {
			concerned = now.everybody()
		}
		for _, key := range concerned {
			if err := now.check(key); err != nil && !known[key] {
				known[key] = true
				wrong = append(wrong, fmt.Sprintf("at version %d: %v\n%s", e.version, err, now.around(events, i, key)))
			}
		}
	}
	return told, wrong
}
