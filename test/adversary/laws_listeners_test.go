package adversary

import (
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// lawsOfListeners are about what the ledger says of the listeners that others open on the Gateway. While no replica answers, anybody may
// store any, and it takes a moment until the ledger is right again: what they are about has been so for a while.
var lawsOfListeners = []law{
	{"a listener keeps its point for as long as it is there", false, keepsItsListener},
	{"no two listeners have what one of them has to have alone", false, listensAlone},
}

// noteOpener notes since when somebody listens where.
func (m *moment) noteOpener(c change, o guard.Opener) {
	since := map[claim.Coordinate]time.Time{}
	for _, l := range o.Listeners {
		for _, at := range l.Points(o.Of) {
			if since[at] = m.listens[o.Holder][at]; since[at].IsZero() {
				since[at] = c.seen
			}
		}
	}
	if m.listens[o.Holder] = since; c.gone || o.Of != keyOf(gateway()) {
		delete(m.listens, o.Holder)
	}
}

// opener is what an object listens on.
func opener(obj client.Object) guard.Opener {
	if g, is := obj.(*gatewayv1.Gateway); is {
		return guard.OfGateway(g)
	}
	set := obj.(*gatewayv1.ListenerSet)
	return guard.OfListenerSet(set, kube.GatewayOf(set))
}

// noteOwner notes since when a claim is its holder's.
func (m *moment) noteOwner(c change, was, is *v1beta1.EdgeClaim) {
	m.unowned = m.owned[is.Name]
	switch {
	case c.gone:
		delete(m.owned, is.Name)
	case was == nil || claim.HolderOf(was) != claim.HolderOf(is):
		m.owned[is.Name] = c.seen
	}
}

// standsFor says whether somebody listens at a point, and has done so for a while.
func (m *moment) standsFor(holder claim.Holder, at claim.Coordinate, now time.Time) bool {
	since, listens := m.listens[holder][at]
	return listens && now.Sub(since) > known
}

func keepsItsListener(now *moment, c change, before client.Object) error {
	was, ok := before.(*v1beta1.EdgeClaim)
	if !ok {
		return nil
	}
	at, holder := pointOfClaim(was), claim.HolderOf(was)
	if !at.IsListener() || at.IsHosts() || now.holder(at) == holder || !now.standsFor(holder, at, c.seen) ||
		c.seen.Sub(now.unowned) <= known {
		return nil
	}
	return fmt.Errorf("%s is now held by %s, and %s listens there", at, now.heldBy(at), holder)
}

func listensAlone(now *moment, c change, _ client.Object) error {
	if _, ok := c.object.(*v1beta1.EdgeClaim); !ok {
		return nil
	}
	for _, name := range now.claims {
		at := pointOfClaim(name)
		if at.ListenerHost() == "" {
			continue
		}
		for _, other := range at.InTheWay() {
			whole := now.claims[other.Name()]
			if whole == nil || claim.HolderOf(whole) == claim.HolderOf(name) {
				continue
			}
			if now.hasFor(name, at, c.seen) && now.hasFor(whole, other, c.seen) {
				return fmt.Errorf("%s\n  and %s\n  have one port", edgeClaim(name), edgeClaim(whole))
			}
		}
	}
	return nil
}

// hasFor says whether the holder of a claim has had it, and listened there, for a while.
func (m *moment) hasFor(c *v1beta1.EdgeClaim, at claim.Coordinate, now time.Time) bool {
	return now.Sub(m.owned[c.Name]) > known && m.standsFor(claim.HolderOf(c), at, now)
}

// listenersSettled says which listener has no claim, while nobody has one that is in its way.
func (m *moment) listenersSettled() error {
	for holder, points := range m.listens {
		for at := range points {
			if m.holder(at) == (claim.Holder{}) && !m.isInTheWay(holder, at) {
				return fmt.Errorf("nobody has %s, where %s listens", at, holder)
			}
		}
	}
	return nil
}

// isInTheWay says whether somebody has a claim that a listener can't be beside.
func (m *moment) isInTheWay(of claim.Holder, at claim.Coordinate) bool {
	for _, c := range m.claims {
		held := pointOfClaim(c)
		if claim.HolderOf(c) == of || held.Gateway() != at.Gateway() || held.Port() != at.Port() || held.IsHosts() {
			continue
		}
		isWhole := func(at claim.Coordinate) bool { return at.ListenerHost() == "" && at.Protocol() == v1beta1.TCP }
		if isWhole(held) && at.ListenerHost() != "" || isWhole(at) && held.ListenerHost() != "" {
			return true
		}
	}
	return false
}

// listenerNeeds says whether the holder of a claim listens at its point, or, of the one that stands for all host names at a port, whether
// anybody has one of those.
func (m *moment) listenerNeeds(holder claim.Holder, at claim.Coordinate) bool {
	if !at.IsHosts() {
		_, listens := m.listens[holder][at]
		return listens || at.Gateway() != keyOf(gateway())
	}
	for _, c := range m.claims {
		if held := pointOfClaim(c); held.ListenerHost() != "" && held.Gateway() == at.Gateway() && held.Port() == at.Port() {
			return true
		}
	}
	return false
}
