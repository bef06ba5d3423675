package streams

import (
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestWordsFit reports what there is no room for on streams and classes.
func TestWordsFit(t *testing.T) {
	problems := accesstest.Problem(v1beta1.ReasonInvalid, accesstest.LongText)
	class, _, _ := accesstest.Public()
	for name, tc := range map[string]struct {
		of     client.Object
		report func(base, client.Object) error
	}{
		"a stream that is refused": {accesstest.Postgres(), func(b base, obj client.Object) error {
			return (&streamReconciler{base: b}).report(t.Context(), obj.(*v1beta1.StreamIngress), &verdict{refusal: problems, resolved: problems})
		}},
		"a class that writes to what is another's": {class, func(b base, obj client.Object) error {
			return (&classReconciler{base: b}).reportConflict(t.Context(), obj.(*v1beta1.StreamIngressClass), problems)
		}},
		"a class whose ConfigMap can't be written": {class, func(b base, obj client.Object) error {
			r := classReport{configMapError: errors.New(accesstest.LongText)}
			r.refuse(tcpPorts(80)[0], v1beta1.ReasonPortRefused, accesstest.LongText)
			return b.reportClass(t.Context(), obj.(*v1beta1.StreamIngressClass), r)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			accesstest.MustFit(t, tc.of, func(a access.Access, obj client.Object) error { return tc.report(withLeftovers(a), obj) })
		})
	}
}
