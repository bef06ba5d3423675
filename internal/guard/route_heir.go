package guard

import (
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// handsOver says whether a route says to whom it hands over what it has of listeners. Such a one takes nothing over: two that name each
// other would take it from each other for ever.
func (r Route) handsOver() bool { return r.Heir != types.NamespacedName{} }

// yields says whether the route that has a claim gives it to another one of its kind, as far as is known: it was promised to that one, or
// the holder names it, and nobody was promised it. The ledger has the last word.
func yields(f RouteFacts, at claim.Coordinate, held *v1beta1.EdgeClaim, to Route) bool {
	from, heir := claim.HolderOf(held), claim.HeirOf(held)
	switch {
	case held.Name != at.Name() || !from.IsRoute() || from.Kind != to.Holder.Kind || to.handsOver() || to.Deleting:
		return false
	case heir != claim.Holder{}:
		return heir == to.Holder
	default:
		return f.HandsOver(from, to.Holder)
	}
}

// handOver is how the holder of a claim could let a route have it, as the end of a refusal; empty where it can't.
func handOver(at claim.Coordinate, held *v1beta1.EdgeClaim, to Route, isLeaving bool) string {
	from, heir := claim.HolderOf(held), claim.HeirOf(held)
	if isLeaving || held.Name != at.Name() || !from.IsRoute() || from.Kind != to.Holder.Kind || from == to.Holder ||
		heir != (claim.Holder{}) && heir != to.Holder {
		return ""
	}
	return refusal.HandOver(to.Key())
}
