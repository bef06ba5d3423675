package stream

import (
	"errors"
	"testing"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func warns(c *v1beta1.StreamIngressClass) { c.Spec.Enforcement = v1beta1.EnforcementWarn }

func TestWarning(t *testing.T) {
	if text := Warning(class("public"), errors.New("spec.listen: held")); !IsWarning(text) {
		t.Errorf("%q is not recognized", text)
	}
	if IsWarning("spec.upstream.service: there is no Service team/web yet") {
		t.Error("another warning is taken for it")
	}
}

func TestOnlyWarned(t *testing.T) {
	for name, tc := range map[string]struct {
		class  *v1beta1.StreamIngressClass
		stream *v1beta1.StreamIngress
		want   bool
	}{
		"a class that warns":    {class("public", warns), sti(), true},
		"one that denies":       {class("public", func(c *v1beta1.StreamIngressClass) { c.Spec.Enforcement = v1beta1.EnforcementDeny }), sti(), false},
		"one that says nothing": {class("public"), sti(), false},
		"no class":              {nil, sti(), false},
		"what is being deleted": {class("public", warns), sti(isDeleted), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := OnlyWarned(tc.class, tc.stream); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
