package kube

import (
	"context"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// limitedReader waits until few enough reads are in flight before it reads, so that no more is read at a time than there is memory
// for. An error may be that of ctx.
type limitedReader struct {
	client.Reader
	inFlight *semaphore.Weighted
}

// LimitInFlight reads by another reader, at most so many objects, or pages of them, at a time.
func LimitInFlight(reader client.Reader, most int64) client.Reader {
	return limitedReader{reader, semaphore.NewWeighted(most)}
}

// Get implements client.Reader.
func (r limitedReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if err := r.inFlight.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.inFlight.Release(1)
	return r.Reader.Get(ctx, key, obj, options...)
}

// List implements client.Reader.
func (r limitedReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := r.inFlight.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.inFlight.Release(1)
	return r.Reader.List(ctx, list, options...)
}
