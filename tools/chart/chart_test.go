package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const config = "../../config"

// chartIn writes the chart to a directory, and returns it.
func chartIn(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "portcullis")
	if err := run(config, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// helmTool are the arguments of go that run helm, as pinned.
func helmTool(args ...string) []string {
	return append([]string{"tool", "-modfile=" + filepath.Join("..", "helm", "go.mod"), "helm"}, args...)
}

// built has go compile helm, for minutes the first time. It would compile it once for each of several tests that run helm at the same time.
var built = sync.OnceValue(func() error { return exec.Command("go", helmTool("version")...).Run() })

// helm runs helm, and returns what it says.
func helm(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	if err := built(); err != nil {
		return nil, fmt.Errorf("building helm: %w", err)
	}
	cmd := exec.CommandContext(t.Context(), "go", helmTool(args...)...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(err, errors.New(stderr.String()))
	}
	return out, err
}

// objectsIn are the objects of manifests by kind, namespace and name, without the Namespace, which is Helm's.
func objectsIn(t *testing.T, manifests []byte) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	decoder := yaml.NewDecoder(bytes.NewReader(manifests))
	for {
		object := map[string]any{}
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if len(object) == 0 || object["kind"] == "Namespace" {
			continue
		}
		metadata := object["metadata"].(map[string]any) //nolint:forcetypeassert // or it is no object
		if annotations, has := metadata["annotations"].(map[string]any); has {
			delete(annotations, "helm.sh/resource-policy")
		}
		id := fmt.Sprint(object["kind"], " ", metadata["namespace"], "/", metadata["name"])
		if all[id] != nil {
			t.Errorf("%s is there twice", id)
		}
		all[id] = object
	}
}

// TestChartIsTheKustomizeTree holds that the chart makes the objects of the base and the components that its values name, field by field.
func TestChartIsTheKustomizeTree(t *testing.T) {
	t.Parallel()
	dir := chartIn(t)
	certificates := map[string]string{"certmanager": "CertManager", "selfsigned": "SelfSigned"}
	value := map[string]string{
		"guard": "guard", "prometheus": "prometheus", "grafana": "grafana", "networkpolicy": "networkPolicy", "rbac/ledger-for-all": "ledgerForAll",
	}
	for _, components := range [][]string{
		{"selfsigned"},
		{"certmanager"},
		{"selfsigned", "guard"},
		{"certmanager", "prometheus", "grafana"},
		{"selfsigned", "networkpolicy", "rbac/ledger-for-all"},
		{"certmanager", "guard", "prometheus", "grafana", "networkpolicy", "rbac/ledger-for-all"},
		{"selfsigned", "guard", "prometheus", "grafana", "networkpolicy", "rbac/ledger-for-all"},
	} {
		t.Run(strings.Join(components, ","), func(t *testing.T) {
			t.Parallel()
			args := []string{"template", "release", dir, "--skip-tests", "--namespace=" + namespace, "--set=certificates=" + certificates[components[0]]}
			for _, c := range components[1:] {
				args = append(args, "--set="+value[c]+".enabled=true")
			}
			text, err := helm(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			built, err := render(config, components)
			if err != nil {
				t.Fatal(err)
			}
			want, err := built.AsYaml()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(objectsIn(t, want), objectsIn(t, text)); diff != "" {
				t.Errorf("(-kustomize +helm):\n%s", diff)
			}
		})
	}
}

// TestValues holds what single values do, and that a namespace of another name is everywhere.
func TestValues(t *testing.T) {
	t.Parallel()
	dir := chartIn(t)
	digest := "sha256:" + strings.Repeat("0a", 32)
	text, err := helm(t, "template", "release", dir, "--namespace=elsewhere", "--set=replicas=3", "--set=image.repository=registry.example.com/portcullis",
		"--set=image.digest="+digest, "--set=args={--default-load-balancer,--pod-to-ip=all}", "--set=guard.enabled=true", "--set=guard.mode=all=Warn",
		"--set=resources.limits.memory=1Gi", "--set=certificates=CertManager", "--set=prometheus.enabled=true", "--set=networkPolicy.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(namespace)) {
		t.Errorf("%s is in the manifests for another namespace", namespace)
	}
	for _, want := range []string{
		"replicas: 3", `image: "registry.example.com/portcullis@` + digest + `"`, `- "--default-load-balancer"`, `- "--pod-to-ip=all"`,
		"--guard=all=Warn", "memory: 1Gi", "cert-manager.io/inject-ca-from: elsewhere/portcullis-webhook", "portcullis-webhook.elsewhere.svc",
		"{{ $labels.kind }}",
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%q is not there", want)
		}
	}
}

// TestHook holds that helm test makes an object that the API server stores only with Portcullis' consent, and takes it away again.
func TestHook(t *testing.T) {
	t.Parallel()
	text, err := helm(t, "template", "release", chartIn(t), "--show-only=templates/tests/admission.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var hook struct {
		Kind     string
		Metadata struct{ Annotations map[string]string }
	}
	if err := yaml.Unmarshal(text, &hook); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"helm.sh/hook": "test", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}
	if diff := cmp.Diff(want, hook.Metadata.Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	webhooks, err := os.ReadFile(filepath.Join(config, "webhook", "manifests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var configuration struct {
		Webhooks []struct {
			FailurePolicy string `yaml:"failurePolicy"`
			Rules         []struct{ Operations, Resources []string }
		}
	}
	if err := yaml.Unmarshal(webhooks, &configuration); err != nil {
		t.Fatal(err)
	}
	for _, w := range configuration.Webhooks {
		if w.FailurePolicy == "Fail" && slices.Contains(w.Rules[0].Resources, "hostpolicies") && slices.Contains(w.Rules[0].Operations, "CREATE") {
			if hook.Kind != "HostPolicy" {
				t.Errorf("the hook is a %s", hook.Kind)
			}
			return
		}
	}
	t.Error("a HostPolicy is stored without Portcullis' consent")
}

// TestWrongValues holds that what no value can be is refused, with the field.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	dir := chartIn(t)
	for set, says := range map[string]string{
		"replicas=0": "/replicas", "certificates=None": "/certificates", "image.digest=latest": "/image/digest", "guard.mode=all": "/guard/mode",
		"guards.enabled=true": "guards", "args={default-load-balancer}": "/args",
	} {
		if _, err := helm(t, "template", "release", dir, "--set="+set); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", set, err, says)
		}
	}
	if _, err := helm(t, "lint", "--strict", dir); err != nil {
		t.Errorf("lint: %v", err)
	}
}

// TestWhatNoTemplateCanSay holds that a component which changes a field, or takes one out, is an error.
func TestWhatNoTemplateCanSay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ from, with, says string }{
		"another value":      {"a: 1", "a: 2", `a: "1" becomes "2"`},
		"a field that goes":  {"a: 1\nb: 2", "b: 2", "a goes"},
		"an item that goes":  {"a: [1, 2]", "a: [1]", "items go"},
		"another kind":       {"a: [1]", "a: {b: 1}", "becomes something else"},
		"an item in between": {"a: [1, 2]", "a: [3, 1, 2]", "item 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, with := parsed(t, tc.from), parsed(t, tc.with)
			if err := add(copyOf(from), from, with, ".x"); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %s", err, tc.says)
			}
		})
	}
}

func parsed(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		t.Fatal(err)
	}
	return n.Content[0]
}

// TestChartIsUpToDate holds that the chart of the repository is that of its config.
func TestChartIsUpToDate(t *testing.T) {
	t.Parallel()
	want, got := filesIn(t, chartIn(t)), filesIn(t, filepath.Join("..", "..", "charts", "portcullis"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run make chart (-want +got):\n%s", diff)
	}
}

func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	}); !slices.Contains(names, "Chart.yaml") {
		t.Fatalf("%s has %v", dir, names)
	}
	return files
}
