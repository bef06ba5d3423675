package v1beta1

// ReasonRouteConflict is the reason of events, and of refusals, that tell a route of a listener which somebody else's route has.
const ReasonRouteConflict = "RouteConflict"

// Reasons of the events that tell where the ledger and the cluster disagree for longer than a moment.
const (
	// ReasonClaimWithoutHolder: the claim is kept for an object that is not there, or does not ask for its point.
	ReasonClaimWithoutHolder = "ClaimWithoutHolder"
	// ReasonPointWithoutClaim: a port or a path is open, and no claim keeps it from others.
	ReasonPointWithoutClaim = "PointWithoutClaim"
)
