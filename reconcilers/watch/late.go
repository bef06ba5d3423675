package watch

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
type lateSource[request comparable] struct {
	mgr     manager.Manager
	object  client.Object
	watched source.TypedSyncingSource[request]
	// concerned finds whom the objects of the kind may concern.
	concerned func(context.Context) []request
	// asked is closed once anybody needs the kind, and prepare waits for what it needs itself; nil for nothing to wait for.
	asked   <-chan struct{}
	prepare func(context.Context) error
}

// LookEvery is how often the API server is asked whether it knows the kind by now.
const LookEvery = 5 * time.Second

// WhenInstalled is a source of events of a kind that may not be installed yet. When it is watched, all that concerned
// finds is looked at once: an object that came and went before is told by no event.
func WhenInstalled(
	mgr manager.Manager, object client.Object, h handler.EventHandler, concerned func(context.Context) []reconcile.Request,
) source.Source {
	return WhenKnown(mgr, object, source.Kind(mgr.GetCache(), object, h, predicate.ResourceVersionChangedPredicate{}), concerned)
}

// WhenKnown is a source that begins when the API server knows the kind of an object. Then all that concerned finds is looked at.
func WhenKnown(
	mgr manager.Manager, object client.Object, watched source.SyncingSource, concerned func(context.Context) []reconcile.Request,
) source.Source {
	return &lateSource[reconcile.Request]{mgr: mgr, object: object, watched: watched, concerned: concerned}
}

// Start begins to look for the kind, and returns at once.
func (s *lateSource[request]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	gvk, err := apiutil.GVKForObject(s.object, s.mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("watching %T: %w", s.object, err)
	}
	go func() {
		if err := s.watch(ctx, gvk, queue); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "watching failed", "kind", gvk.Kind)
		}
	}()
	return nil
}

func (s *lateSource[request]) watch(
	ctx context.Context, gvk schema.GroupVersionKind, q workqueue.TypedRateLimitingInterface[request],
) error {
	if s.asked != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-s.asked:
		}
	}
	if err := awaitKind(ctx, s.mgr, gvk); err != nil {
		return err
	}
	if s.prepare != nil {
		if err := s.prepare(ctx); err != nil {
			return err
		}
	}
	if err := s.watched.Start(ctx, q); err != nil {
		return err
	}
	if err := s.watched.WaitForSync(ctx); err != nil {
		return err
	}
	Add(q, s.concerned(ctx))
	return nil
}

// awaitKind waits until the API server knows a kind.
func awaitKind(ctx context.Context, mgr manager.Manager, gvk schema.GroupVersionKind) error {
	return wait.PollUntilContextCancel(ctx, LookEvery, true, func(context.Context) (bool, error) {
		_, err := mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil && !meta.IsNoMatchError(err) {
			log.FromContext(ctx).V(1).Info("could not ask for a kind, asking again", "kind", gvk.Kind, "error", err.Error())
		}
		return err == nil, nil
	})
}

// String names the source in logs.
func (s *lateSource[request]) String() string { return fmt.Sprintf("late watch of %T", s.object) }
