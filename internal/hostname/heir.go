package hostname

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// A namespace hands over a host name, or a path of routes, to an object of another one, which all of its own that use the name, or serve
// the path, say by their annotation: any of them may be the one for which the namespace has it. It is the other namespace's then. What goes
// on to use the name has lost it.

// giving are what the rules for handing over see of the cluster.
type giving interface {
	// Having are the objects of a namespace that have a point: those that use a host name, as far as it is guarded in them, or routes that
	// serve a path.
	Having(namespace string, at claim.Coordinate) []User
	// Names says whether an object says that it hands over what it has to another one.
	Names(giver *User, heir types.NamespacedName) bool
}

// MostGivers is how many objects of a namespace may have a point that it hands over: the ledger asks each of them as it is stored then.
const MostGivers = 16

// AllName says whether all of the objects of a namespace that have a point name another one, by what names says of each. An Ingress that
// was made for one of them, a Service, goes with that. Of none there is nobody to say so, and of more than MostGivers nobody is asked.
func AllName(having []User, heir types.NamespacedName, names func(giver *User, heir types.NamespacedName) bool) bool {
	some := false
	if len(having) > MostGivers {
		return false
	}
	for i := range having {
		u := &having[i]
		if u.IsMade && slices.ContainsFunc(having, func(o User) bool { return o.Holder == claim.ServiceHolder(u.Namespace, u.Name) }) {
			continue
		}
		if !names(u, heir) {
			return false
		}
		some = true
	}
	return some
}

// yields says whether the namespace that has a claim on a point gives it to an object of another one, as far as is known: the object was
// promised it, or is named. One that hands over what it has itself takes nothing over: two that name each other would take a name from each
// other for ever. The ledger has the last word.
func yields(f giving, at claim.Coordinate, held *v1beta1.EdgeClaim, to *User) bool {
	heir := claim.HeirOf(held)
	switch {
	case held.Name != at.Name(), !claim.HolderOf(held).IsNamespace(), to.HandsOver(), to.Deleting:
		return false
	case to.IsMade: // its Service asks, and says whether it hands over itself
		return false
	case heir != (claim.Holder{}) && heir != claim.NamespaceHolder(to.Namespace):
		return false
	case claim.IsPromised(held, to.UID):
		return true
	}
	having := f.Having(claim.HolderOf(held).Name, at)
	return len(having) == 0 && heir != (claim.Holder{}) || AllName(having, to.Key(), f.Names)
}

// handOver is how the namespace that has a claim on a point could let an object of another one have it, as the end of a refusal; empty
// where it can't: nothing there has the point any longer, or it is promised to another namespace. If it does so already, an object that
// was admitted there a moment ago may have the point, too, and is waited for.
func handOver(
	f giving, at claim.Coordinate, held *v1beta1.EdgeClaim, to *User, isLeaving bool, graceLeft time.Duration, what string,
) string {
	from, heir := claim.HolderOf(held), claim.HeirOf(held)
	ours := claim.NamespaceHolder(to.Namespace)
	if isLeaving || held.Name != at.Name() || !from.IsNamespace() || from == ours || heir != (claim.Holder{}) && heir != ours {
		return ""
	}
	switch {
	case to.gave(held):
		return "; this object says by its annotation " + v1beta1.AnnotationHandOverTo + " that it hands it over"
	case to.HandsOver():
		return fmt.Sprintf("; or have it handed over: this object can't take anything over while it has the annotation %s itself",
			v1beta1.AnnotationHandOverTo)
	case yields(f, at, held, to):
		return fmt.Sprintf("; it is being handed over, but objects of namespace %s that %s "+
			"may have been admitted and not be stored yet: try again, %s", from.Name, what, refusal.Soon(graceLeft))
	case len(f.Having(from.Name, at)) > MostGivers:
		return fmt.Sprintf("; it can't be handed over while more than %d objects of namespace %s %s", MostGivers, from.Name, what)
	default:
	}
	return fmt.Sprintf("; or have it handed over: all objects of namespace %s that %s need the annotation %s: %s for that",
		from.Name, what, v1beta1.AnnotationHandOverTo, to.Key())
}

// HandsOver says whether an object says to whom it hands over what it has.
func (u *User) HandsOver() bool { return u.Heir != types.NamespacedName{} }

// gave says whether an object has named one of the namespace that has a claim now.
func (u *User) gave(held *v1beta1.EdgeClaim) bool {
	return u.HandsOver() && claim.HolderOf(held) == claim.NamespaceHolder(u.Heir.Namespace)
}

// Given are those of the names of an object that its namespace has no longer: that of the one to which it hands over has them. Within a
// namespace nobody gives a name away.
func Given(f Facts, u *User) (hosts []string) {
	if !u.HandsOver() || u.Heir.Namespace == u.Namespace {
		return nil
	}
	for _, n := range u.Names {
		if n.Flaw != "" || f.HostPolicies().Owner(n.Host) == nil {
			continue
		}
		if held := f.Claim(claim.Hostname(n.Host).Name()); held != nil && u.gave(held) {
			hosts = append(hosts, n.Host)
		}
	}
	return hosts
}

// seenBy is a claim as who asks for its point is told of it: that its own namespace was promised it, which is so no longer if the request
// is refused, is nothing to tell.
func seenBy(asks *User, held *v1beta1.EdgeClaim) *v1beta1.EdgeClaim {
	if claim.HeirOf(held) != claim.NamespaceHolder(asks.Namespace) {
		return held
	}
	next := held.DeepCopy()
	next.Spec.Heir = nil
	return next
}
