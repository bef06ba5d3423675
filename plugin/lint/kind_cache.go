package lint

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kindCache is what is cached of a kind. It is an informer that has always synced, and whose events are told before a change is over.
type kindCache struct {
	key      cacheKey
	options  cache.ByObject
	objects  map[types.NamespacedName]client.Object
	indexes  map[string]*fieldIndex
	handlers []toolscache.ResourceEventHandler
}

var _ cache.Informer = &kindCache{}

// fieldIndex finds the objects of a kind by values of a field.
type fieldIndex struct {
	values  client.IndexerFunc
	objects map[string]map[types.NamespacedName]client.Object
}

// set notes what an object was and what it is, nil for nothing.
func (i *fieldIndex) set(key types.NamespacedName, before, after client.Object) {
	if before != nil {
		for _, value := range i.values(before) {
			delete(i.objects[value], key)
		}
	}
	if after == nil {
		return
	}
	for _, value := range i.values(after) {
		if i.objects[value] == nil {
			i.objects[value] = map[types.NamespacedName]client.Object{}
		}
		i.objects[value][key] = after
	}
}

// set notes what an object was and what it is, nil for nothing, and tells who listens.
func (k *kindCache) set(was, is client.Object) {
	named := is
	if is == nil {
		named = was
	}
	if named == nil {
		return
	}
	key := client.ObjectKeyFromObject(named)
	before, after := k.objects[key], k.cached(is)
	if k.objects[key] = after; after == nil {
		delete(k.objects, key)
	}
	for _, index := range k.indexes {
		index.set(key, before, after)
	}
	for _, handler := range k.handlers {
		switch {
		case before == nil && after != nil:
			handler.OnAdd(after, false)
		case before != nil && after != nil:
			handler.OnUpdate(before, after)
		case before != nil:
			handler.OnDelete(before)
		}
	}
}

// cached is what the options leave of an object, nil for nothing.
func (k *kindCache) cached(obj client.Object) client.Object {
	if obj == nil || k.options.Label != nil && !k.options.Label.Matches(labels.Set(obj.GetLabels())) {
		return nil
	}
	obj = obj.DeepCopyObject().(client.Object)
	if k.key.isMetadata {
		obj = metadataOf(obj)
	}
	if k.options.Transform == nil {
		return obj
	}
	slim, err := k.options.Transform(obj)
	if err != nil {
		return obj
	}
	return slim.(client.Object)
}

// synced is a registration, and what checks it.
type synced struct{}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (synced) HasSynced() bool { return true }

// HasSyncedChecker implements toolscache.ResourceEventHandlerRegistration.
func (synced) HasSyncedChecker() toolscache.DoneChecker { return synced{} }

// Name implements toolscache.DoneChecker.
func (synced) Name() string { return "memory" }

// Done implements toolscache.DoneChecker.
func (synced) Done() <-chan struct{} { return closed }

var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// AddEventHandler implements cache.Informer. What is there is told before it returns.
func (k *kindCache) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	for _, obj := range k.objects {
		handler.OnAdd(obj, true)
	}
	k.handlers = append(k.handlers, handler)
	return synced{}, nil
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (k *kindCache) AddEventHandlerWithResyncPeriod(
	handler toolscache.ResourceEventHandler, _ time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return k.AddEventHandler(handler)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (k *kindCache) AddEventHandlerWithOptions(
	handler toolscache.ResourceEventHandler, _ toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return k.AddEventHandler(handler)
}

// RemoveEventHandler implements cache.Informer.
func (*kindCache) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// AddIndexers implements cache.Informer.
func (*kindCache) AddIndexers(toolscache.Indexers) error { return nil }

// HasSynced implements cache.Informer.
func (*kindCache) HasSynced() bool { return true }

// HasSyncedChecker implements cache.Informer.
func (*kindCache) HasSyncedChecker() toolscache.DoneChecker { return synced{} }

// IsStopped implements cache.Informer.
func (*kindCache) IsStopped() bool { return false }
