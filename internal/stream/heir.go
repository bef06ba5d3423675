package stream

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// HeirFacts are what the rules see of points that were handed over.
type HeirFacts interface {
	// Claim is the claim of a name.
	Claim(name string) *v1beta1.EdgeClaim
	// Held are the points that a holder has claims on.
	Held(by claim.Holder) []claim.Coordinate
}

// HandedOver refuses a stream, which holds nothing, any port once it has handed one over, for as long as it says to whom: what is handed
// over is not asked for again, be it free by now. It has, where its status says so, or that it had a port which somebody else has: nobody
// else loses one. That the heir has the port that it names is enough where the status says nothing.
func HandedOver(f HeirFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) refusal.Problems {
	self := claim.StreamHolder(s.Namespace, s.Name)
	heir, named := claim.NamedHeir(s)
	if !named || len(f.Held(self)) > 0 {
		return nil
	}
	if told := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionHandedOver); told != nil {
		return handedOver(heir, told.Message)
	}
	had := claim.Stream(s.Status.ClassName, s.ProtocolOrDefault(), s.Status.Listen)
	if meta.IsStatusConditionTrue(s.Status.Conditions, v1beta1.ConditionAccepted) && !had.IsZero() {
		if c := f.Claim(had.Name()); c != nil && claim.HolderOf(c).IsStream() && claim.HolderOf(c) != self {
			return handedOver(heir, handedOverTo(had, claim.HolderOf(c)))
		}
	}
	if wants := Wanted(s, class.Name, nil); !wants.IsZero() {
		to := claim.StreamHolder(heir.Namespace, heir.Name)
		if c := f.Claim(wants.Name()); c != nil && claim.HolderOf(c) == to {
			return handedOver(heir, handedOverTo(wants, to))
		}
	}
	return nil
}

func handedOverTo(at claim.Coordinate, to claim.Holder) string {
	return fmt.Sprintf("%s of class %q was handed over to %s: take the annotation off to ask for a port again", at.Point(), at.Class(), to)
}

func handedOver(heir types.NamespacedName, text string) refusal.Problems {
	return refusal.One(v1beta1.ReasonHandedOver, field.Invalid(refusal.HeirPath, heir.String(), text))
}

// Inherits says whether a stream, to which a point is being handed over, asks for it: it names the port, in that class. What it may
// have had, or would be given, is of no matter; nor, of one that names no class, is there an answer before its status says which it has.
func Inherits(s *v1beta1.StreamIngress, at claim.Coordinate) bool {
	class := cmp.Or(s.Spec.ClassName, s.Status.ClassName)
	return s.Spec.Listen != nil && class == at.Class() && Wanted(s, at.Class(), nil) == at
}

// UnreadableHeir refuses a stream that comes to say to whom it hands its port over, but not so that anybody can read it.
func UnreadableHeir(before, after *v1beta1.StreamIngress) refusal.Problems {
	return refusal.UnreadableHeir(before, after, before == nil, "StreamIngress", "the port")
}
