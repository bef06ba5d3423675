package reconcilers

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is how many objects are read at once where all of them are read from the API server: few enough to keep both
// sides' memory small.
const pageSize = 500

// eachPage reads all objects of a kind, page by page. A page is the visitor's only until it returns.
func eachPage[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, live client.Reader, visit func(L)) error {
	return eachPageOf(ctx, live, func() L { return new(T) }, visit)
}

// eachPageOf is eachPage for kinds that Go's types don't tell.
func eachPageOf[L client.ObjectList](ctx context.Context, live client.Reader, empty func() L, visit func(L)) error {
	for next := ""; ; {
		page := empty()
		if err := live.List(ctx, page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("listing %s: %w", kindOf(page), err)
		}
		visit(page)
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

func kindOf(list client.ObjectList) string {
	if kind := list.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return fmt.Sprintf("%T", list)
}
