package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// yamlBlock is a manifest on a page.
var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestWhatIsShownGoesTogether holds that a reader who applies the manifests of the README, the first one of the guide and the samples that it
// names is refused none of them: no two streams have one port of the class that all of them are of.
func TestWhatIsShownGoesTogether(t *testing.T) {
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := controlplane.Render(t.Context(), samples+"/streams")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range yamlBlock.FindAllSubmatch(readme, -1) {
		objects, err := controlplane.Decode(bytes.NewReader(block[1]))
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, objects...)
	}
	var guide strings.Builder
	if err := guideText.Execute(&guide, map[string]any{}); err != nil {
		t.Fatal(err)
	}
	shown = append(shown, manifest(t, guide.String(), 1))
	holders, twice := map[string]string{}, 0
	for _, object := range shown {
		at, is := portOf(object)
		if !is {
			continue
		}
		holder := object.GetNamespace() + "/" + object.GetName()
		switch other := holders[at]; other {
		case "":
			holders[at] = holder
		case holder:
			twice++
		default:
			t.Errorf("%s and %s both ask for %s", other, holder, at)
		}
	}
	if len(holders) < 5 || twice == 0 {
		t.Errorf("%d ports, %d of them shown twice: want those of the samples, and that of the README among them", len(holders), twice)
	}
}

// portOf is the port of the default class, public, that a stream asks for; is says whether it asks for one.
func portOf(object *unstructured.Unstructured) (at string, is bool) {
	listen, has, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "listen")
	protocol, _, _ := unstructured.NestedString(object.Object, "spec", "protocol")
	if protocol == "" {
		protocol = "TCP"
	}
	return fmt.Sprintf("%s/%v", protocol, listen), has && object.GetKind() == "StreamIngress"
}
