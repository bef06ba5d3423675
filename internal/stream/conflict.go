package stream

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// suggestions is how many free ports a refusal names.
const suggestions = 3

// Conflict tells a stream that its point is held: by whom, since when, and what is free nearby. graceLeft is how long
// the ledger keeps the claim if its holder is gone.
func Conflict(
	f Facts, s *v1beta1.StreamIngress, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft time.Duration,
) refusal.Problems {
	holder, text, ways := claim.HolderOf(held), HeldBy(held, at), suggest(f, s, at)
	switch heir := claim.HeirOf(held); {
	case heir != (claim.Holder{}): // which the text says
	case isLeaving(f, holder, at):
		text = fmt.Sprintf("held for %s, which is not stored or no longer asks for it, on class %q; it is free again %s, try again then",
			holder, at.Class(), refusal.Soon(graceLeft))
	case holder.IsStream():
		ways += refusal.HandOver(types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
	}
	return refusal.One(v1beta1.ReasonPortConflict, refusal.Duplicate(listenPath, at.Point(), text+"; "+ways))
}

// HeldBy says who holds a port of a class, since when, and to whom it is being handed over: to a stream that is refused, and to
// whoever asks who has the port.
func HeldBy(held *v1beta1.EdgeClaim, at claim.Coordinate) string {
	return refusal.HeldBy(held, fmt.Sprintf(" on class %q", at.Class()))
}

// isLeaving says whether a stream that holds a point is gone, or wants another and is not open there while it moves.
func isLeaving(f LimitFacts, holder claim.Holder, at claim.Coordinate) bool {
	if !holder.IsStream() {
		return false
	}
	s := f.Stream(holder.Key())
	if s == nil {
		return true
	}
	if p := s.Status.Previous; p != nil && claim.Stream(p.ClassName, p.Protocol, p.Listen) == at {
		return false
	}
	class := cmp.Or(s.Spec.ClassName, s.Status.ClassName, at.Class())
	return class != at.Class() || s.Spec.Listen != nil && Wanted(s, at.Class(), nil) != at
}

// suggest names the free ports next to a point that the stream's namespace may use.
func suggest(f Facts, s *v1beta1.StreamIngress, at claim.Coordinate) string {
	class := f.Class(at.Class())
	if class == nil {
		return ""
	}
	namespace := f.NamespaceLabels(s.Namespace)
	shares := portShares(f, s, class, namespace)
	free := Permitted(class, at.Protocol(), namespace, spent(shares)...)
	f.Unclaimed(free, class.Name, at.Protocol())
	FrontOf(f, class).Free(f, at.Protocol(), free)
	free.Remove(at.Port()) // what was there before may not be in the ledger yet
	nearest := free.Nearest(at.Port(), suggestions)
	if len(nearest) == 0 {
		return fmt.Sprintf("no port of this class is free for namespace %q", s.Namespace)
	}
	numbers := make([]string, len(nearest))
	for i, port := range nearest {
		numbers[i] = Key(port)
	}
	text := fmt.Sprintf("free for namespace %q nearby: %s", s.Namespace, strings.Join(numbers, ", "))
	if MayAutoAssign(class, free) {
		text += "; or leave listen out to be given a port"
	}
	return text
}

// Adoption is what is to be done about what is at a point already and was not made by Portcullis.
type Adoption struct {
	// Adopts is what the stream takes over, nil for nothing.
	Adopts *v1beta1.AdoptedEntry
	// Problems are those of a stream that finds the point held.
	Problems refusal.Problems
}

// AdoptionOf looks for what is at a point that was not made by Portcullis. A stream of the namespace that it leads to,
// which says exactly the same, takes it over. Any other finds it held, even if the ledger has no
// claim on it yet. Leave to lead somewhere is not leave to take what leads there.
func AdoptionOf(f Facts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, at claim.Coordinate) Adoption {
	found, is := f.Foreign(class, PortKey{Protocol: at.Protocol(), Port: at.Port()})
	if !is {
		return Adoption{}
	}
	if saysTheSame(f, s, class, found.Entry) {
		return Adoption{Adopts: &v1beta1.AdoptedEntry{Holder: found.Holder.Spec(found.Holder.UID), Entry: found.Entry}}
	}
	if f.Claim(at.Name()) != nil {
		return Adoption{} // the ledger will tell
	}
	return Adoption{Problems: Conflict(f, s, at, claim.New(at, found.Holder), 0)}
}

// saysTheSame says whether a foreign entry sends the traffic exactly where a stream would.
func saysTheSame(f Facts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, entry string) bool {
	theirs, err := ParseEntry(entry)
	if err != nil {
		return false // what can't be read can't say the same
	}
	if theirs.Namespace != s.Namespace || len(Consent(f, s, class)) > 0 {
		return false
	}
	svc := f.Service(upstreamOf(s))
	ours, ok := EntryFor(s, svc, "")
	if !ok {
		return false
	}
	// The foreign entry may name the port that ours has by number.
	return ours == theirs.WithNumber(svc, s.ProtocolOrDefault())
}
