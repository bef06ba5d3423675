package hostname

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	giving
	// HavingPaths are the routes of a namespace that serve some paths, by these; of more than MostGivers that serve one not all.
	HavingPaths(namespace string, points []claim.Coordinate) map[claim.Coordinate][]User
	// PathUsers are the routes that serve paths of a host, with these, as far as they are guarded. Any number may.
	PathUsers(host string) []PathUser
	// Serving are those that serve any of some points, with these at least.
	Serving(points []claim.Coordinate) []PathUser
	// IsPathServed says whether a route of a namespace serves a point.
	IsPathServed(namespace string, at claim.Coordinate) bool
}

// PathUser is a route with paths that it serves on Gateways.
type PathUser struct {
	User
	Points []guard.PathPoint
}

// PathRequest is what a route asks for of paths.
type PathRequest struct {
	User
	// Serves is what it serves as it is asked for, and Before as it has been stored. What stands keeps what it has.
	Serves, Before guard.Served
}

// anew are the points that a route comes to serve, but for those on hosts that are one namespace's as such.
func (r *PathRequest) anew(book *Book) []guard.PathPoint {
	return r.Serves.Since(&r.Before, func(host string) bool { return book.Owner(host) == nil })
}

// JudgePaths says which of the paths that a route asks for anew are another namespace's on the same Gateway, and which of them its
// namespace has to have: of very many the first, as of an Ingress. Within a namespace nothing is refused. graceLeft says how long a claim
// is kept if its holder is gone. Claims are looked at first, and what is another's by one is refused for that alone: who has made any
// number of routes on a host makes nobody look them all through.
func JudgePaths(f PathFacts, r *PathRequest, graceLeft func(*v1beta1.EdgeClaim) time.Duration) (v Verdict) {
	wanted := r.anew(f.HostPolicies())
	switch {
	case len(wanted) == 0:
		return v
	case r.Deleting:
		v.Problems = refusal.Problems{refusal.BeingDeleted(wanted[0].Field())}
		return v
	case r.Serves.Total() > guard.MostPathPoints:
		v.Problems = exposure.TooManyPaths(r.Serves.Total(), fmt.Sprintf("a route may have at most %d "+
			"hosts and paths on all Gateways together, and host names of listeners count: spread them over several", guard.MostPathPoints))
		return v
	}
	var free []guard.PathPoint
	givers := &givers{PathFacts: f, wanted: wanted, having: map[string]map[claim.Coordinate][]User{}}
	for _, p := range wanted {
		v.Points = append(v.Points, p.At)
		switch held := f.Claim(p.At.Name()); {
		case held == nil:
			free = append(free, p)
		case claim.HolderOf(held) != claim.NamespaceHolder(r.Namespace) && !yields(givers, p.At, held, &r.User):
			v.Problems = append(v.Problems, PathConflict(givers, r, p.At, held, graceLeft(held))...)
		}
		if len(v.Problems) == mostProblems {
			return v
		}
	}
	if len(v.Problems) == 0 {
		v.Problems = standing(f, r, free, graceLeft)
	}
	v.Points = v.Points[:min(len(v.Points), exposure.MostPaths)]
	return v
}

// givers are the facts for all the paths that a route asks for: who has those in a namespace is looked for once.
type givers struct {
	PathFacts
	wanted []guard.PathPoint
	having map[string]map[claim.Coordinate][]User
}

// Having implements giving.
func (g *givers) Having(namespace string, at claim.Coordinate) []User {
	found, known := g.having[namespace]
	if !known {
		points := make([]claim.Coordinate, 0, len(g.wanted))
		for _, p := range g.wanted {
			points = append(points, p.At)
		}
		found = g.HavingPaths(namespace, points)
		g.having[namespace] = found
	}
	return found[at]
}

// standing says which of some points that nobody has yet are to be another namespace's, whose route serves them.
func standing(
	f PathFacts, r *PathRequest, free []guard.PathPoint, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) (problems refusal.Problems) {
	if len(free) == 0 {
		return nil
	}
	points := make([]claim.Coordinate, 0, len(free))
	for _, p := range free {
		points = append(points, p.At)
	}
	oldest := oldestOf(f.Serving(points))
	for _, p := range free {
		first := oldest[p.At]
		if first == nil || first.Namespace == r.Namespace {
			continue
		}
		held := claim.New(p.At, first.Claimant(claim.Version(first.Version)))
		held.CreationTimestamp = metav1.NewTime(first.Created)
		problems = append(problems, pathConflict(f, r, p.At, held, false, graceLeft(held))...)
		if len(problems) == mostProblems {
			break
		}
	}
	return problems
}

// oldestOf are the oldest routes that serve some points, by these: whose namespaces are to have them.
func oldestOf(users []PathUser) map[claim.Coordinate]*PathUser {
	oldest := map[claim.Coordinate]*PathUser{}
	for i := range users {
		for _, p := range users[i].Points {
			if first := oldest[p.At]; first == nil || comparePathUsers(users[i], *first) < 0 {
				oldest[p.At] = &users[i]
			}
		}
	}
	return oldest
}

// comparePathUsers orders routes by which of them an implementation of the Gateway API serves.
func comparePathUsers(a, b PathUser) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key().String(), b.Key().String()), cmp.Compare(a.Kind, b.Kind))
}

// PathConflict tells a route that a path is held: by whom and since when. Whether its holder serves it still is looked for among that one's
// routes alone.
func PathConflict(f PathFacts, r *PathRequest, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft time.Duration) refusal.Problems {
	return pathConflict(f, r, at, held, !f.IsPathServed(claim.HolderOf(held).Tenant(), at), graceLeft)
}

func pathConflict(
	f PathFacts, r *PathRequest, at claim.Coordinate, held *v1beta1.EdgeClaim, isLeaving bool, graceLeft time.Duration,
) refusal.Problems {
	where := r.Serves.FieldOf(at)
	if where == nil {
		where = field.NewPath("spec", "rules")
	}
	return refusal.One(v1beta1.ReasonHostConflict, refusal.Duplicate(where, at.Point(), fmt.Sprintf("%s is %s; choose another host or path%s",
		pathText(at), refusal.Held(seenBy(&r.User, held), isLeaving, graceLeft),
		handOver(f, at, held, &r.User, isLeaving, graceLeft, "serve it"))))
}

// pathText is a point in words.
func pathText(at claim.Coordinate) string {
	return fmt.Sprintf("path %s on host %s of Gateway %s", at.Path(), at.Host(), at.Gateway())
}

// served are the routes of namespaces by the points that they serve.
type served map[servedIn][]User

type servedIn struct {
	namespace string
	at        claim.Coordinate
}

func servedBy(users []PathUser) served {
	points := served{}
	for _, u := range users {
		for _, p := range u.Points {
			in := servedIn{u.Namespace, p.At}
			points[in] = append(points[in], u.User)
		}
	}
	return points
}

// Having implements giving: what the routes say that are settled.
func (s served) Having(namespace string, at claim.Coordinate) []User {
	return s[servedIn{namespace, at}]
}

// Names implements giving.
func (s served) Names(giver *User, heir types.NamespacedName) bool { return giver.Heir == heir }

// isLeaving says whether no route in the namespace that holds a point serves it any longer, or yet.
func (s served) isLeaving(held *v1beta1.EdgeClaim, at claim.Coordinate) bool {
	holder := claim.HolderOf(held)
	return !holder.IsNamespace() || len(s.Having(holder.Name, at)) == 0
}

// PathLoss is a path that a route serves though it is another namespace's.
type PathLoss struct {
	User User
	At   claim.Coordinate
	// Held is the claim of the namespace that has it, or what it will be.
	Held *v1beta1.EdgeClaim
	// Given says that the route has handed it over to that namespace.
	Given bool
}

// String says who has what the route serves.
func (l PathLoss) String() string {
	return pathText(l.At) + " is " + refusal.Held(l.Held, false, 0)
}

// Key says whether two losses are the same to whom they are told.
func (l PathLoss) Key() string { return lossKey(l.At.String(), l.Held, l.Given) }

// SettlePaths says whose the paths of a host are to be of those whose routes serve them, and whose routes serve one though it is another's.
// A claim stays, unless its namespace hands it over to one of the routes; without one, a path is that of the oldest route's namespace. Of a
// host that is one namespace's as such nothing is said. What is handed over is its holder's until it is entered.
func SettlePaths(f PathFacts, host string) (enter []claim.Entry, lost []PathLoss) {
	if f.HostPolicies().Owner(host) != nil {
		return nil, nil
	}
	users := slices.SortedFunc(slices.Values(f.PathUsers(host)), comparePathUsers)
	known, points := map[claim.Coordinate]*v1beta1.EdgeClaim{}, servedBy(users)
	for _, u := range users {
		for _, p := range u.Points {
			by := u.Claimant(claim.Version(u.Version))
			held, is := known[p.At]
			if !is {
				held = f.Claim(p.At.Name())
			}
			switch {
			case held == nil && !is:
				enter = append(enter, claim.Entry{By: by, At: p.At})
				held = claim.New(p.At, by)
			case held != nil && claim.HolderOf(held) != by.Holder && yields(points, p.At, held, &u.User):
				enter = append(enter, claim.Entry{By: by, At: p.At})
			case held != nil && points.isLeaving(held, p.At): // then it is nobody's loss
				held = nil
			case held != nil && claim.HolderOf(held) != by.Holder:
				lost = append(lost, PathLoss{User: u.User, At: p.At, Held: held, Given: u.gave(held)})
			}
			known[p.At] = held
		}
	}
	return enter, lost
}
