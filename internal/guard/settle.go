package guard

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Ledger is what is claimed, and what stands.
type Ledger interface {
	// Claim is the claim of a name, nil for none.
	Claim(name string) *v1beta1.EdgeClaim
	// HostClaims are the claims on host names at a port of a Gateway.
	HostClaims(hosts claim.Coordinate) []*v1beta1.EdgeClaim
	// Standing are those that are stored with a listener at a point of a Gateway, or of one that has an address in common with it; or, where
	// that stands for all that share a port by host name, with any there.
	Standing(at claim.Coordinate) []Opener
}

// Loss is a listener that stands where somebody else has the point: no implementation serves both, and which of them it does serve, the
// ledger does not say.
type Loss struct {
	Opener   Opener
	Listener Listener
	At       claim.Coordinate
	// Held is the claim, or what it will be, of who has it.
	Held *v1beta1.EdgeClaim
	// Claimed says that it has a claim itself, beside which the other one can't be: whoever made one of the two ended before it found the
	// other. See claim.Ledger.Confirm.
	Claimed bool
}

// String says who has what a listener asks for.
func (l Loss) String() string {
	point := l.At.Point()
	if l.At.ListenerHost() != "" {
		point += fmt.Sprintf(" at port %d", l.At.Port())
	}
	text := fmt.Sprintf("spec.listeners[%d]: %s on Gateway %s is %s", l.Listener.Index, point, l.At.Gateway(), refusal.Held(l.Held, false, 0))
	if on, err := claim.Of(l.Held); err == nil && on.IsListener() && on != l.At {
		text += ", which has " + on.Point() + " there"
	}
	return text
}

// Key says whether two losses are the same to whom they are told.
func (l Loss) Key() string { return l.At.String() + " " + claim.HolderOf(l.Held).String() }

// settling is a look at all who listen on a Gateway.
type settling struct {
	ledger  Ledger
	classes []*v1beta1.StreamIngressClass
	// planned are the points that are about to be entered, and names those which share a port by host name.
	planned map[claim.Coordinate]claim.Claimant
	names   map[claim.Coordinate][]claim.Entry
}

// Settle says what is to be entered of what stands on a Gateway, and who stands where somebody else has the point. What is claimed stays
// claimed; a point without a claim goes to whom an implementation of the Gateway API serves: openers are in that order, as CompareOpeners
// has it. A claim whose holder listens there no longer is about to be released, and nobody's loss.
func Settle(
	ledger Ledger, openers []Opener, scopes []types.NamespacedName, classes []*v1beta1.StreamIngressClass,
) (enter []claim.Entry, lost []Loss) {
	s := &settling{
		ledger: ledger, classes: classes, planned: map[claim.Coordinate]claim.Claimant{}, names: map[claim.Coordinate][]claim.Entry{},
	}
	for _, o := range openers {
		for _, l := range o.Listeners {
			entries, loss := s.settle(o, l, scopes)
			enter = append(enter, entries...)
			if loss != nil {
				lost = append(lost, *loss)
			}
		}
	}
	return enter, lost
}

// settle does so for a listener.
func (s *settling) settle(o Opener, l Listener, scopes []types.NamespacedName) (enter []claim.Entry, loss *Loss) {
	for _, scope := range scopes {
		for _, at := range l.Points(scope) {
			held := s.heldAt(o.Holder, at)
			if held == nil {
				if !s.isEntered(at) {
					enter = append(enter, claim.Entry{By: o.Claimant, At: at})
				}
				continue
			}
			if !s.isLeaving(held) {
				own := s.ledger.Claim(at.Name())
				claimed := own != nil && claim.HolderOf(own) == o.Holder
				return nil, &Loss{Opener: o, Listener: l, At: at, Held: held, Claimed: claimed}
			}
			return nil, nil
		}
	}
	for _, e := range enter {
		s.planned[e.At] = e.By
		if e.At.ListenerHost() != "" {
			s.names[hostsAt(e.At)] = append(s.names[hostsAt(e.At)], e)
		}
	}
	return enter, nil
}

// isEntered says whether a point has a claim, and, if it shares a port by host name, the one that says so.
func (s *settling) isEntered(at claim.Coordinate) bool {
	if s.ledger.Claim(at.Name()) == nil {
		return false
	}
	return at.ListenerHost() == "" || s.ledger.Claim(hostsAt(at).Name()) != nil
}

// hostsAt stands for all who share the port of a point by host name.
func hostsAt(at claim.Coordinate) claim.Coordinate {
	return claim.Listener(at.Gateway(), claim.HTTPListener, at.Port())
}

// heldAt is who else has a point, or what it can't be beside, or is about to be entered there; nil for nobody.
func (s *settling) heldAt(but claim.Holder, at claim.Coordinate) *v1beta1.EdgeClaim {
	if held := heldAt(s.ledger, but, at, s.isLeaving); held != nil {
		return held
	}
	if held := heldByStream(s.ledger, s.classes, at); held != nil {
		return held
	}
	for _, other := range append([]claim.Coordinate{at}, at.InTheWay()...) {
		if by, planned := s.planned[other]; planned && by.Holder != but {
			return claim.New(other, by)
		}
		for _, e := range s.names[other] {
			if e.By.Holder != but {
				return claim.New(e.At, e.By)
			}
		}
	}
	return nil
}

// isLeaving says whether the holder of a claim listens there no longer. A claim that is yet to be entered is of one that does.
func (s *settling) isLeaving(held *v1beta1.EdgeClaim) bool {
	at, err := claim.Of(held)
	if _, planned := s.planned[at]; err != nil || planned {
		return false
	}
	return at.IsListener() && !slices.ContainsFunc(s.ledger.Standing(at), func(o Opener) bool { return o.Holder == claim.HolderOf(held) })
}
