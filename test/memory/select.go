package memory

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Select has a cache select claims by their holder in one line, as an API server does: for one that stands for an API server, too.
func Select(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &v1beta1.EdgeClaim{}, "spec.heldBy", func(claim client.Object) []string {
		return []string{claim.(*v1beta1.EdgeClaim).Spec.HeldBy}
	})
}
