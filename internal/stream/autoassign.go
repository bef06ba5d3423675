package stream

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// ErrNoFreePort says that every port that a stream could be assigned is taken.
var ErrNoFreePort = errors.New("no free port")

// AutoAssign picks ports of a class for a stream that names none, until take has taken one. take says whether it got the port:
// somebody else may have picked the same at the same time. offered says which to try; it is told those that the stream has not got, and
// is asked again when those that it said are gone. The error is ErrNoFreePort when all are gone, or that of take or offered.
func AutoAssign(
	s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass,
	offered func(lost *PortSet) (Offer, error), take func(claim.Coordinate) (bool, error),
) (claim.Coordinate, error) {
	offer, lost := Offer{}, &PortSet{}
	for {
		port := offer.next(s)
		if port == 0 {
			var err error
			if offer, err = offered(lost); err != nil {
				return claim.Coordinate{}, err
			}
			port = offer.next(s)
		}
		if port == 0 {
			return claim.Coordinate{}, ErrNoFreePort
		}
		at := claim.Stream(class.Name, s.ProtocolOrDefault(), port)
		if taken, err := take(at); taken || err != nil {
			return at, err
		}
		lost.Add(port)
	}
}

// next takes the port that a stream tries next out of an offer, 0 when none is left.
func (o *Offer) next(s *v1beta1.StreamIngress) int32 {
	port := o.Port
	if o.Port = 0; port == 0 && o.Free != nil {
		port = PickPort(o.Free, s.Namespace, s.Name)
		o.Free.Remove(port)
	}
	return port
}

// NoFreePort tells a stream that every port that it could be assigned is taken.
func NoFreePort(s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) refusal.Problems {
	from, to := Ends(*class.Spec.AutoAssign)
	return refusal.One(v1beta1.ReasonNoFreePort, field.Required(listenPath, fmt.Sprintf(
		"the autoAssign range %d-%d of class %q has no free %s port left for namespace %q; name a port, or delete a stream",
		from, to, class.Name, s.ProtocolOrDefault(), s.Namespace)))
}
