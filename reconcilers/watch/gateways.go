package watch

import (
	"context"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	return &lateSource[request]{
		mgr: mgr, object: kind, watched: source.TypedKind(mgr.GetCache(), kind, h), concerned: concerned,
		asked:   view.Gateways.Asked(),
		prepare: func(ctx context.Context) error { return awaitIndexes(ctx, view, kind) },
	}
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
