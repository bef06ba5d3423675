package kube

import (
	"context"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readerInTurn waits for its turn before it reads, so that no more is read at a time than there is memory for. An error may be
// that of ctx.
type readerInTurn struct {
	client.Reader
	turns *semaphore.Weighted
}

// InTurn reads by another reader, at most so many objects, or pages of them, at a time.
func InTurn(reader client.Reader, most int64) client.Reader {
	return readerInTurn{reader, semaphore.NewWeighted(most)}
}

// Get implements client.Reader.
func (r readerInTurn) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if err := r.turns.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.turns.Release(1)
	return r.Reader.Get(ctx, key, obj, options...)
}

// List implements client.Reader.
func (r readerInTurn) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := r.turns.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.turns.Release(1)
	return r.Reader.List(ctx, list, options...)
}
