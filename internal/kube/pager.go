package kube

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// firstPage is how many objects are read first, at most: how large they are is not known yet.
const firstPage = 50

// Pages reads the objects of a kind past the cache, at most size at a time: fewer, where they are so large that the answer would
// be (see LimitAnswers). A page is the caller's until it asks for the next; whoever keeps nothing of it needs memory for one.
// After an error there are no more.
//
// client-go's pager (k8s.io/client-go/tools/pager) can't take its place: it reads the next page while the caller has the last one, even
// with a PageBufferSize of 0, so that there are two in memory and one is read in vain where the caller stops early; and it hands
// over single objects, or all of them at once.
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
	ctx = withLimitedAnswers(ctx)
	return func(yield func(L, error) bool) {
		now := min(size, firstPage)
		for next := ""; ; {
			page := empty()
			err := live.List(ctx, page, append(slices.Clip(options), client.Limit(now), client.Continue(next))...)
			if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) && now > 1 {
				now /= 2
				continue
			}
			if err != nil {
				yield(page, fmt.Errorf("listing %s: %w", kindOf(page), err))
				return
			}
			next = page.GetContinue()
			if !yield(page, nil) || next == "" {
				return
			}
			// Slowly: among large objects, each page that turns out too large has been made and read in vain.
			now = min(size, now+now/4+1)
		}
	}
}

func kindOf(list client.ObjectList) string {
	if kind := list.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return fmt.Sprintf("%T", list)
}
