package v1beta1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestAddToSchemeKnowsEveryKind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for kind, of := range scheme.KnownTypes(GroupVersion) {
		if of.PkgPath() == "jeffthecoder.xyz/portcullis/api/v1beta1" {
			got[kind] = true
		}
	}
	want := map[string]bool{}
	for _, kind := range []string{"StreamIngress", "StreamIngressClass", "EdgeClaim", "PodToIP"} {
		want[kind], want[kind+"List"] = true, true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
