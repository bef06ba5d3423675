package plugin

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// update writes what is got where what is wanted is kept.
var update = flag.Bool("update", false, "write the golden files")

// TestImport imports clusters, each a file of testdata/import, and compares what is written with the file of the same name beside it.
func TestImport(t *testing.T) {
	files, err := filepath.Glob("testdata/import/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".in.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, args := clusterOf(t, text)
			got := run(t, c, append([]string{"kubectl-portcullis", "import"}, args...)...)
			all := got.out + "# exit status " + string(rune('0'+got.status)) + ", and on standard error:\n"
			for line := range strings.Lines(got.err) {
				all += "# " + line
			}
			golden := strings.TrimSuffix(file, ".in.yaml") + ".out.yaml"
			if *update {
				if err := os.WriteFile(golden, []byte(all), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if all != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", all, want)
			}
			objectsIn(t, got.out)
		})
	}
}

// objectsIn are the objects of a stream of YAML documents.
func objectsIn(t *testing.T, text string) (objects []*unstructured.Unstructured) {
	t.Helper()
	reader := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := reader.Decode(&u.Object)
		if err != nil {
			if err.Error() != "EOF" {
				t.Fatalf("%v in:\n%s", err, text)
			}
			return objects
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
}

// clusterOf is a cluster of the objects of a file, of which the first line says the arguments.
func clusterOf(t *testing.T, text []byte) (c *fake, args []string) {
	t.Helper()
	first, _, _ := bytes.Cut(text, []byte("\n"))
	args = strings.Fields(strings.TrimPrefix(string(first), "# import"))
	c = &fake{objects: map[string][]runtime.Object{}}
	kinds := map[string]struct {
		plural string
		empty  func() runtime.Object
	}{
		"Namespace":          {"namespaces", func() runtime.Object { return &corev1.Namespace{} }},
		"Service":            {"services", func() runtime.Object { return &corev1.Service{} }},
		"ConfigMap":          {"configmaps", func() runtime.Object { return &corev1.ConfigMap{} }},
		"Deployment":         {"deployments", func() runtime.Object { return &appsv1.Deployment{} }},
		"StreamIngressClass": {"streamingressclasses", func() runtime.Object { return &v1beta1.StreamIngressClass{} }},
		"StreamIngress":      {"streamingresses", func() runtime.Object { return &v1beta1.StreamIngress{} }},
		"AddressPool":        {"addresspools", func() runtime.Object { return &v1beta1.AddressPool{} }},
		"IPAddressPool":      {"ipaddresspools", func() runtime.Object { return &unstructured.Unstructured{} }},
	}
	for _, u := range objectsIn(t, string(text)) {
		k, known := kinds[u.GetKind()]
		if !known {
			t.Fatalf("kind %q", u.GetKind())
		}
		obj := k.empty()
		if into, is := obj.(*unstructured.Unstructured); is {
			into.Object = u.Object
		} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
			t.Fatal(err)
		}
		c.objects[k.plural] = append(c.objects[k.plural], obj)
	}
	return c, args
}

// TestImportFlags holds that flags that nobody can mean end it at once.
func TestImportFlags(t *testing.T) {
	for _, args := range []string{"--only x", "--only=", "--only pools -n shop", "--class A", "--class " + strings.Repeat("a", 64), "x"} {
		if got := run(t, &fake{}, append([]string{"kubectl-portcullis", "import"}, strings.Fields(args)...)...); got.status != ExitUnread {
			t.Errorf("%s: %d, %s", args, got.status, got.err)
		}
	}
}

// TestImportOfWhatIsForbidden says what could not be read, and makes nothing of that.
func TestImportOfWhatIsForbidden(t *testing.T) {
	text, err := os.ReadFile("testdata/import/haproxy.in.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for plural, wants := range map[string]struct {
		out    string
		status int
	}{
		"services":   {"could not read services: forbidden: there may be more", ExitFindings},
		"namespaces": {"could not read namespaces: forbidden: there may be more", ExitFindings},
		"":           {"", ExitUnread},
	} {
		c, args := clusterOf(t, text)
		c.refuses = func(kind, _ string) error {
			if plural == "" || kind == plural {
				return forbid(kind)
			}
			return nil
		}
		got := run(t, c, append([]string{"kubectl-portcullis", "import"}, args...)...)
		if got.status != wants.status || !strings.Contains(got.out, wants.out) || strings.Contains(got.out, "there is no Service") {
			t.Errorf("%s: %d\n%s%s", plural, got.status, got.out, got.err)
		}
	}
}

// TestImportOfPoolsWithoutServices holds that no pool is to be applied where not all Services could be read.
func TestImportOfPoolsWithoutServices(t *testing.T) {
	text, err := os.ReadFile("testdata/import/metallb.in.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for what, isRefused := range map[string]func(namespace string) bool{
		"all":            func(string) bool { return true },
		"all but of one": func(namespace string) bool { return namespace == "" },
	} {
		c, _ := clusterOf(t, text)
		c.refuses = func(kind, namespace string) error {
			if kind == "services" && isRefused(namespace) {
				return forbid(kind)
			}
			return nil
		}
		got := run(t, c, "kubectl-portcullis", "import")
		if objects := objectsIn(t, got.out); len(objects) > 0 || got.status == ExitFine || !strings.Contains(got.out, "# kind: AddressPool") {
			t.Errorf("%s: %d\n%s%s", what, got.status, got.out, got.err)
		}
	}
}

// TestImportNeedsNoPortcullis has none of its kinds installed.
func TestImportNeedsNoPortcullis(t *testing.T) {
	text, err := os.ReadFile("testdata/import/haproxy.in.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, args := clusterOf(t, text)
	c.refuses = func(kind, _ string) error {
		if strings.HasPrefix(kind, "streamingress") || kind == "addresspools" || kind == "edgeclaims" {
			return missing(kind)
		}
		return nil
	}
	got := run(t, c, append([]string{"kubectl-portcullis", "import"}, args...)...)
	if objects := objectsIn(t, got.out); len(objects) != 3 || strings.Contains(got.out, "could not read") {
		t.Errorf("got %d:\n%s%s", len(objects), got.out, got.err)
	}
}
