package watch

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/internal/kube"
)

// OnGateways is a source of events of a kind of the Gateway API. It begins once a class has a Gateway and the API server knows the kind;
// then all that concerned finds is looked at, as an object that came and went before is told by no event.
func OnGateways[request comparable](
	mgr manager.Manager, view *kube.View, kind client.Object, h handler.TypedEventHandler[client.Object, request],
	concerned func(context.Context) []request,
) source.TypedSource[request] {
	return source.TypedFunc[request](func(ctx context.Context, q workqueue.TypedRateLimitingInterface[request]) error {
		gvk, err := apiutil.GVKForObject(kind, mgr.GetScheme())
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		begin := func() error {
			select {
			case <-ctx.Done():
				return nil
			case <-view.Gateways.Asked():
			}
			if err := awaitKind(ctx, mgr, gvk); err != nil {
				return err
			}
			if err := awaitIndexes(ctx, view, kind); err != nil {
				return err
			}
			events := source.TypedKind(mgr.GetCache(), kind, h)
			if err := events.Start(ctx, q); err != nil {
				return err
			}
			if err := events.WaitForSync(ctx); err != nil {
				return err
			}
			for _, r := range concerned(ctx) {
				q.Add(r)
			}
			return nil
		}
		go func() {
			if err := begin(); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "watching failed", "kind", gvk.Kind)
			}
		}()
		return nil
	})
}

// awaitIndexes waits until ListenerSets are indexed, if they are what is watched: whoever is told of one finds it then.
func awaitIndexes(ctx context.Context, view *kube.View, kind client.Object) error {
	if _, are := kind.(*gatewayv1.ListenerSet); !are {
		return nil
	}
	return wait.PollUntilContextCancel(ctx, LookEvery, true, func(ctx context.Context) (bool, error) {
		err := view.Gateways.Prepare(ctx)
		if err != nil {
			log.FromContext(ctx).V(1).Info("could not index ListenerSets, trying again", "error", err.Error())
		}
		return err == nil, nil
	})
}

// Nobody is whom a source concerns that has nothing looked at when it begins.
func Nobody[request any](context.Context) []request { return nil }
