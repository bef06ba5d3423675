package harness

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follow watches a kind from the version on at which a list of it was read. A busy API server ends watches that it can't
// serve fast enough; then another one is begun where that one ended, so that nothing is missed.
func Follow(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	in := (&client.ListOptions{}).ApplyOptions(options).Namespace
	return watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &toolscache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list, &client.ListOptions{Namespace: in, Raw: &raw})
		},
	})
}
