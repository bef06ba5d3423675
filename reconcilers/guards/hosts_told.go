package guards

import (
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
)

// mostPathsTold is how many paths an event is about.
const mostPathsTold = 4

// handedOn is what an object can do that goes on to use what it has handed over.
const handedOn = "it was handed over, and what serves both goes on to serve the older of the two: " +
	"delete this object, or take that out of it"

// tell tells those who use a host name that is another's, or serve a path of it that is, and those who have handed it over themselves.
func (r *hostReconciler) tell(host types.NamespacedName, names []hostname.Loss, paths []hostname.PathLoss) {
	var lost []loss
	add := func(u hostname.User, kind guard.Kind, text, key string, given bool) {
		of := claim.Claimant{Holder: u.Holder, UID: u.UID}
		lost = append(lost, loss{of: of, kind: kind, reason: v1beta1.ReasonHostConflict, text: text, key: key, given: given})
	}
	wayOut := "what serves the name serves both, or one of the two: use a name that nobody has"
	for _, l := range names {
		add(l.User, l.Name.Kind, l.String(), l.Key(), l.Given)
	}
	for _, l := range paths {
		wayOut = "the Gateway serves both, or the older of the two: choose another host or path"
		add(l.User, guard.Kind(l.User.Kind), l.String(), l.Key(), l.Given)
	}
	r.losers.tell(r.Events, host, lost, mostPathsTold, wayOut, handedOn)
}
