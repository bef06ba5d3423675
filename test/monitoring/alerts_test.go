package monitoring

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// alertTest is a group of alerts.yaml.
type alertTest struct {
	Name   string `json:"name"`
	Series []struct {
		Series string `json:"series"`
	} `json:"input_series"`
	Queries []struct {
		Expr    string `json:"expr"`
		Samples []any  `json:"exp_samples"`
	} `json:"promql_expr_test"`
}

func alertTests(t *testing.T) []alertTest {
	t.Helper()
	var file struct {
		Tests []alertTest `json:"tests"`
	}
	if err := yaml.Unmarshal(read(t, "test", "monitoring", "alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	return file.Tests
}

var (
	selector  = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	sameLabel = regexp.MustCompile(`[a-z_]+="[^"]*"`)
)

// TestHealthyHourReachesEveryAlert holds that the healthy hour has each series that an alert looks at. Without it, silence
// would mean nothing.
func TestHealthyHourReachesEveryAlert(t *testing.T) {
	groups := alertTests(t)
	healthy := slices.IndexFunc(groups, func(g alertTest) bool { return g.Name == "a healthy hour" })
	if healthy < 0 {
		t.Fatal("there is no healthy hour")
	}
	has := func(name string, labels ...string) bool {
		for _, s := range groups[healthy].Series {
			missing := func(label string) bool { return !strings.Contains(s.Series, label) }
			if strings.HasPrefix(s.Series, name+"{") && !slices.ContainsFunc(labels, missing) {
				return true
			}
		}
		return false
	}
	rules, _ := alerts(t)
	for _, r := range rules {
		for _, name := range metricsIn(r.Expr) {
			if !has(name) {
				t.Errorf("%s looks at %s, which the healthy hour does not have", r.Alert, name)
			}
		}
		for _, s := range selector.FindAllStringSubmatch(r.Expr, -1) {
			if labels := sameLabel.FindAllString(s[2], -1); !has(s[1], labels...) {
				t.Errorf("%s looks at %s with %s, which the healthy hour does not have", r.Alert, s[1], labels)
			}
		}
	}
}

// TestEveryAlertHasAScenario holds that alerts.yaml lets each alert fire, and says when it does not yet.
func TestEveryAlertHasAScenario(t *testing.T) {
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, group := range alertTests(t) {
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
