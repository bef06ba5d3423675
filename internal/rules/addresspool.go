package rules

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// AddressPoolView is what the rules for AddressPools see of the cluster. What is not there is nil, not an error.
type AddressPoolView interface {
	// AddressClaims lists the claims on addresses in some ranges, and on ports of these.
	AddressClaims(ctx context.Context, in ...addresspool.Range) ([]*v1beta1.EdgeClaim, error)
	// NodePortClaims lists the claims on ports of the nodes.
	NodePortClaims(ctx context.Context) ([]*v1beta1.EdgeClaim, error)
	// Service reads a Service.
	Service(ctx context.Context, key types.NamespacedName) (*corev1.Service, error)
	// NamespaceLabels reads the labels of a namespace.
	NamespaceLabels(ctx context.Context, name string) (labels.Set, error)
}

// AddressPool is what is wrong with a pool.
func AddressPool(v addresspool.Verdict) refusal.Problems {
	var problems refusal.Problems
	for _, err := range v.Flaws {
		problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonInvalid, Err: err})
	}
	for _, o := range v.Overlaps {
		problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonPoolOverlap, Err: o.Error()})
	}
	return problems
}

// NewInAddressPool is what is wrong with a pool and was not wrong with it before: whoever got a bad pool past admission can
// still set right one thing after the other.
func NewInAddressPool(before, after addresspool.Verdict) refusal.Problems {
	had := AddressPool(before)
	return slices.DeleteFunc(AddressPool(after), func(p refusal.Problem) bool {
		return slices.ContainsFunc(had, func(q refusal.Problem) bool {
			return p.Reason == q.Reason && p.Err.BadValue == q.Err.BadValue && p.Err.Detail == q.Err.Detail
		})
	})
}

// PoolUser is a Service that would lose what it has of a pool.
type PoolUser struct {
	types.NamespacedName
	// Points are what it would lose.
	Points []claim.Coordinate
	// Field is the field of the pool's spec that would take it away.
	Field string
}

// PoolUsers finds the Services that would lose addresses if a pool were changed, or, if after is nil, deleted. others are
// all pools that are accepted.
func PoolUsers(
	ctx context.Context, v AddressPoolView, before, after *addresspool.Pool, others []*addresspool.Pool,
) ([]PoolUser, error) {
	if after != nil && sameReach(before, after) {
		return nil, nil
	}
	claims, err := claimsOf(ctx, v, before)
	if err != nil {
		return nil, err
	}
	users := map[types.NamespacedName]*PoolUser{}
	for _, c := range claims {
		at, err := claim.Of(c)
		holder := claim.HolderOf(c)
		if err != nil || !holder.IsService() {
			continue
		}
		path, err := loses(ctx, v, holder.Key(), at, before, after, others)
		if err != nil {
			return nil, err
		}
		if path == "" {
			continue
		}
		u := users[holder.Key()]
		if u == nil {
			u = &PoolUser{NamespacedName: holder.Key(), Field: path}
			users[holder.Key()] = u
		}
		u.Points = append(u.Points, at)
	}
	sorted := make([]PoolUser, 0, len(users))
	for _, u := range users {
		slices.SortFunc(u.Points, claim.Compare)
		sorted = append(sorted, *u)
	}
	slices.SortFunc(sorted, func(a, b PoolUser) int { return strings.Compare(a.String(), b.String()) })
	return sorted, nil
}

// sameReach says whether two versions of a pool give the same addresses to the same Services.
func sameReach(before, after *addresspool.Pool) bool {
	return slices.Equal(before.Spec.Addresses, after.Spec.Addresses) && before.Spec.AvoidBuggyIPs == after.Spec.AvoidBuggyIPs &&
		equality.Semantic.DeepEqual(before.Spec.ServiceSelector, after.Spec.ServiceSelector) &&
		equality.Semantic.DeepEqual(before.Spec.NamespaceSelector, after.Spec.NamespaceSelector)
}

// claimsOf lists the claims that may be on what a pool gives.
func claimsOf(ctx context.Context, v AddressPoolView, pool *addresspool.Pool) ([]*v1beta1.EdgeClaim, error) {
	switch pool.SourceOrDefault() {
	case v1beta1.SourceNodeIP:
		return v.NodePortClaims(ctx)
	case v1beta1.SourceClusterIP:
		return v.AddressClaims(ctx, addresspool.Everything...)
	default:
		return v.AddressClaims(ctx, pool.Set.Ranges()...)
	}
}

// loses says whether a Service has a point of a pool, and does not have it any longer when the pool is changed. The result
// is the field that makes it so, empty if nothing is lost.
func loses(
	ctx context.Context, v AddressPoolView, key types.NamespacedName, at claim.Coordinate,
	before, after *addresspool.Pool, others []*addresspool.Pool,
) (path string, err error) {
	svc, err := v.Service(ctx, key)
	if err != nil || svc == nil {
		return "", err // the claim is about to go
	}
	namespace, err := v.NamespaceLabels(ctx, svc.Namespace)
	if err != nil {
		return "", err
	}
	has := func(p *addresspool.Pool) bool { return p.Serves(svc.Labels, namespace) && gives(p, svc, at.Address()) }
	if !has(before) || after != nil && has(after) {
		return "", nil
	}
	mayMove := svc.Annotations[v1beta1.AnnotationAddressPool] != before.Name
	if mayMove && slices.ContainsFunc(others, func(p *addresspool.Pool) bool { return p.Name != before.Name && has(p) }) {
		return "", nil
	}
	return lostBy(svc, at, before, after), nil
}

func lostBy(svc *corev1.Service, at claim.Coordinate, before, after *addresspool.Pool) string {
	switch {
	case after == nil:
		return "metadata.name"
	case gives(after, svc, at.Address()) && equality.Semantic.DeepEqual(before.Spec.ServiceSelector, after.Spec.ServiceSelector):
		return specPath.Child("namespaceSelector").String()
	case gives(after, svc, at.Address()):
		return specPath.Child("serviceSelector").String()
	case slices.Equal(before.Spec.Addresses, after.Spec.Addresses):
		return specPath.Child("avoidBuggyIPs").String()
	default:
		return specPath.Child("addresses").String()
	}
}

// namedUsers is how many Services a refusal names.
const namedUsers = 3

// PoolInUse refuses a change of a pool that would take addresses from Services.
func PoolInUse(users []PoolUser) refusal.Problems {
	var problems refusal.Problems
	for rest := users; len(rest) > 0; {
		path := rest[0].Field
		var these, others []PoolUser
		for _, u := range rest {
			if u.Field == path {
				these = append(these, u)
			} else {
				others = append(others, u)
			}
		}
		problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonPoolInUse, Err: &field.Error{
			Type: field.ErrorTypeForbidden, Field: path, Detail: inUseText(these),
		}})
		rest = others
	}
	return problems
}

func inUseText(users []PoolUser) string {
	var names []string
	for _, u := range users[:min(len(users), namedUsers)] {
		names = append(names, fmt.Sprintf("%s (%s)", u.NamespacedName, u.places()))
	}
	among := ""
	if len(users) > namedUsers {
		among = "among them "
	}
	return fmt.Sprintf("%d Service(s) would lose their address, %s%s: move or delete them first",
		len(users), among, strings.Join(names, ", "))
}

// places are the addresses that a Service would lose, or its ports of the nodes.
func (u PoolUser) places() string {
	var places []string
	for _, at := range u.Points {
		place := at.Point()
		if at.IsAddress() {
			place = at.Address().String()
		}
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return strings.Join(places, ", ")
}
