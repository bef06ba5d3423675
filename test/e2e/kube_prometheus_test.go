package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

const operatorModule = "github.com/prometheus-operator/prometheus-operator"

// thePrometheus has the names and the selectors of kube-prometheus'. Its account may only do what others let it: here, what config/prometheus
// does. For any version 3, the operator writes what all of them read.
const thePrometheus = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus-k8s, namespace: monitoring}
---
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: k8s, namespace: monitoring}
spec:
  replicas: 1
  image: localhost/prometheus:e2e
  version: v3.0.0
  serviceAccountName: prometheus-k8s
  serviceMonitorSelector: {}
  serviceMonitorNamespaceSelector: {}
  ruleSelector: {}
  ruleNamespaceSelector: {}
  securityContext: {fsGroup: 2000, runAsNonRoot: true, runAsUser: 1000}
`

// operate installs the Prometheus operator from the manifests of its pinned module, and has it run a Prometheus. All goes when the test ends.
func operate(t *testing.T) {
	t.Helper()
	module := filepath.Join(root, "test", "prometheusoperator")
	sources, err := sourcesOf(module, operatorModule)
	if err != nil {
		t.Fatal(err)
	}
	if err := inOrder(
		func() error {
			return loadProgram(target.script, "localhost/prometheus-operator:e2e", "/bin/operator", module, operatorModule+"/cmd/operator")
		},
		func() error {
			return loadProgram(target.script, "localhost/prometheus-config-reloader:e2e", "/bin/prometheus-config-reloader", module,
				operatorModule+"/cmd/prometheus-config-reloader")
		},
		func() error { return command("make", "-C", root, "prometheus") },
		func() error {
			return load(target.script, "localhost/prometheus:e2e", filepath.Join(root, "bin", "prometheus", "prometheus"), "/bin/prometheus")
		},
	); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "create", "namespace", "monitoring")
	t.Cleanup(func() { kubectl(t, "delete", "namespace", "monitoring", "--timeout="+patience.String()) })
	dir := t.TempDir()
	// Without a limit of the processor, as a fifth of one is little on a busy machine, and without the Service that the operator keeps for the
	// kubelets in kube-system, which would stay behind.
	kustomize(t, dir, fmt.Sprintf(`
namespace: monitoring
resources: [%s]
images: [{name: quay.io/prometheus-operator/prometheus-operator, newName: localhost/prometheus-operator, newTag: e2e}]
patches:
- target: {kind: Deployment}
  patch: |-
    - {op: remove, path: /spec/template/spec/containers/0/resources}
    - op: replace
      path: /spec/template/spec/containers/0/args
      value: ["--prometheus-config-reloader=localhost/prometheus-config-reloader:e2e", --config-reloader-cpu-limit=0]
`, relativeTo(t, dir, sources)))
	kubectl(t, "wait", "--for=condition=Established", "crd", "--all", "--timeout="+patience.String())
	kubectl(t, "rollout", "status", "deployment/prometheus-operator", "-n", "monitoring", "--timeout="+patience.String())
	apply(t, "monitoring", thePrometheus)
}

// asked is what the Prometheus answers to a request of its API.
func asked[T any](path string) (data T, err error) {
	out, err := tryKubectl("", "get", "--raw", "/api/v1/namespaces/monitoring/pods/prometheus-k8s-0:9090/proxy/api/v1/"+path)
	if err != nil {
		return data, err
	}
	var answer struct{ Data T }
	err = json.Unmarshal([]byte(out), &answer)
	return answer.Data, err
}

// TestKubePrometheus installs the Prometheus operator, a Prometheus as kube-prometheus has it, and the component config/prometheus. With nothing
// else, both replicas are scraped, and every alert is loaded.
func TestKubePrometheus(t *testing.T) {
	needs(t, target.script != "" && target.overlay != "", "it takes the names that kube-prometheus has")
	operate(t)
	dir := t.TempDir()
	kustomize(t, dir, fmt.Sprintf("components: [%s]\n", relativeTo(t, dir, filepath.Join(root, "config", "prometheus"))))

	var names []string
	for _, r := range replicas(t) {
		names = append(names, r.Metadata.Name)
	}
	slices.Sort(names)
	eventually(t, "both replicas to be scraped", func() error { return scraped(names) })
	wanted := alerts(t)
	eventually(t, "the alerts to be loaded, and none to fire", func() error { return quiet(wanted) })
	if let := letIn(t); kubectl(t, "get", "pods", "-n", "monitoring", "-l", let, "-o", "name") != "pod/prometheus-k8s-0\n" {
		t.Errorf("the NetworkPolicy lets in Pods with %s, and the Prometheus is none", let)
	}
}

// scraped is nil when the last scrapes of just these pods have succeeded.
func scraped(pods []string) error {
	up, err := asked[struct {
		Result []struct{ Metric struct{ Pod string } }
	}]("query?query=" + url.QueryEscape(`up{job="portcullis-metrics"} == 1`))
	if err != nil {
		return err
	}
	var found []string
	for _, r := range up.Result {
		found = append(found, r.Metric.Pod)
	}
	slices.Sort(found)
	if slices.Equal(found, pods) {
		return nil
	}
	targets, err := asked[struct {
		ActiveTargets []struct{ ScrapeURL, Health, LastError string }
	}]("targets?state=active")
	return errors.Join(fmt.Errorf("%v of %v are; the targets: %+v", found, pods, targets.ActiveTargets), err)
}

// quiet is nil when just these alerts are loaded, have been evaluated without an error, and none fires.
func quiet(wanted []string) error {
	loaded, err := asked[struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}]("rules?type=alert")
	if err != nil {
		return err
	}
	var found []string
	for _, group := range loaded.Groups {
		for _, rule := range group.Rules {
			found = append(found, rule.Name)
			if rule.Health != "ok" || rule.State == "firing" {
				err = errors.Join(err, fmt.Errorf("%+v", rule))
			}
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, wanted) {
		err = errors.Join(err, fmt.Errorf("loaded are %v", found))
	}
	return err
}

// alerts are the names of those in config/prometheus.
func alerts(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "config", "prometheus", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^ +- alert: (\S+)$`).FindAllSubmatch(text, -1) {
		names = append(names, string(found[1]))
	}
	slices.Sort(names)
	if len(names) == 0 {
		t.Fatal("there are no alerts")
	}
	return names
}

// letIn selects the Pods that the NetworkPolicy lets to the metrics; here, the network lets everybody.
func letIn(t *testing.T) (selector string) {
	t.Helper()
	const labels = `jsonpath={.spec.ingress[1].from[0].podSelector.matchLabels}`
	text := kubectl(t, "apply", "--dry-run=client", "-o", labels, "-f", filepath.Join(root, "config", "networkpolicy", "network_policy.yaml"))
	var matched map[string]string
	if err := json.Unmarshal([]byte(text), &matched); err != nil {
		t.Fatal(err)
	}
	for key, value := range matched {
		selector += "," + key + "=" + value
	}
	if selector == "" {
		t.Fatal("it selects no labels")
	}
	return selector[1:]
}
