package reconcilers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func TestNames(t *testing.T) {
	class, cm, svc := public()
	swapped, other := &corev1.Service{}, cm.DeepCopy()
	swapped.Namespace, swapped.Name, other.Namespace = cm.Namespace, cm.Name, "other"
	for name, tc := range map[string]struct {
		class *v1beta1.StreamIngressClass
		obj   client.Object
		want  bool
	}{
		"its ConfigMap":                     {class, cm, true},
		"its Service":                       {class, svc, true},
		"a Service of its ConfigMap's name": {class, swapped, false},
		"a ConfigMap in another namespace":  {class, other, false},
		"no class":                          {nil, cm, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := names(tc.class, tc.obj); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
