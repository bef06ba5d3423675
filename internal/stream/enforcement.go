package stream

import "jeffthecoder.xyz/portcullis/api/v1beta1"

// OnlyWarned says whether a stream that may not have what it asks for is admitted all the same, as its class says. It has what it asks for
// no more than one that is refused: whoever claims for it meets the same problems. class is the one that it asks for, nil where there is
// none, and then nobody has said so.
//
// What is being deleted is refused whatever the class says: it is not reported on any longer, so that nothing would tell of the problem.
func OnlyWarned(class *v1beta1.StreamIngressClass, s *v1beta1.StreamIngress) bool {
	return class != nil && class.Spec.Enforcement == v1beta1.EnforcementWarn && s.DeletionTimestamp == nil
}
