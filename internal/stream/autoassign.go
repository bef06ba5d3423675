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

// AutoAssign picks ports for a stream that names none, until take has taken one. take says whether it got the port: somebody
// else may have picked the same at the same time. restored says which port comes first, 0 for none; it is told those that the stream
// has not got. The error is ErrNoFreePort when all are gone, or that of take or restored.
func AutoAssign(
	s *v1beta1.StreamIngress, req Request, restored func(lost *PortSet) (int32, error), take func(claim.Coordinate) (bool, error),
) (claim.Coordinate, error) {
	lost := &PortSet{}
	for {
		port, err := restored(lost)
		if err != nil {
			return claim.Coordinate{}, err
		}
		if port == 0 {
			port = PickPort(req.Free, s.Namespace, s.Name)
		}
		if port == 0 {
			return claim.Coordinate{}, ErrNoFreePort
		}
		at := claim.Stream(req.Class.Name, s.ProtocolOrDefault(), port)
		if taken, err := take(at); taken || err != nil {
			return at, err
		}
		lost.Add(port)
		req.Free.Remove(port)
	}
}

// NoFreePort tells a stream that every port that it could be assigned is taken.
func NoFreePort(s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) refusal.Problems {
	from, to := Ends(*class.Spec.AutoAssign)
	return refusal.One(v1beta1.ReasonNoFreePort, field.Required(listenPath, fmt.Sprintf(
		"the autoAssign range %d-%d of class %q has no free %s port left for namespace %q; name a port, or delete a stream",
		from, to, class.Name, s.ProtocolOrDefault(), s.Namespace)))
}
