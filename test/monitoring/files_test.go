// Package monitoring tests what Portcullis is watched with: the alerts by promtool, and the metrics, the alerts and the
// dashboard by a real Prometheus that scrapes running replicas. `make monitoring` builds the two programs and runs it;
// what needs neither runs with all other tests.
package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/monitoring/board"
)

// rule is one alert.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// ruleFile is a file of rules as Prometheus reads it.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

// read reads a file of the repository.
func read(t *testing.T, path ...string) []byte {
	t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// alerts are the rules of config/prometheus, and the same as Prometheus reads them.
func alerts(t *testing.T) (rules []rule, file []byte) {
	t.Helper()
	var manifest struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := yaml.Unmarshal(read(t, "config", "prometheus", "rules.yaml"), &manifest); err != nil {
		t.Fatal(err)
	}
	var spec ruleFile
	if err := yaml.Unmarshal(manifest.Spec, &spec); err != nil {
		t.Fatal(err)
	}
	for _, group := range spec.Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) == 0 {
		t.Fatal("there are no alerts")
	}
	return rules, manifest.Spec // JSON is YAML
}

// query is a query of the dashboard.
type query struct {
	// panel is where it stands: row and title.
	panel string
	expr  string
}

// panels are those of the dashboard.
func panels(t *testing.T) []board.Panel {
	t.Helper()
	panels, err := board.Read(read(t, "config", "grafana", "portcullis.json"))
	if err != nil {
		t.Fatal(err)
	}
	return panels
}

// dashboard are the queries of the dashboard.
func dashboard(t *testing.T) []query {
	t.Helper()
	row := ""
	var queries []query
	for _, p := range panels(t) {
		if p.Type == "row" {
			row = p.Title
		}
		for _, target := range p.Targets {
			queries = append(queries, query{row + ": " + p.Title, target.Expr})
		}
	}
	if len(queries) == 0 {
		t.Fatal("the dashboard shows nothing")
	}
	return queries
}

var (
	quoted = regexp.MustCompile(`"[^"]*"`)
	// groupings are the labels of aggregations, which look like names of metrics.
	groupings  = regexp.MustCompile(`\b(by|on|without|ignoring|group_left|group_right) *\([^)]*\)`)
	matchers   = regexp.MustCompile(`\{[^}]*\}`)
	metricName = regexp.MustCompile(`[a-z][a-z0-9]*(_[a-z0-9]+)+|\bup\b`)
	functions  = []string{"histogram_quantile", "absent_over_time", "last_over_time", "max_over_time"}
)

// metricsIn are the names of the metrics in an expression.
func metricsIn(expr string) []string {
	for _, noise := range []*regexp.Regexp{quoted, groupings, matchers} {
		expr = noise.ReplaceAllString(expr, " ")
	}
	names := metricName.FindAllString(expr, -1)
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return slices.Contains(functions, name) || name == "__rate_interval" || name == "rate_interval"
	})
}

// baseOf is the metric that a series of a histogram belongs to.
func baseOf(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}
