package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// rendered are the objects of an overlay with the components for monitoring, by kind/name.
func rendered(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	there, err := filepath.Rel(dir, filepath.Join(root, "config"))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("resources: [%s/overlays/standalone]\ncomponents: [%[1]s/prometheus, %[1]s/grafana]\n", there)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Rel(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := controlplane.Render(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]*unstructured.Unstructured{}
	for _, object := range list {
		objects[object.GetKind()+"/"+object.GetName()] = object
	}
	return objects
}

// TestComponents holds that an operator finds what the components bring: Prometheus its targets, Grafana its dashboard.
func TestComponents(t *testing.T) {
	objects := rendered(t)
	monitor, service, board := objects["ServiceMonitor/portcullis"], objects["Service/portcullis-metrics"], objects["ConfigMap/portcullis-dashboard"]
	if monitor == nil || service == nil || board == nil || objects["PrometheusRule/portcullis"] == nil {
		t.Fatalf("missing among %d objects", len(objects))
	}
	wanted, _, err := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
	if err != nil || len(wanted) == 0 || !labels.SelectorFromSet(wanted).Matches(labels.Set(service.GetLabels())) {
		t.Errorf("the ServiceMonitor looks for %v, and the Service has %v: %v", wanted, service.GetLabels(), err)
	}
	ports, _, err := unstructured.NestedSlice(service.Object, "spec", "ports")
	if err != nil || ports[0].(map[string]any)["name"] != "metrics" {
		t.Errorf("the Service has the ports %v: %v", ports, err)
	}
	if got := board.GetLabels()["grafana_dashboard"]; got != "1" || board.GetNamespace() != "portcullis-system" {
		t.Errorf("the dashboard has the label %q, in %s", got, board.GetNamespace())
	}
	text, _, err := unstructured.NestedString(board.Object, "data", "portcullis.json")
	if err != nil || text != string(read(t, "config", "grafana", "portcullis.json")) {
		t.Errorf("the ConfigMap has another dashboard: %v", err)
	}
}
