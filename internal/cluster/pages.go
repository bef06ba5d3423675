package cluster

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pages reads the objects of a kind past the cache, at most size at a time. A page is the caller's until it asks for the next;
// whoever keeps nothing of it needs memory for one. After an error there are no more.
func Pages[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, live client.Reader, size int64, options ...client.ListOption) iter.Seq2[L, error] {
	return PagesOf(ctx, live, func() L { return new(T) }, size, options...)
}

// PagesOf is Pages for kinds that Go's types don't tell.
func PagesOf[L client.ObjectList](
	ctx context.Context, live client.Reader, empty func() L, size int64, options ...client.ListOption,
) iter.Seq2[L, error] {
	return func(yield func(L, error) bool) {
		for next := ""; ; {
			page := empty()
			err := live.List(ctx, page, append(slices.Clip(options), client.Limit(size), client.Continue(next))...)
			if err != nil {
				yield(page, fmt.Errorf("listing %s: %w", kindOf(page), err))
				return
			}
			next = page.GetContinue()
			if !yield(page, nil) || next == "" {
				return
			}
		}
	}
}

func kindOf(list client.ObjectList) string {
	if kind := list.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return fmt.Sprintf("%T", list)
}
