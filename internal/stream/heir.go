package stream

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// HeirFacts are what the rules see of points that were handed over.
type HeirFacts interface {
	// Claim is the claim of a name.
	Claim(name string) *v1beta1.EdgeClaim
}

// HandedOver refuses a stream, which holds nothing, the port that it has handed over, for as long as it says to whom: what is handed over is
// not asked for again, be it free by now. The status remembers that it was.
func HandedOver(f HeirFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) refusal.Problems {
	heir, named := claim.NamedHeir(s)
	if !named {
		return nil
	}
	accepted := meta.FindStatusCondition(s.Status.Conditions, v1beta1.ConditionAccepted)
	if accepted == nil || accepted.Reason != v1beta1.ReasonHandedOver {
		port := s.Status.Listen
		if s.Spec.Listen != nil {
			port = *s.Spec.Listen
		}
		c := f.Claim(claim.Stream(class.Name, s.ProtocolOrDefault(), port).Name())
		if c == nil || claim.HolderOf(c) != claim.StreamHolder(heir.Namespace, heir.Name) {
			return nil
		}
	}
	return refusal.One(v1beta1.ReasonHandedOver, field.Invalid(refusal.HeirPath, heir.String(), fmt.Sprintf(
		"the port on class %q was handed over: remove the annotation to ask for a port again", class.Name)))
}

// UnreadableHeir refuses a stream that comes to say to whom it hands its port over, but not so that anybody can read it.
func UnreadableHeir(before, after *v1beta1.StreamIngress) refusal.Problems {
	if before == nil {
		return refusal.UnreadableHeir(nil, after, "StreamIngress")
	}
	return refusal.UnreadableHeir(before, after, "StreamIngress")
}
