package monitoring

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestEveryAlertHasAScenario holds that alerts.yaml lets each alert fire, and says when it does not yet.
func TestEveryAlertHasAScenario(t *testing.T) {
	var file struct {
		Tests []struct {
			Name    string `json:"name"`
			Queries []struct {
				Expr    string `json:"expr"`
				Samples []any  `json:"exp_samples"`
			} `json:"promql_expr_test"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal(read(t, "test", "monitoring", "alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, group := range file.Tests {
		for _, q := range group.Queries {
			if q.Expr != `ALERTS{alertname="`+group.Name+`",alertstate="firing"}` {
				continue
			}
			fires[group.Name] = fires[group.Name] || len(q.Samples) > 0
			rests[group.Name] = rests[group.Name] || len(q.Samples) == 0 || len(group.Queries) > 1
		}
	}
	rules, _ := alerts(t)
	for _, r := range rules {
		if !fires[r.Alert] || !rests[r.Alert] {
			t.Errorf("%s: alerts.yaml lets it fire: %v, lets it not fire yet: %v", r.Alert, fires[r.Alert], rests[r.Alert])
		}
		delete(fires, r.Alert)
	}
	for name := range fires {
		t.Errorf("%s is tested, and there is no such alert", name)
	}
}

var (
	labelUsed  = regexp.MustCompile(`\$labels\.([a-z_]+)`)
	severities = []string{"critical", "warning", "info"}
)

// TestAlertsSayWhatToDo holds that every alert tells a reader all there is to tell, of labels that it has.
func TestAlertsSayWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	rules, _ := alerts(t)
	for _, r := range rules {
		if seen[r.Alert] || !strings.HasPrefix(r.Alert, "Portcullis") {
			t.Errorf("%s: a second one of its name, or not ours", r.Alert)
		}
		seen[r.Alert] = true
		if !slices.Contains(severities, r.Labels["severity"]) {
			t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
		}
		for _, name := range []string{"summary", "description"} {
			text := r.Annotations[name]
			if !strings.HasSuffix(strings.TrimSpace(text), ".") {
				t.Errorf("%s: the %s is no sentence: %q", r.Alert, name, text)
			}
			for _, label := range labelUsed.FindAllStringSubmatch(text, -1) {
				if by := regexp.MustCompile(`by \([^)]*\b` + label[1] + `\b`); !by.MatchString(r.Expr) {
					t.Errorf("%s: the %s names the label %s, which the expression does not keep", r.Alert, name, label[1])
				}
			}
		}
	}
}
