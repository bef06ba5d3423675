package guard

import (
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Request is what an object with listeners asks for.
type Request struct {
	Opener
	// Before are the listeners that it has been stored with on the same Gateway.
	Before []Listener
	// Deleting says that it is being deleted.
	Deleting bool
	// Scopes are the Gateways on which it has to be alone, and Classes those whose streams are there.
	Scopes  []types.NamespacedName
	Classes []*v1beta1.StreamIngressClass
}

// asked is a listener that is new, with a point that it asks for.
type asked struct {
	Listener
	at claim.Coordinate
}

// all are the points that a request asks for on its own Gateway.
func (r *Request) all() (points []asked) {
	points = make([]asked, 0, len(r.Listeners))
	for _, l := range r.Listeners {
		for _, at := range l.Points(r.Of) {
			points = append(points, asked{l, at})
		}
	}
	return points
}

// new are those of all points of a request that it asks for anew, on every Gateway where it has to be alone. A listener that merely has
// another name, or place, is not new.
func (r *Request) new(all []asked) (points []asked) {
	had := map[claim.Coordinate]bool{}
	for _, l := range r.Before {
		for _, at := range l.Points(r.Of) {
			had[at] = true
		}
	}
	points = make([]asked, 0, len(all)*len(r.Scopes))
	for _, a := range all {
		if had[a.at] {
			continue
		}
		for _, scope := range r.Scopes {
			points = append(points, asked{a.Listener, On(scope, a.at)})
		}
	}
	return points
}

// On is the same point of a Gateway as one of another.
func On(gateway types.NamespacedName, at claim.Coordinate) claim.Coordinate {
	switch host := at.ListenerHost(); {
	case at.Gateway() == gateway:
		return at
	case host != "":
		return claim.HostListener(gateway, at.Protocol(), at.Port(), host)
	default:
		return claim.Listener(gateway, at.Protocol(), at.Port())
	}
}

// Points are those that a request asks for anew.
func (r *Request) Points() []claim.Coordinate {
	var points []claim.Coordinate
	for _, a := range r.new(r.all()) {
		points = append(points, a.at)
	}
	return points
}
