package streams

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// TestHeirAt has a stream of the heir's name ask for a port that is being handed over, while its giver is gone: it is led to if that object was
// promised the port, or one of two was.
func TestHeirAt(t *testing.T) {
	for name, tc := range map[string]struct {
		heir claim.Holder
		uid  types.UID
		want bool
	}{
		"it was promised the port":                {accesstest.HolderOfPostgres, "u", true},
		"one of two was":                          {accesstest.HolderOfPostgres, "", true},
		"another of its name was, and is no more": {accesstest.HolderOfPostgres, "other", false},
		"another was":                             {claim.StreamHolder("data", "other"), "u", false},
		"nobody was":                              {},
	} {
		t.Run(name, func(t *testing.T) {
			c := claim.New(accesstest.PointOfPostgres, claim.Claimant{Holder: claim.StreamHolder("shop", "gone"), UID: "g"})
			if tc.heir != (claim.Holder{}) {
				c.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: tc.heir.Spec(tc.uid), Renewed: metav1.NewMicroTime(accesstest.Noon)}
			}
			si := accesstest.Life("u", 1, accesstest.OfClass("public"))
			b := accesstest.Of(t, c, si)
			got, err := kube.Decide(t.Context(), b.View, func(f *kube.Facts) *v1beta1.StreamIngress { return heirAt(f, accesstest.PointOfPostgres, c) })
			if err != nil || (got != nil) != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
