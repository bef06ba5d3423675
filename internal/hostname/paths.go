package hostname

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// PathFacts are what the rules for paths of routes see of the cluster.
type PathFacts interface {
	// HostPolicies are the policies of the cluster.
	HostPolicies() *Book
	// Claim is the claim of a name, nil for none.
	Claim(name string) *v1beta1.EdgeClaim
	// PathUsers are the routes that serve paths of a host, with these, as far as they are guarded.
	PathUsers(host string) []PathUser
}

// PathUser is a route with paths that it serves on Gateways.
type PathUser struct {
	User
	Points []guard.PathPoint
}

// serves says whether a route serves a point.
func (u *PathUser) serves(at claim.Coordinate) bool {
	return slices.ContainsFunc(u.Points, func(p guard.PathPoint) bool { return p.At == at })
}

// PathRequest is what a route asks for of paths.
type PathRequest struct {
	PathUser
	// Before are those that it has been stored with. What stands keeps what it has.
	Before []guard.PathPoint
	// Deleting says that it is being deleted.
	Deleting bool
}

// anew are the points that a route comes to serve, but for those on hosts that are one namespace's as such.
func (r *PathRequest) anew(book *Book) (points []guard.PathPoint) {
	had := sets.New[claim.Coordinate]()
	for _, p := range r.Before {
		had.Insert(p.At)
	}
	for _, p := range r.Points {
		if !had.Has(p.At) && book.Owner(p.At.Host()) == nil {
			points = append(points, p)
		}
	}
	return points
}

// JudgePaths says which of the paths that a route asks for anew are another namespace's on the same Gateway, and which of them its
// namespace has to have. Within a namespace nothing is refused. graceLeft says how long a claim is kept if its holder is gone.
func JudgePaths(f PathFacts, r *PathRequest, graceLeft func(*v1beta1.EdgeClaim) time.Duration) (v Verdict) {
	wanted := r.anew(f.HostPolicies())
	switch {
	case len(wanted) == 0:
		return v
	case r.Deleting:
		v.Problems = refusal.Problems{refusal.BeingDeleted(wanted[0].Field())}
		return v
	case len(wanted) > exposure.MostPaths:
		v.Problems = exposure.TooManyPaths("a route", field.NewPath("spec", "rules"), len(wanted))
		return v
	}
	for _, p := range wanted {
		v.Points = append(v.Points, p.At)
		held := f.Claim(p.At.Name())
		if held == nil {
			held = firstOf(f.PathUsers(p.At.Host()), p.At)
		}
		if held != nil && claim.HolderOf(held) != claim.NamespaceHolder(r.Namespace) && len(v.Problems) < mostProblems {
			v.Problems = append(v.Problems, PathConflict(f, r, p.At, held, graceLeft(held))...)
		}
	}
	return v
}

// firstOf is the claim of whoever is to have a point that nobody has: the namespace of the oldest route that serves it; nil for none.
func firstOf(users []PathUser, at claim.Coordinate) *v1beta1.EdgeClaim {
	serving := slices.DeleteFunc(slices.Clone(users), func(u PathUser) bool { return !u.serves(at) })
	if len(serving) == 0 {
		return nil
	}
	first := slices.MinFunc(serving, comparePathUsers)
	held := claim.New(at, first.Claimant(claim.Version(first.Version)))
	held.CreationTimestamp = metav1.NewTime(first.Created)
	return held
}

// comparePathUsers orders routes by which of them an implementation of the Gateway API serves.
func comparePathUsers(a, b PathUser) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key().String(), b.Key().String()), cmp.Compare(a.Kind, b.Kind))
}

// PathConflict tells a route that a path is held: by whom and since when.
func PathConflict(f PathFacts, r *PathRequest, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft time.Duration) refusal.Problems {
	where := field.NewPath("spec", "rules")
	if i := slices.IndexFunc(r.Points, func(p guard.PathPoint) bool { return p.At == at }); i >= 0 {
		where = r.Points[i].Field()
	}
	return refusal.One(v1beta1.ReasonHostConflict, refusal.Duplicate(where, at.Point(), fmt.Sprintf("%s is %s; choose another host or path",
		pathText(at), refusal.Held(held, isPathLeaving(f.PathUsers(at.Host()), held, at), graceLeft))))
}

// pathText is a point in words.
func pathText(at claim.Coordinate) string {
	return fmt.Sprintf("path %s on host %s of Gateway %s", at.Path(), at.Host(), at.Gateway())
}

// isPathLeaving says whether no route in the namespace that holds a point serves it any longer, or yet. users are those of its host.
func isPathLeaving(users []PathUser, held *v1beta1.EdgeClaim, at claim.Coordinate) bool {
	return !slices.ContainsFunc(users, func(u PathUser) bool {
		return claim.HolderOf(held) == claim.NamespaceHolder(u.Namespace) && u.serves(at)
	})
}

// PathLoss is a path that a route serves though it is another namespace's.
type PathLoss struct {
	User User
	At   claim.Coordinate
	// Held is the claim of the namespace that has it, or what it will be.
	Held *v1beta1.EdgeClaim
}

// String says who has what the route serves.
func (l PathLoss) String() string {
	return pathText(l.At) + " is " + refusal.Held(l.Held, false, 0)
}

// Key says whether two losses are the same to whom they are told.
func (l PathLoss) Key() string { return l.At.String() + " " + claim.HolderOf(l.Held).String() }

// SettlePaths says whose the paths of a host are to be of those whose routes serve them, and whose routes serve one though it is another's.
// A claim stays; without one, a path is that of the oldest route's namespace. Of a host that is one namespace's as such nothing is said.
func SettlePaths(f PathFacts, host string) (enter []claim.Entry, lost []PathLoss) {
	if f.HostPolicies().Owner(host) != nil {
		return nil, nil
	}
	users := slices.SortedFunc(slices.Values(f.PathUsers(host)), comparePathUsers)
	known := map[claim.Coordinate]*v1beta1.EdgeClaim{}
	for _, u := range users {
		for _, p := range u.Points {
			held, is := known[p.At]
			if !is {
				if held = f.Claim(p.At.Name()); held == nil {
					by := u.Claimant(claim.Version(u.Version))
					held = claim.New(p.At, by)
					enter = append(enter, claim.Entry{By: by, At: p.At})
				} else if isPathLeaving(users, held, p.At) { // then it is nobody's loss
					held = nil
				}
				known[p.At] = held
			}
			if held != nil && claim.HolderOf(held) != claim.NamespaceHolder(u.Namespace) {
				lost = append(lost, PathLoss{User: u.User, At: p.At, Held: held})
			}
		}
	}
	return enter, lost
}
