package kube

import (
	"context"
	"maps"
	"slices"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// book keeps the objects of a kind as they are read together. It follows their cache, and reads them anew only when a spec has changed:
// their status changes all the time, and each decision needs them.
type book[Object client.Object, Read any] struct {
	registration toolscache.ResourceEventHandlerRegistration
	// readAll reads objects, which are in no order.
	readAll func([]Object) *Read

	mu    sync.Mutex
	known map[string]Object
	// current is nil when the objects have to be read anew.
	current *Read
	// watchers are called when the book has changed.
	watchers []func()
}

// newBook makes a book of the objects of a kind, without a namespace, which kind is an empty one of.
func newBook[Object client.Object, Read any](
	ctx context.Context, c cache.Cache, kind Object, readAll func([]Object) *Read,
) (*book[Object, Read], error) {
	b := &book[Object, Read]{readAll: readAll, known: map[string]Object{}}
	var err error
	b.registration, err = follow(ctx, c, kind, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { b.set(obj, true) },
		UpdateFunc: func(_, obj any) { b.set(obj, true) },
		DeleteFunc: func(obj any) { b.set(obj, false) },
	})
	return b, err
}

func (b *book[Object, Read]) synced() bool { return b.registration.HasSynced() }

func (b *book[Object, Read]) set(obj any, there bool) {
	o, ok := objectOf(obj).(Object)
	if !ok {
		return
	}
	for _, changed := range b.enter(o, there) {
		changed()
	}
}

// enter notes an object, or that it is gone. It returns whom to tell that the book has changed.
func (b *book[Object, Read]) enter(obj Object, there bool) []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, known := b.known[obj.GetName()]
	switch {
	case !there:
		delete(b.known, obj.GetName())
	case known && was.GetUID() == obj.GetUID() && was.GetGeneration() == obj.GetGeneration():
		return nil
	default:
		b.known[obj.GetName()] = obj
	}
	b.current = nil
	return slices.Clone(b.watchers)
}

// onChange has a function called whenever the book has changed. An event of the cache may come before the book shows what it is about.
func (b *book[Object, Read]) onChange(changed func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers = append(b.watchers, changed)
}

// read are the objects as they are read together; only their specs are up to date.
func (b *book[Object, Read]) read() *Read {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil {
		b.current = b.readAll(slices.Collect(maps.Values(b.known)))
	}
	return b.current
}
