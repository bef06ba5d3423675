package kube

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// IndexShare finds the EdgeClaims that objects of a namespace have in a family of scopes; see shareOf. Those on paths are
// left out: nobody counts them by namespace.
const IndexShare = "share"

func shareOf(namespace, family string) string { return family + " " + namespace }

func shareKeys(c *v1beta1.EdgeClaim) []string {
	if c.Spec.Scope == claim.HTTPScope {
		return nil
	}
	return []string{shareOf(c.Spec.Holder.Namespace, claim.ScopeFamily(c.Spec.Scope))}
}

// ClaimsOfNamespace lists the claims that the objects of a namespace have in a family of scopes; see claim.ScopeFamily. Claims that
// this replica is making are among them: of the requests that come to one replica, each counts those before it.
func (v *View) ClaimsOfNamespace(ctx context.Context, namespace, family string) ([]*v1beta1.EdgeClaim, error) {
	return v.claimsUnder(ctx, IndexShare, shareOf(namespace, family), true)
}

// Fronts lists the Services that classes name.
func (v *View) Fronts(ctx context.Context) ([]types.NamespacedName, error) {
	var fronts []types.NamespacedName
	named := func(c *v1beta1.StreamIngressClass) {
		if ref := c.Spec.Service; ref != nil {
			fronts = append(fronts, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	if kept, known := v.stores.list(reflect.TypeFor[*v1beta1.StreamIngressClass]()); known {
		for _, obj := range kept {
			named(obj.(*v1beta1.StreamIngressClass))
		}
		return fronts, nil
	}
	classes, err := v.Classes(ctx)
	for i := range classes {
		named(&classes[i])
	}
	return fronts, err
}
