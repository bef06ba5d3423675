package loadbalancer

import (
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

// PoolFacts are what the rules for AddressPools see of the cluster. What is not there is nil.
type PoolFacts interface {
	// AddressClaims are the claims on addresses in some ranges, and on ports of these.
	AddressClaims(in ...addresspool.Range) []*v1beta1.EdgeClaim
	// NodePortClaims are the claims on ports of the nodes.
	NodePortClaims() []*v1beta1.EdgeClaim
	// Service is a Service.
	Service(key types.NamespacedName) *corev1.Service
	// NamespaceLabels are the labels of a namespace.
	NamespaceLabels(name string) labels.Set
}

// PoolProblems are what is wrong with a pool.
func PoolProblems(v addresspool.Verdict) refusal.Problems {
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
	had := PoolProblems(before)
	return slices.DeleteFunc(PoolProblems(after), func(p refusal.Problem) bool {
		return slices.ContainsFunc(had, func(q refusal.Problem) bool {
			return p.Reason == q.Reason && p.Err.BadValue == q.Err.BadValue && p.Err.Detail == q.Err.Detail
		})
	})
}

// PoolUser is a Service, or a class, that would lose what it has of a pool.
type PoolUser struct {
	claim.Holder
	// Points are what it would lose.
	Points []claim.Coordinate
	// Field is the field of the pool's spec that would take it away.
	Field string
}

// PoolUsers finds the Services and classes that would lose addresses if a pool were changed, or, if after is nil, deleted. others are
// all pools that are accepted.
func PoolUsers(facts PoolFacts, before, after *addresspool.Pool, others []*addresspool.Pool) []PoolUser {
	if after != nil && sameReach(before, after) {
		return nil
	}
	users := map[claim.Holder]*PoolUser{}
	for _, c := range claimsOf(facts, before) {
		at, err := claim.Of(c)
		holder := claim.HolderOf(c)
		if err != nil {
			continue
		}
		path := ""
		switch {
		case holder.IsService():
			path = loses(facts, holder.Key(), at, before, after, others)
		case holder.IsClass() && at.IsAddress():
			path = classLoses(at, before, after)
		}
		if path == "" {
			continue
		}
		if users[holder] == nil {
			users[holder] = &PoolUser{Holder: holder, Field: path}
		}
		users[holder].Points = append(users[holder].Points, at)
	}
	sorted := make([]PoolUser, 0, len(users))
	for _, u := range users {
		slices.SortFunc(u.Points, claim.Compare)
		sorted = append(sorted, *u)
	}
	slices.SortFunc(sorted, func(a, b PoolUser) int { return strings.Compare(a.String(), b.String()) })
	return sorted
}

// sameReach says whether two versions of a pool give the same addresses to the same Services.
func sameReach(before, after *addresspool.Pool) bool {
	return slices.Equal(before.Spec.Addresses, after.Spec.Addresses) && before.Spec.AvoidBuggyIPs == after.Spec.AvoidBuggyIPs &&
		equality.Semantic.DeepEqual(before.Spec.ServiceSelector, after.Spec.ServiceSelector) &&
		equality.Semantic.DeepEqual(before.Spec.NamespaceSelector, after.Spec.NamespaceSelector)
}

// claimsOf lists the claims that may be on what a pool gives.
func claimsOf(facts PoolFacts, pool *addresspool.Pool) []*v1beta1.EdgeClaim {
	switch pool.SourceOrDefault() {
	case v1beta1.SourceNodeIP:
		return facts.NodePortClaims()
	case v1beta1.SourceClusterIP:
		return facts.AddressClaims(addresspool.Everything...)
	default:
		return facts.AddressClaims(pool.Set.Ranges()...)
	}
}

// loses says whether a Service has a point of a pool, and does not have it any longer when the pool is changed. The result
// is the field that makes it so, empty if nothing is lost.
func loses(
	facts PoolFacts, key types.NamespacedName, at claim.Coordinate, before, after *addresspool.Pool, others []*addresspool.Pool,
) (path string) {
	svc := facts.Service(key)
	if svc == nil {
		return "" // the claim is about to go
	}
	namespace := facts.NamespaceLabels(svc.Namespace)
	has := func(p *addresspool.Pool) bool { return p.Serves(svc.Labels, namespace) && Gives(p, svc, at.Address()) }
	if !has(before) || after != nil && has(after) {
		return ""
	}
	mayMove := svc.Annotations[v1beta1.AnnotationAddressPool] != before.Name
	if mayMove && slices.ContainsFunc(others, func(p *addresspool.Pool) bool { return p.Name != before.Name && has(p) }) {
		return ""
	}
	return lostBy(before, after, after != nil && Gives(after, svc, at.Address()))
}

// classLoses does the same for a class, which has its pool by name, whatever that selects.
func classLoses(at claim.Coordinate, before, after *addresspool.Pool) (path string) {
	if !before.Set.Contains(at.Address()) || after != nil && after.Set.Contains(at.Address()) {
		return ""
	}
	return lostBy(before, after, false)
}

// lostBy is the field by which something of a pool is lost; gives says whether the pool has it still, for others.
func lostBy(before, after *addresspool.Pool, gives bool) string {
	switch {
	case after == nil:
		return "metadata.name"
	case gives && equality.Semantic.DeepEqual(before.Spec.ServiceSelector, after.Spec.ServiceSelector):
		return specPath.Child("namespaceSelector").String()
	case gives:
		return specPath.Child("serviceSelector").String()
	case slices.Equal(before.Spec.Addresses, after.Spec.Addresses):
		return specPath.Child("avoidBuggyIPs").String()
	default:
		return specPath.Child("addresses").String()
	}
}

// specPath is the field that a pool is described in.
var specPath = field.NewPath("spec")

// namedUsers is how many Services a refusal names.
const namedUsers = 3

// PoolInUse refuses a change of a pool that would take addresses from Services and classes.
func PoolInUse(users []PoolUser) refusal.Problems {
	var paths []string
	by := map[string][]PoolUser{}
	for _, u := range users {
		if len(by[u.Field]) == 0 {
			paths = append(paths, u.Field)
		}
		by[u.Field] = append(by[u.Field], u)
	}
	var problems refusal.Problems
	for _, path := range paths {
		problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonPoolInUse, Err: &field.Error{
			Type: field.ErrorTypeForbidden, Field: path, Detail: inUseText(by[path]),
		}})
	}
	return problems
}

func inUseText(users []PoolUser) string {
	var names []string
	for _, u := range users[:min(len(users), namedUsers)] {
		names = append(names, fmt.Sprintf("%s (%s)", u.name(), u.places()))
	}
	among := ""
	if len(users) > namedUsers {
		among = "among them "
	}
	kind := "Service(s)"
	if slices.ContainsFunc(users, func(u PoolUser) bool { return u.IsClass() }) {
		kind = "Service(s) or class(es)"
	}
	return fmt.Sprintf("%d %s would lose their address, %s%s: move or delete them first",
		len(users), kind, among, strings.Join(names, ", "))
}

// name is the name of a user, with its kind where it is no Service.
func (u PoolUser) name() string {
	if u.IsClass() {
		return u.String()
	}
	return u.Key().String()
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
