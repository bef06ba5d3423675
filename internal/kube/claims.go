package kube

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Claims are read of the cache, corrected by what this replica has written since.

// Claim reads a claim, nil when there is none.
func (v *View) Claim(ctx context.Context, name string) (*v1beta1.EdgeClaim, error) {
	return v.written.Get(name, func() (*v1beta1.EdgeClaim, error) {
		return read[v1beta1.EdgeClaim](ctx, v, types.NamespacedName{Name: name})
	})
}

// Held lists the points that a holder has claims on, in ascending order.
func (v *View) Held(ctx context.Context, by claim.Holder) ([]claim.Coordinate, error) {
	claims, err := v.ClaimsOf(ctx, by)
	return coordinates(claims), err
}

// HeldLive does the same past the cache. The API server selects by the same field as the index.
func (v *View) HeldLive(ctx context.Context, by claim.Holder) ([]claim.Coordinate, error) {
	claims, err := listClaims(ctx, v.live, IndexHolder, by.String())
	return coordinates(ofHolder(claims, by)), err
}

// coordinates are those of claims that can be read, in order.
func coordinates(claims []*v1beta1.EdgeClaim) []claim.Coordinate {
	var held []claim.Coordinate
	for _, c := range claims {
		if at, err := claim.Of(c); err == nil {
			held = append(held, at)
		}
	}
	slices.SortFunc(held, claim.Compare)
	return held
}

// ClaimsOf lists the claims of a holder, those that can't be read, too.
func (v *View) ClaimsOf(ctx context.Context, by claim.Holder) ([]*v1beta1.EdgeClaim, error) {
	claims, err := v.claimsBy(ctx, IndexHolder, by.String())
	return ofHolder(claims, by), err
}

// ofHolder are those of some claims that are a holder's: not all of one line are.
func ofHolder(claims []*v1beta1.EdgeClaim, by claim.Holder) []*v1beta1.EdgeClaim {
	return slices.DeleteFunc(claims, func(c *v1beta1.EdgeClaim) bool { return claim.HolderOf(c) != by })
}

// Claims lists the claims on the ports of a class, by coordinate.
func (v *View) Claims(ctx context.Context, class string) (map[claim.Coordinate]*v1beta1.EdgeClaim, error) {
	list, err := v.claimsIn(ctx, claim.StreamScope(class))
	claims := make(map[claim.Coordinate]*v1beta1.EdgeClaim, len(list))
	for _, c := range list {
		if at, err := claim.Parse(c.Name); err == nil {
			claims[at] = c
		}
	}
	return claims, err
}

// ClaimsServing lists the claims that Services have for the proxy of a class, by the scope of its ports, or, by the name of the
// claim on a port of the proxy, for that port.
func (v *View) ClaimsServing(ctx context.Context, name string) ([]*v1beta1.EdgeClaim, error) {
	return v.claimsBy(ctx, IndexServed, name)
}

// servedKeys are those under which IndexServed finds a claim.
func servedKeys(c *v1beta1.EdgeClaim) []string {
	if c.Spec.ClassName == "" { // as most are
		return nil
	}
	at, err := claim.Of(c)
	if err != nil {
		return nil
	}
	return []string{claim.StreamScope(c.Spec.ClassName), claim.Stream(c.Spec.ClassName, at.Protocol(), at.Port()).Name()}
}

// claimsIn lists the claims of a scope.
func (v *View) claimsIn(ctx context.Context, scope string) ([]*v1beta1.EdgeClaim, error) {
	return v.claimsBy(ctx, IndexScope, scope)
}

// claimIndexes are the indexes of claims: the values under which each finds one.
var claimIndexes = map[string]func(*v1beta1.EdgeClaim) []string{
	IndexHolder: func(c *v1beta1.EdgeClaim) []string { return []string{claim.HolderOf(c).String()} },
	IndexScope:  func(c *v1beta1.EdgeClaim) []string { return []string{c.Spec.Scope} },
	IndexServed: servedKeys,
	IndexShare:  shareKeys,
}

func (v *View) claimsBy(ctx context.Context, index, key string) ([]*v1beta1.EdgeClaim, error) {
	return v.claimsUnder(ctx, index, key, false)
}

// claimsUnder lists the claims under a key of an index, with or without those that are being written.
func (v *View) claimsUnder(ctx context.Context, index, key string, underway bool) ([]*v1beta1.EdgeClaim, error) {
	return v.written.List(
		func() ([]*v1beta1.EdgeClaim, error) { return v.cachedClaims(ctx, index, key) },
		func(c *v1beta1.EdgeClaim) bool { return slices.Contains(claimIndexes[index](c), key) }, underway)
}

func (v *View) cachedClaims(ctx context.Context, index, key string) ([]*v1beta1.EdgeClaim, error) {
	kept, known := v.stores.under(reflect.TypeFor[*v1beta1.EdgeClaim](), index, key)
	if !known {
		return listClaims(ctx, v.Reader, index, key)
	}
	claims := make([]*v1beta1.EdgeClaim, 0, len(kept))
	for _, obj := range kept {
		claims = append(claims, obj.(*v1beta1.EdgeClaim))
	}
	return claims, nil
}

func listClaims(ctx context.Context, reader client.Reader, index, key string) ([]*v1beta1.EdgeClaim, error) {
	var list v1beta1.EdgeClaimList
	err := reader.List(ctx, &list, client.MatchingFields{index: key})
	claims := make([]*v1beta1.EdgeClaim, 0, len(list.Items))
	for i := range list.Items {
		claims = append(claims, &list.Items[i])
	}
	return claims, err
}
