package guards

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
)

// mostPathsTold is how many paths an event is about.
const mostPathsTold = 4

// handedOn is what an object can do that goes on to use what it has handed over.
const handedOn = "it was handed over, and what serves both goes on to serve the older of the two: " +
	"delete this object, or take that out of it"

// lossOfHost is what an object has lost on a host: the name, or paths of it.
type lossOfHost struct {
	user hostname.User
	told
	// given is what of it the object has handed over, in words, and taken what it has not; of either the first.
	given, taken []string
}

// add adds a loss to those of an object.
func (l *lossOfHost) add(user hostname.User, kind guard.Kind, text, key string, given bool) {
	l.user, l.kind = user, kind
	l.points++
	l.key += key + "\n"
	told := &l.taken
	if given {
		told = &l.given
	}
	if len(*told) < mostPathsTold {
		*told = append(*told, text)
	}
}

// tell tells those who use a host name that is another's, or serve a path of it that is, by an event about their object, and by one about
// what they have handed over themselves.
func (r *hostReconciler) tell(host types.NamespacedName, names []hostname.Loss, paths []hostname.PathLoss) {
	lost := map[types.UID]*lossOfHost{}
	of := func(u hostname.User) *lossOfHost {
		if lost[u.UID] == nil {
			lost[u.UID] = &lossOfHost{}
		}
		return lost[u.UID]
	}
	wayOut := "what serves the name serves both, or one of the two: use a name that nobody has"
	for _, l := range names {
		of(l.User).add(l.User, l.Name.Kind, l.String(), l.Key(), l.Given)
	}
	for _, l := range paths {
		wayOut = "the Gateway serves both, or the older of the two: choose another host or path"
		of(l.User).add(l.User, guard.Kind(l.User.Kind), l.String(), l.Key(), l.Given)
	}
	now := map[types.UID]told{}
	for uid, l := range lost {
		now[uid] = l.told
	}
	for _, uid := range r.losers.are(host, now) {
		l := lost[uid]
		about := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: l.user.Namespace, Name: l.user.Name, UID: uid}}
		about.SetGroupVersionKind(schema.GroupVersionKind{Group: l.user.Group, Version: "v1", Kind: l.user.Kind})
		if len(l.taken) > 0 {
			report.Emit(r.Events, about, nil, corev1.EventTypeWarning, v1beta1.ReasonHostConflict, "Guard",
				strings.Join(append(l.taken, wayOut), "; "))
		}
		if len(l.given) > 0 {
			report.Emit(r.Events, about, nil, corev1.EventTypeNormal, v1beta1.ReasonHandedOver, "Guard",
				strings.Join(append(l.given, handedOn), "; "))
		}
	}
}
