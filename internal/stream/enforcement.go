package stream

import (
	"fmt"
	"strings"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Warning is what is said of a stream that is admitted all the same, problem is what it would be refused for.
func Warning(class *v1beta1.StreamIngressClass, problem error) string {
	return fmt.Sprintf("admitted, and not opened, as class %q only warns (enforcement: Warn): %s", class.Name, problem)
}

// IsWarning says whether what the API server warns of is such a Warning.
func IsWarning(text string) bool {
	return strings.HasPrefix(text, "admitted, and not opened, as class ")
}

// OnlyWarned says whether a stream that may not have what it asks for is admitted all the same, as its class says. It has what it asks for
// no more than one that is refused: whoever claims for it meets the same problems. class is the one that it asks for, nil where there is
// none, and then nobody has said so.
//
// What is being deleted is refused whatever the class says: it is not reported on any longer, so that nothing would tell of the problem.
func OnlyWarned(class *v1beta1.StreamIngressClass, s *v1beta1.StreamIngress) bool {
	return class != nil && class.Spec.Enforcement == v1beta1.EnforcementWarn && s.DeletionTimestamp == nil
}
