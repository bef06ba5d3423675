// Package memory is a cluster that stands still: the caches of a manager, filled from a list of objects, and a store of
// claims. With it a benchmark measures what a decision costs, without what the API server costs. It is no place for tests
// of what the API server does.
package memory

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cache makes a cache that, once it is started, holds the objects and nothing else. It is the one that a manager has,
// with its options: only where it reads from is another place.
func Cache(scheme *runtime.Scheme, options cache.Options, objects ...client.Object) (cache.Cache, error) {
	byType := map[reflect.Type][]runtime.RawExtension{}
	for _, obj := range objects {
		kind := reflect.TypeOf(obj)
		byType[kind] = append(byType[kind], runtime.RawExtension{Object: obj})
	}
	mapper, err := mapperOf(scheme)
	if err != nil {
		return nil, err
	}
	options.Scheme, options.Mapper, options.HTTPClient = scheme, mapper, http.DefaultClient
	options.NewInformer = func(
		_ toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformer(still(byType[reflect.TypeOf(example)]), example, resync, indexers)
	}
	return cache.New(&rest.Config{Host: "https://memory.invalid"}, options)
}

// still lists objects that never change.
type still []runtime.RawExtension

// ListWithContext implements toolscache.ListerWatcherWithContext.
func (s still) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: s}, nil
}

// WatchWithContext implements toolscache.ListerWatcherWithContext.
func (s still) WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// List implements toolscache.ListerWatcher.
func (s still) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch implements toolscache.ListerWatcher.
func (s still) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// IsWatchListSemanticsUnSupported says that objects have to be listed.
func (s still) IsWatchListSemanticsUnSupported() bool { return true }

// Fill starts a cache and waits until synced says that all of it is there. It is stopped with ctx.
func Fill(ctx context.Context, c cache.Cache, synced func() bool) error {
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !synced() {
		select {
		case err := <-ended:
			return fmt.Errorf("the cache ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
