package guard

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// RouteLoss is a route that stands on a listener which somebody else has: the implementation serves one of the two.
type RouteLoss struct {
	Route Route
	Place Place
	// Held is the claim, or what it will be, of who has it, nil where that is a stream that is gone.
	Held *v1beta1.EdgeClaim
	// Given says that the route has handed it over to that one.
	Given bool
}

// String says who has what a route asks for.
func (l RouteLoss) String() string {
	if l.Held == nil {
		return fmt.Sprintf("%s: the listener is of a stream", l.Place.Path)
	}
	what := "the listener"
	if host := l.Place.At.RouteHost(); host != "" {
		what = host
	}
	return fmt.Sprintf("%s: %s is %s", l.Place.Path, what, refusal.Held(l.Held, false, 0))
}

// Key says whether two losses are the same to whom they are told.
func (l RouteLoss) Key() string {
	key := l.Place.At.String() + " " + l.Place.Stream.String()
	if l.Held != nil {
		key += " " + claim.HolderOf(l.Held).String()
	}
	if l.Given {
		key += ", given"
	}
	return key
}

// SettleRoutes says what is to be entered of the routes of a parent, and which of them stand where somebody else is. What is claimed
// stays claimed; a listener without a claim goes to whom an implementation of the Gateway API serves: routes are in that order, as
// CompareRoutes has it. A claim whose holder is on the listener no longer is about to be released, and nobody's loss; one that its holder
// hands over is to be entered for who is named.
func SettleRoutes(
	f RouteFacts, p *Parent, routes []Route, labelsOf func(namespace string) labels.Set,
) (enter []claim.Entry, lost []RouteLoss) {
	planned := map[claim.Coordinate]*v1beta1.EdgeClaim{}
	for _, r := range routes {
		for _, place := range r.Places(p, labelsOf(r.Namespace)) {
			if !place.Stream.IsZero() {
				if taken, held := routeInTheWay(f, r, place); taken {
					lost = append(lost, RouteLoss{Route: r, Place: place, Held: held})
				}
				continue
			}
			switch held := cmp.Or(planned[place.At], f.Claim(place.At.Name())); {
			case held != nil && claim.HolderOf(held) != r.Holder && yields(f, place.At, held, r):
				enter = append(enter, claim.Entry{By: r.Claimant, At: place.At})
			case held == nil:
				enter, planned[place.At] = append(enter, claim.Entry{By: r.Claimant, At: place.At}), claim.New(place.At, r.Claimant)
			case claim.HolderOf(held) != r.Holder && (planned[place.At] != nil || !isRouteLeaving(f, held)):
				given := r.handsOver() && claim.HolderOf(held).Key() == r.Heir
				lost = append(lost, RouteLoss{Route: r, Place: place, Held: held, Given: given})
			}
		}
	}
	return enter, lost
}
