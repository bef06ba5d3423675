package reconcilers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// lateSource watches a kind that may be installed later, or never: it holds nobody up, and begins when the API server
// knows the kind.
type lateSource struct {
	mgr     manager.Manager
	object  client.Object
	watched source.Source
}

// lookEvery is how often the API server is asked whether it knows the kind by now.
const lookEvery = 5 * time.Second

// whenInstalled is a source of events of a kind that may not be installed yet.
func whenInstalled(mgr manager.Manager, object client.Object, h handler.EventHandler, p predicate.Predicate) source.Source {
	return &lateSource{mgr: mgr, object: object, watched: source.Kind(mgr.GetCache(), object, h, p)}
}

// Start begins to look for the kind, and returns at once.
func (s *lateSource) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	gvk, err := apiutil.GVKForObject(s.object, s.mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("watching %T: %w", s.object, err)
	}
	go func() {
		err := awaitKind(ctx, s.mgr, gvk)
		if err == nil {
			err = s.watched.Start(ctx, queue)
		}
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "watching failed", "kind", gvk.Kind)
		}
	}()
	return nil
}

// awaitKind waits until the API server knows a kind.
func awaitKind(ctx context.Context, mgr manager.Manager, gvk schema.GroupVersionKind) error {
	return wait.PollUntilContextCancel(ctx, lookEvery, true, func(context.Context) (bool, error) {
		_, err := mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil && !meta.IsNoMatchError(err) {
			log.FromContext(ctx).V(1).Info("could not ask for a kind, asking again", "kind", gvk.Kind, "error", err.Error())
		}
		return err == nil, nil
	})
}

// onInstalled is a source of one event: a kind is installed. Then what find returns is looked at.
func onInstalled(mgr manager.Manager, object client.Object, find func(context.Context) []reconcile.Request) source.Source {
	return &lateSource{mgr: mgr, object: object, watched: source.Func(func(ctx context.Context, q queue) error {
		add(q, find(ctx))
		return nil
	})}
}

// String names the source in logs.
func (s *lateSource) String() string { return fmt.Sprintf("late watch of %T", s.object) }
