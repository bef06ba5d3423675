package guard

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// RouteFacts are what the rules for routes see of the cluster.
type RouteFacts interface {
	// Claim is the claim of a name, nil for none.
	Claim(name string) *v1beta1.EdgeClaim
	// RoutesAt are the routes that are stored on a listener, or for a host name there.
	RoutesAt(at claim.Coordinate) []Route
	// HandsOver says whether the holder of a point hands over what it holds to another object of its kind.
	HandsOver(from, to claim.Holder) bool
}

// RouteRequest is what a route asks for.
type RouteRequest struct {
	Route
	// Places are what it is to have, Before what it has been stored with.
	Places, Before []Place
}

// isNew says whether a route asks for a place anew.
func (r *RouteRequest) isNew(place Place) bool {
	return !slices.ContainsFunc(r.Before, func(had Place) bool { return had.At == place.At && had.Stream == place.Stream })
}

// Points are those that a request asks for anew. On the listeners of streams there are none: these are the streams'.
func (r *RouteRequest) Points() (points []claim.Coordinate) {
	for _, place := range r.Places {
		if r.isNew(place) && !place.At.IsZero() {
			points = append(points, place.At)
		}
	}
	return points
}

// JudgeRoute says what is wrong with what a route asks for anew, as far as is known without asking the API server: a listener serves one
// route, and one for each host name where it tells them apart.
func JudgeRoute(f RouteFacts, r *RouteRequest, graceLeft func(*v1beta1.EdgeClaim) time.Duration) (problems refusal.Problems) {
	if n := len(r.Points()); n > MostRoutePoints {
		return refusal.One(v1beta1.ReasonTooManyPoints, &field.Error{
			Type: field.ErrorTypeTooMany, Field: field.NewPath("spec", "parentRefs").String(), BadValue: n,
			Detail: fmt.Sprintf("a route may ask for at most %d listeners, or host names there, at a time: spread them over several routes",
				MostRoutePoints),
		})
	}
	for _, place := range r.Places {
		if !r.isNew(place) {
			continue
		}
		if r.Deleting {
			return refusal.Problems{refusal.BeingDeleted(place.Path)}
		}
		if taken, held := routeInTheWay(f, r.Route, place); taken && len(problems) < mostProblems {
			problems = append(problems, routeConflict(f, r.Route, place, held, graceLeft))
		}
	}
	return problems
}

// RouteConflict says that a point is held, which was found out as it was claimed.
func RouteConflict(
	f RouteFacts, r *RouteRequest, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) refusal.Problems {
	i := max(slices.IndexFunc(r.Places, func(p Place) bool { return p.At == at }), 0)
	return refusal.Problems{routeConflict(f, r.Route, r.Places[i], held, graceLeft)}
}

// routeInTheWay says whether a route can't have a place, and who has it, nil where that is not known: of a listener that Portcullis has
// made, the stream may be gone.
func routeInTheWay(f RouteFacts, r Route, place Place) (taken bool, held *v1beta1.EdgeClaim) {
	if on := place.Stream; !on.IsZero() {
		return r.Name != v1beta1.StreamServiceName(on.Class(), on.Protocol(), on.Port()), f.Claim(on.Name())
	}
	if held := f.Claim(place.At.Name()); held != nil {
		return claim.HolderOf(held) != r.Holder && !yields(f, place.At, held, r), held
	}
	for _, other := range f.RoutesAt(place.At) {
		if other.Holder != r.Holder {
			return true, claim.New(place.At, other.Claimant)
		}
	}
	return false, nil
}

// routeConflict says who has what a route asks for.
func routeConflict(
	f RouteFacts, r Route, place Place, held *v1beta1.EdgeClaim, graceLeft func(*v1beta1.EdgeClaim) time.Duration,
) refusal.Problem {
	if on := place.Stream; !on.IsZero() {
		text := "the listener is of a stream, which has a route of its own"
		if held != nil {
			text = refusal.Held(held, false, 0) + ", which has a route of its own"
		}
		return refusal.Problem{Reason: v1beta1.ReasonRouteConflict, Err: refusal.Duplicate(place.Path, on.Point(),
			text+fmt.Sprintf(", on the listener that Portcullis has made of StreamIngressClass %q; change the StreamIngress", on.Class()))}
	}
	section, what := place.At.Section(), "it serves one route"
	if host := place.At.RouteHost(); host != "" && host != claim.AllHosts {
		what = fmt.Sprintf("it serves one route for %s", host)
	}
	leaving := isRouteLeaving(f, held)
	return refusal.Problem{Reason: v1beta1.ReasonRouteConflict, Err: refusal.Duplicate(place.Path, place.At.Point(),
		fmt.Sprintf("%s, on listener %s of %s %s/%s; %s: choose another listener, or have all backends in that one%s",
			refusal.Held(held, leaving, graceLeft(held)), section.Listener, section.Kind, section.Namespace, section.Name, what,
			handOver(place.At, held, r, leaving)))}
}

// isRouteLeaving says whether the holder of a claim is not stored on the listener, or not any longer.
func isRouteLeaving(f RouteFacts, held *v1beta1.EdgeClaim) bool {
	at, err := claim.Of(held)
	return err == nil && !held.CreationTimestamp.IsZero() &&
		!slices.ContainsFunc(f.RoutesAt(at), func(r Route) bool { return r.Holder == claim.HolderOf(held) })
}
