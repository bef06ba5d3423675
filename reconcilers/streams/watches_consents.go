package streams

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// consents is a source of the consents that are given and withdrawn. Any tenant may write ReferenceGrants, as many and as often as
// it likes: what changes no consent, or one that no stream counts on, has nothing looked at.
type consents struct {
	base
	concerned concerned
}

// Start implements source.SyncingSource.
func (s *consents) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.View.Consents.OnChange(func(changed []kube.Consent) { watch.Add(q, s.concerned(ctx, s.streamsBy(ctx, changed))) })
	return nil
}

// WaitForSync implements source.SyncingSource. It tries again until ctx is done, as the kind may go as it came.
func (s *consents) WaitForSync(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, watch.LookEvery, true, func(ctx context.Context) (bool, error) {
		err := s.View.Consents.Follow(ctx)
		if err != nil {
			log.FromContext(ctx).V(1).Info("could not read ReferenceGrants, trying again", "error", err.Error())
		}
		return err == nil, nil
	})
}

// streamsBy lists the streams that count on some consents.
func (b base) streamsBy(ctx context.Context, given []kube.Consent) (counting []v1beta1.StreamIngress) {
	for _, c := range given { // one for all Services of a namespace has the name that the index has for it
		counting = append(counting, b.streamsTo(ctx, c.To, client.InNamespace(c.From))...)
	}
	return counting
}

// themselves finds who looks after streams: each is looked after for itself.
func (r *streamReconciler) themselves(_ context.Context, streams []v1beta1.StreamIngress) []reconcile.Request {
	return requestsFor(streams)
}

// streamsAbroad finds the streams that send their traffic to another namespace than their own.
func (r *streamReconciler) streamsAbroad(ctx context.Context) []reconcile.Request {
	return requestsFor(slices.DeleteFunc(r.streams(ctx), func(si v1beta1.StreamIngress) bool {
		return si.UpstreamNamespace() == si.Namespace
	}))
}
