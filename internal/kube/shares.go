package kube

import (
	"context"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// IndexShare finds the EdgeClaims that objects of a namespace have, or are the heirs of, in a family of scopes; see ShareOf. Those on
// paths are left out: nobody counts them by namespace.
const IndexShare = "share"

// ShareOf is the key of a namespace and a family of scopes in IndexShare.
func ShareOf(namespace, family string) string { return family + " " + namespace }

func shareKeys(c *v1beta1.EdgeClaim) []string {
	if claim.ScopeFamily(c.Spec.Scope) == claim.HTTPScope {
		return nil
	}
	family := claim.ScopeFamily(c.Spec.Scope)
	keys := []string{ShareOf(c.Spec.Holder.Namespace, family)}
	if heir := claim.HeirOf(c).Namespace; heir != "" && heir != c.Spec.Holder.Namespace {
		keys = append(keys, ShareOf(heir, family))
	}
	return keys
}

// OfNamespace lists the claims that the objects of a namespace have in a family of scopes; see claim.ScopeFamily. Claims that
// this replica is making are among them: of the requests that come to one replica, each counts those before it.
func (c *Claims) OfNamespace(ctx context.Context, namespace, family string) ([]*v1beta1.EdgeClaim, error) {
	return c.under(ctx, IndexShare, ShareOf(namespace, family), true)
}
