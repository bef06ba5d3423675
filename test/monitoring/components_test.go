package monitoring

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// rendered are the objects of an overlay with the components for monitoring, by kind/name. More is added to the
// kustomization.
func rendered(t *testing.T, more string) map[string]*unstructured.Unstructured {
	t.Helper()
	list, err := controlplane.RenderText(t.Context(), t.TempDir(),
		"resources: [%s/overlays/standalone]\ncomponents: [%s/prometheus, %s/grafana]\n"+more)
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
	objects := rendered(t, "")
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

// bindings are the subjects of whom metrics are shown to, and of whom the replicas are.
func bindings(t *testing.T, objects map[string]*unstructured.Unstructured) (reader, finder rbacv1.RoleBinding) {
	t.Helper()
	for name, to := range map[string]*rbacv1.RoleBinding{
		"ClusterRoleBinding/portcullis-metrics-reader": &reader, "RoleBinding/portcullis-metrics-discovery": &finder,
	} {
		object := objects[name]
		if object == nil {
			t.Fatalf("there is no %s", name)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, to); err != nil {
			t.Fatal(err)
		}
	}
	return reader, finder
}

// TestPrometheusMayScrape holds that whoever may read metrics may find the replicas, too, where the ServiceMonitor looks.
func TestPrometheusMayScrape(t *testing.T) {
	objects := rendered(t, "")
	reader, finder := bindings(t, objects)
	if len(reader.Subjects) != 1 || !slices.Equal(reader.Subjects, finder.Subjects) {
		t.Errorf("%v may read metrics, and %v find the replicas", reader.Subjects, finder.Subjects)
	}
	if where := objects["ServiceMonitor/portcullis"].GetNamespace(); finder.Namespace != where {
		t.Errorf("the replicas are in %s, and may be found in %s", where, finder.Namespace)
	}
	if role := objects["Role/"+finder.RoleRef.Name]; role == nil || role.GetNamespace() != finder.Namespace {
		t.Errorf("there is no Role %s", finder.RoleRef.Name)
	}
}

// TestHelmChartIsServed holds that the patches of the docs do what they are for, and nothing else.
func TestHelmChartIsServed(t *testing.T) {
	_, text, _ := strings.Cut(string(read(t, "docs", "operations.md")), "<!-- tested: helm-chart -->\n```yaml\n")
	patches, _, found := strings.Cut(text, "```\n")
	if !found {
		t.Fatal("the docs have no patches for the chart")
	}
	before, after := rendered(t, ""), rendered(t, patches)
	reader, finder := bindings(t, after)
	for _, binding := range []rbacv1.RoleBinding{reader, finder} {
		if got := binding.Subjects[0]; got.Name != "kube-prometheus-stack-prometheus" || got.Namespace != "monitoring" {
			t.Errorf("%s is of %v", binding.Name, got)
		}
	}
	for name, object := range after {
		switch name {
		case "ServiceMonitor/portcullis", "PrometheusRule/portcullis":
			if got := object.GetLabels()["release"]; got != "kube-prometheus-stack" {
				t.Errorf("%s has the release %q", name, got)
			}
		case "ClusterRoleBinding/portcullis-metrics-reader", "RoleBinding/portcullis-metrics-discovery":
		default:
			if !equality.Semantic.DeepEqual(object, before[name]) {
				t.Errorf("%s is changed, too", name)
			}
		}
	}
}
