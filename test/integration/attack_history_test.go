package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// chronicle records every change of every stream and of every claim. Nothing is sampled: it watches both kinds, and
// puts their events in the order in which etcd, which both share, has stored them.
type chronicle struct {
	watcher client.WithWatch
	stop    []func()

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

// chronicled starts a chronicle of h. When the test ends, it is read: see violations.
func chronicled(t *testing.T, h *harness.Harness) *chronicle {
	t.Helper()
	watcher, err := client.NewWithWatch(h.Config(), client.Options{Scheme: harness.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	c := &chronicle{watcher: watcher}
	for _, list := range []client.ObjectList{&v1beta1.StreamIngressList{}, &v1beta1.EdgeClaimList{}} {
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
func (c *chronicle) follow(ctx context.Context, list client.ObjectList) error {
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
	w, err := c.watcher.Watch(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
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

func (c *chronicle) note(e watch.Event) {
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

// mustHold waits until the chronicle knows of everything that has happened so far, and fails the test for each moment
// at which a stream was stored without holding the claim on the port that it asks for. As a claim has one holder, that
// says too that no two streams ever had the same port.
func (c *chronicle) mustHold(w *world) {
	w.t.Helper()
	w.eventually("the chronicle to be complete", func() error { return c.complete(w) })
	told, wrong := c.violations()
	for i, v := range wrong {
		if i == 10 {
			w.t.Errorf("... and %d more", len(wrong)-i)
			break
		}
		w.t.Error(v)
	}
	w.t.Logf("%d changes of streams and claims, %d streams were ever without their claim", told, len(wrong))
}

// complete says whether the chronicle ends with what is stored now.
func (c *chronicle) complete(w *world) error {
	streams, claims := &v1beta1.StreamIngressList{}, &v1beta1.EdgeClaimList{}
	for _, list := range []client.ObjectList{streams, claims} {
		if err := w.Client.List(w.t.Context(), list); err != nil {
			return err
		}
	}
	want := map[string]string{}
	for i := range streams.Items {
		want["stream "+client.ObjectKeyFromObject(&streams.Items[i]).String()] = streams.Items[i].ResourceVersion
	}
	for i := range claims.Items {
		want["claim "+claims.Items[i].Name] = claims.Items[i].ResourceVersion
	}
	got := map[string]string{}
	for _, e := range c.sorted() {
		key := "claim " + e.stored.GetName()
		if s, ok := e.stored.(*v1beta1.StreamIngress); ok {
			key = "stream " + client.ObjectKeyFromObject(s).String()
		}
		if got[key] = e.stored.GetResourceVersion(); e.gone {
			delete(got, key)
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("it ends with %d objects, there are %d, or their versions differ", len(got), len(want))
	}
	return nil
}

func (c *chronicle) sorted() []happening {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(c.events, func(a, b happening) int { return cmp.Compare(a.version, b.version) })
	return slices.Clone(c.events)
}

// violations tells the story again, and returns how many changes it has and what was wrong after which.
func (c *chronicle) violations() (told int, wrong []string) {
	c.mu.Lock()
	if c.err != nil {
		wrong = append(wrong, c.err.Error())
	}
	c.mu.Unlock()
	events := c.sorted()
	now := &moment{streams: map[types.NamespacedName]*v1beta1.StreamIngress{}, claims: map[string]*v1beta1.EdgeClaim{}}
	known := map[types.NamespacedName]bool{} // one violation of a stream is enough to read
	for i, e := range events {
		concerned := now.apply(e)
		if e.version < c.since {
			continue
		}
		told++
		if told == 1 {
			concerned = slices.Collect(maps.Keys(now.streams))
		}
		for _, key := range concerned {
			if err := now.check(key); err != nil && !known[key] {
				known[key] = true
				wrong = append(wrong, fmt.Sprintf("at version %d: %v\n%s", e.version, err, around(events, i, key)))
			}
		}
	}
	return told, wrong
}

// moment is what was stored at one version.
type moment struct {
	streams map[types.NamespacedName]*v1beta1.StreamIngress
	claims  map[string]*v1beta1.EdgeClaim
}

// apply makes a change, and returns the streams that it concerns.
func (m *moment) apply(e happening) []types.NamespacedName {
	switch stored := e.stored.(type) {
	case *v1beta1.StreamIngress:
		key := client.ObjectKeyFromObject(stored)
		if m.streams[key] = stored; e.gone {
			delete(m.streams, key)
		}
		return []types.NamespacedName{key}
	case *v1beta1.EdgeClaim:
		concerned := []types.NamespacedName{claim.HolderOf(stored).Key()}
		if before := m.claims[stored.Name]; before != nil {
			concerned = append(concerned, claim.HolderOf(before).Key())
		}
		if m.claims[stored.Name] = stored; e.gone {
			delete(m.claims, stored.Name)
		}
		return concerned
	default:
		return nil
	}
}

// check says whether a stream, if it is stored, holds what it asks for.
func (m *moment) check(key types.NamespacedName) error {
	s := m.streams[key]
	if s == nil {
		return nil
	}
	holder := claim.StreamHolder(key.Namespace, key.Name)
	if s.Spec.Listen == nil {
		for _, c := range m.claims {
			at, err := claim.Parse(c.Name)
			if err == nil && claim.HolderOf(c) == holder && at.Class() == s.Spec.ClassName && at.Protocol() == s.ProtocolOrDefault() {
				return nil
			}
		}
		return fmt.Errorf("%s is stored, asks for any port, and holds none", key)
	}
	name := asked(s)
	switch c := m.claims[name]; {
	case c == nil:
		return fmt.Errorf("%s is stored, and nobody holds %s", key, name)
	case claim.HolderOf(c) != holder:
		return fmt.Errorf("%s is stored, and %s holds %s", key, c.Spec.HeldBy, name)
	default:
		return nil
	}
}

// around tells the last changes up to the i-th that concern the same stream or its ports, for the reader of a failure.
func around(events []happening, i int, key types.NamespacedName) string {
	const enough = 12
	ports := map[string]bool{}
	for _, e := range events[:i+1] {
		if s, ok := e.stored.(*v1beta1.StreamIngress); ok && client.ObjectKeyFromObject(s) == key {
			ports[asked(s)] = true
		}
	}
	var lines []string
	for _, e := range events[:i+1] {
		verb := "stored"
		if e.gone {
			verb = "deleted"
		}
		switch o := e.stored.(type) {
		case *v1beta1.StreamIngress:
			if ports[asked(o)] {
				lines = append(lines, fmt.Sprintf("  %d stream %s %s, for %s, uid %.8s, generation %d",
					e.version, client.ObjectKeyFromObject(o), verb, asked(o), o.UID, o.Generation))
			}
		case *v1beta1.EdgeClaim:
			if ports[o.Name] {
				lines = append(lines, fmt.Sprintf("  %d claim %s %s, of %s, uid %.8s, generation %d",
					e.version, o.Name, verb, o.Spec.HeldBy, o.Spec.Holder.UID, o.Spec.Holder.Generation))
			}
		}
	}
	return strings.Join(lines[max(0, len(lines)-enough):], "\n")
}

// asked is the name of the claim that a stream needs, empty when it asks for any port.
func asked(s *v1beta1.StreamIngress) string {
	if s.Spec.Listen == nil {
		return ""
	}
	return claim.Stream(s.Spec.ClassName, s.ProtocolOrDefault(), *s.Spec.Listen).Name()
}
