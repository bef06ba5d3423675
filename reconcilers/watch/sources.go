package watch

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"jeffthecoder.xyz/portcullis/internal/kube"
)

// OnPools is the source of what is looked at when the pools have changed. An event of the cache may come before the view shows
// what it is about, and nothing would look again.
func OnPools(view *kube.View, find func(context.Context) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, q Queue) error {
		view.LoadBalancers.OnPoolsChanged(func() { Add(q, find(ctx)) })
		return nil
	})
}

// OnTarget is a source of events of the ConfigMaps, or the Services, that classes name, and of no others: whatever is written
// on those concerns no class. What is there at the start is told before it matters, as whatever depends on it is looked at
// then.
func OnTarget[kind client.Object, request comparable](
	view *kube.View, h handler.TypedEventHandler[client.Object, request], ifAll ...predicate.Predicate,
) source.TypedSource[request] {
	concerned := predicate.And(ifAll...)
	return source.TypedFunc[request](func(ctx context.Context, q workqueue.TypedRateLimitingInterface[request]) error {
		view.Targets.OnChange(func(before, after client.Object) {
			_, was := before.(kind)
			_, is := after.(kind)
			switch {
			case was && is:
				if e := (event.UpdateEvent{ObjectOld: before, ObjectNew: after}); concerned.Update(e) {
					h.Update(ctx, e, q)
				}
			case is:
				h.Create(ctx, event.CreateEvent{Object: after}, q)
			case was:
				h.Delete(ctx, event.DeleteEvent{Object: before}, q)
			}
		})
		return nil
	})
}
