package kube

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// claimInformer is the informer of claims. It enters in written what an event tells before it hands the event to a handler. Handlers
// run side by side: if written had one of its own, another could look at what an event is about while the write of an earlier
// version still counts, and nothing would look again.
type claimInformer struct {
	toolscache.SharedIndexInformer
	written *claim.Written
}

// newInformer makes the informers of a cache.
func newInformer(
	lw toolscache.ListerWatcher, of runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	informer := toolscache.NewSharedIndexInformer(lw, of, resync, indexers)
	if _, ok := of.(*v1beta1.EdgeClaim); ok {
		return &claimInformer{informer, newWritten(clock.RealClock{})}
	}
	return informer
}

// writtenTo is what is written to the claims of a cache.
func writtenTo(ctx context.Context, c cache.Informers) (*claim.Written, error) {
	informer, err := c.GetInformer(ctx, &v1beta1.EdgeClaim{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching claims: %w", err)
	}
	if ours, ok := informer.(*claimInformer); ok {
		return ours.written, nil
	}
	written := newWritten(clock.RealClock{}) // the informers of tests are others
	_, err = informer.AddEventHandler(claimHandler{toolscache.ResourceEventHandlerFuncs{}, written})
	return written, err
}

// AddEventHandler implements toolscache.SharedInformer, as do the next two.
func (i *claimInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(claimHandler{h, i.written})
}

// AddEventHandlerWithResyncPeriod implements toolscache.SharedInformer.
func (i *claimInformer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, resync time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(claimHandler{h, i.written}, resync)
}

// AddEventHandlerWithOptions implements toolscache.SharedInformer.
func (i *claimInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(claimHandler{h, i.written}, options)
}

// claimHandler enters what an event tells, and then hands it on.
type claimHandler struct {
	toolscache.ResourceEventHandler
	written *claim.Written
}

// OnAdd implements toolscache.ResourceEventHandler, as do the next two.
func (h claimHandler) OnAdd(obj any, isInInitialList bool) {
	h.shown(obj, false)
	h.ResourceEventHandler.OnAdd(obj, isInInitialList)
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h claimHandler) OnUpdate(before, after any) {
	h.shown(after, false)
	h.ResourceEventHandler.OnUpdate(before, after)
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h claimHandler) OnDelete(obj any) {
	h.shown(obj, true)
	h.ResourceEventHandler.OnDelete(obj)
}

func (h claimHandler) shown(obj any, gone bool) {
	if c, ok := objectOf(obj).(*v1beta1.EdgeClaim); ok {
		h.written.Shown(c, gone)
	}
}
