package watch

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"jeffthecoder.xyz/portcullis/internal/kube"
)

// OnPools is the source of what is looked at when the pools have changed.
func OnPools(view *kube.View, find func(context.Context) []reconcile.Request) source.Source {
	return onBook(view.LoadBalancers.OnPoolsChanged, find)
}

// OnHostPolicies is the source of what is looked at at the start, and when the HostPolicies have changed.
func OnHostPolicies[request comparable](view *kube.View, find func(context.Context) []request) source.TypedSource[request] {
	return onBook(view.Hosts.OnPoliciesChanged, find)
}

// onBook is the source of what is looked at at the start, and when something that is read as a whole has changed. It is told by what reads
// that: an event of the cache may come before a look would see what it is about, and nothing would look again. Changes that come while it
// finds whom they concern are one.
func onBook[request comparable](onChange func(func()), find func(context.Context) []request) source.TypedSource[request] {
	return source.TypedFunc[request](func(ctx context.Context, q workqueue.TypedRateLimitingInterface[request]) error {
		changed := make(chan struct{}, 1)
		tell := func() {
			select {
			case changed <- struct{}{}:
			default: // one is waiting already, and will see this change as well
			}
		}
		onChange(tell)
		tell()
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-changed:
				}
				Add(q, find(ctx))
			}
		}()
		return nil
	})
}

// replicasEvery is how often it is looked for older replicas: one takes longer than that to start, and to be asked.
const replicasEvery = 2 * time.Second

// OnOlderReplicas is the source of what is looked at when replicas of an older version come: that is to have what such a replica knows of.
func OnOlderReplicas[request comparable](view *kube.View, find func(context.Context) []request) source.TypedSource[request] {
	return onReplicas(view.Ingresses.OlderReplicas, find)
}

// OnHeirsKnown is the source of what is looked at when the last replica has gone that knows of no heirs: until then nobody hands anything
// over.
func OnHeirsKnown[request comparable](view *kube.View, find func(context.Context) []request) source.TypedSource[request] {
	return onReplicas(view.Ingresses.HeirsKnown, find)
}

// onReplicas is the source of what is looked at when the replicas that run come to be so, which they may be at the start.
func onReplicas[request comparable](are func(context.Context) bool, find func(context.Context) []request) source.TypedSource[request] {
	return source.TypedFunc[request](func(ctx context.Context, q workqueue.TypedRateLimitingInterface[request]) error {
		now := false
		go wait.UntilWithContext(ctx, func(ctx context.Context) {
			was := now
			if now = are(ctx); now && !was {
				Add(q, find(ctx))
			}
		}, replicasEvery)
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
