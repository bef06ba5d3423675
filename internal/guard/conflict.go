package guard

import (
	"fmt"
	"slices"
	"time"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// inTheWay is the claim, or what stands without one, that keeps a request from a point; nil for none.
func inTheWay(f Facts, r *Request, at claim.Coordinate) *v1beta1.EdgeClaim {
	stays := func(*v1beta1.EdgeClaim) bool { return false }
	if held := heldAt(f, r.Holder, at, stays); held != nil {
		return held
	}
	if held := heldByStream(f, r.Classes, at); held != nil {
		return held
	}
	for _, other := range append([]claim.Coordinate{at}, at.InTheWay()...) {
		for _, o := range f.Standing(other) {
			if o.Holder != r.Holder {
				return claim.New(other, o.Claimant)
			}
		}
	}
	return nil
}

// heldByStream is the claim of a stream on a port of a Gateway, nil for none.
func heldByStream(f Ledger, classes []*v1beta1.StreamIngressClass, at claim.Coordinate) *v1beta1.EdgeClaim {
	for _, point := range Streams(classes, at) {
		if held := f.Claim(point.Name()); held != nil && claim.HolderOf(held).IsStream() {
			return held
		}
	}
	return nil
}

// Streams are the points of classes that a listener can't be beside.
func Streams(classes []*v1beta1.StreamIngressClass, at claim.Coordinate) (points []claim.Coordinate) {
	for _, class := range classes {
		on := port(at)
		points = append(points, claim.Stream(class.Name, on.Protocol, on.Port))
	}
	return points
}

// heldAt is a claim of somebody else on a point, or on what it can't be beside; nil for none. Of several, one that is not leaving.
func heldAt(
	f Ledger, but claim.Holder, at claim.Coordinate, isLeaving func(*v1beta1.EdgeClaim) bool,
) *v1beta1.EdgeClaim {
	for _, other := range append([]claim.Coordinate{at}, at.InTheWay()...) {
		if !other.IsHosts() {
			if held := f.Claim(other.Name()); held != nil && claim.HolderOf(held) != but {
				return held
			}
			continue
		}
		// Whether the claim is there that stands for them does not matter here: who claims one may end before that is made.
		if held := firstHost(f.HostClaims(other), but, isLeaving); held != nil {
			return held
		}
	}
	return nil
}

// firstHost is the one of some claims that is not of a holder, the first by name of those that stay, or of all; nil for none.
func firstHost(claims []*v1beta1.EdgeClaim, but claim.Holder, isLeaving func(*v1beta1.EdgeClaim) bool) (first *v1beta1.EdgeClaim) {
	leaves := false
	for _, held := range claims {
		if claim.HolderOf(held) == but || first != nil && !leaves && held.Name > first.Name {
			continue
		}
		if is := isLeaving(held); first == nil || leaves && !is || leaves == is && held.Name < first.Name {
			first, leaves = held, is
		}
	}
	return first
}

// value is a point as users write it.
func value(at claim.Coordinate) string {
	if host := at.ListenerHost(); host != "" && host != claim.AllHosts {
		return host
	}
	return port(at).String()
}

// conflict says who has what a listener asks for.
func conflict(f Facts, r *Request, a asked, held *v1beta1.EdgeClaim, graceLeft time.Duration) refusal.Problem {
	on, err := claim.Of(held)
	if err != nil {
		on = a.at
	}
	leaving := isLeaving(f, held, on)
	text := refusal.Held(held, leaving, graceLeft)
	switch {
	case leaving:
	case on.IsStream():
		text += fmt.Sprintf(", of StreamIngressClass %q", on.Class())
	case on.ListenerHost() == claim.AllHosts && on == a.at:
		text += " for all host names that no other listener has"
	case on.ListenerHost() != "" && on != a.at:
		text += fmt.Sprintf(", which shares the port by host name (it has %s)", on.Point())
	}
	text += fmt.Sprintf(", on port %s of Gateway %s", port(a.at), a.at.Gateway())
	if a.at.Gateway() != r.Of {
		text += ", which has an address in common with " + r.Of.String()
	}
	path, what := a.portPath(), port(a.at).String()
	if on == a.at {
		path, what = a.path(on), value(on)
	}
	text += "; " + suggest(f, r, port(a.at))
	if len(r.Before) > 0 {
		text += "; for two to change places, one of them first moves to a free port"
	}
	return refusal.Problem{Reason: v1beta1.ReasonPortConflict, Err: refusal.Duplicate(path, what, text)}
}

// isLeaving says whether the holder of a claim is not stored with it, or not any longer.
func isLeaving(f Facts, held *v1beta1.EdgeClaim, on claim.Coordinate) bool {
	if held.CreationTimestamp.IsZero() || !on.IsListener() {
		return false
	}
	return !slices.ContainsFunc(f.Standing(on), func(o Opener) bool { return o.Holder == claim.HolderOf(held) })
}
