package v1beta1

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestAddToSchemeKnowsEveryKind compares the scheme with the types that are marked as objects.
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
	files, err := filepath.Glob("*_types.go")
	if err != nil {
		t.Fatal(err)
	}
	want, marked := map[string]bool{}, regexp.MustCompile(`(?m)^// \+kubebuilder:object:root=true\n(?://.*\n)*type (\w+) struct`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range marked.FindAllSubmatch(text, -1) {
			want[string(found[1])] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 6 {
		t.Error(diff)
	}
}
