package stream

import (
	"slices"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// OnlyWarned says whether a stream with problems is admitted all the same, as its class says. It has what it asks for no more than one
// that is refused: whoever claims for it meets the same problems. class is the one that it asks for, nil where there is none, and then
// nobody has said so.
//
// What is being deleted is refused whatever the class says: it is not reported on any longer, so that nothing would tell of the problem.
func OnlyWarned(class *v1beta1.StreamIngressClass, problems refusal.Problems) bool {
	return class != nil && class.Spec.Enforcement == v1beta1.EnforcementWarn &&
		!slices.ContainsFunc(problems, func(p refusal.Problem) bool { return p.Reason == v1beta1.ReasonBeingDeleted })
}
