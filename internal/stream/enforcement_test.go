package stream

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

func warns(c *v1beta1.StreamIngressClass) { c.Spec.Enforcement = v1beta1.EnforcementWarn }

func TestOnlyWarned(t *testing.T) {
	held := refusal.One(v1beta1.ReasonPortConflict, field.Invalid(listenPath, 1, ""))
	for name, tc := range map[string]struct {
		class    *v1beta1.StreamIngressClass
		problems refusal.Problems
		want     bool
	}{
		"a class that warns":    {class("public", warns), held, true},
		"one that denies":       {class("public", func(c *v1beta1.StreamIngressClass) { c.Spec.Enforcement = v1beta1.EnforcementDeny }), held, false},
		"one that says nothing": {class("public"), held, false},
		"no class":              {nil, held, false},
		"what is being deleted, among others": {
			class("public", warns), append(held, refusal.BeingDeleted(listenPath)), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := OnlyWarned(tc.class, tc.problems); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
