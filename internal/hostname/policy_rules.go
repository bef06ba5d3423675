package hostname

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// PolicyProblems are what is wrong with a policy: hosts that others have, and a selector that can't be read.
func PolicyProblems(p *Policy, conflicts []Conflicting) (problems refusal.Problems) {
	spec := field.NewPath("spec")
	if p.selector == nil {
		problems = refusal.One(v1beta1.ReasonInvalid, field.Invalid(spec.Child("namespaceSelector"), "",
			"selects no namespace, as it can't be read: see labels and selectors in the documentation of Kubernetes"))
	}
	for _, c := range conflicts {
		problems = append(problems, refusal.Problem{
			Reason: v1beta1.ReasonHostPolicyConflict,
			Err: refusal.Duplicate(spec.Child("hosts").Index(c.Index), c.Host, fmt.Sprintf(
				"%s has it%s; name a part of it, which then counts there, or change that policy", c.Older, refusal.Since(c.Older))),
		})
	}
	return problems
}
