package monitoring

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

var (
	listedMetric  = regexp.MustCompile("`(portcullis_[a-z_]+)`")
	metricLiteral = regexp.MustCompile(`"(portcullis_[a-z_]+)"`)
)

// listedMetrics are the metrics of the table of docs/metrics.md.
func listedMetrics(t *testing.T) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(string(read(t, "docs/metrics.md"))) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, name := range listedMetric.FindAllStringSubmatch(cell, -1) {
			names = append(names, name[1])
		}
	}
	return names
}

// metricsInSource are the metrics that the product names.
func metricsInSource(t *testing.T) map[string]bool {
	t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, dir := range []string{"certs", "cmd", "internal", "reconcilers", "webhooks"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, name := range metricLiteral.FindAllStringSubmatch(string(content), -1) {
				names[name[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// TestEveryMetricIsListed holds that the table has what the product has, once each.
func TestEveryMetricIsListed(t *testing.T) {
	listed, there := listedMetrics(t), metricsInSource(t)
	seen := map[string]bool{}
	for _, name := range listed {
		if seen[name] {
			t.Errorf("docs/metrics.md lists %s twice", name)
		}
		seen[name] = true
		if !there[name] {
			t.Errorf("docs/metrics.md lists %s, which is nowhere in the source", name)
		}
	}
	for name := range there {
		if !seen[name] {
			t.Errorf("docs/metrics.md does not list %s", name)
		}
	}
}

// TestWhatIsWatchedExists holds that alerts and dashboard name no metric of Portcullis that it does not have, and that none
// is left unseen.
func TestWhatIsWatchedExists(t *testing.T) {
	there := metricsInSource(t)
	shown := map[string]bool{}
	see := func(where, expr string) {
		for _, name := range metricsIn(expr) {
			shown[baseOf(name)] = true
			if base := baseOf(name); strings.HasPrefix(base, "portcullis_") && !there[base] {
				t.Errorf("%s uses %s, which is nowhere in the source", where, base)
			}
		}
	}
	rules, _ := alerts(t)
	for _, r := range rules {
		see(r.Alert, r.Expr)
	}
	for _, q := range dashboard(t) {
		see(q.panel, q.expr)
	}
	for name := range there {
		if !shown[name] {
			t.Errorf("neither an alert nor the dashboard shows %s", name)
		}
	}
}

func TestMetricsIn(t *testing.T) {
	for expr, want := range map[string][]string{
		`absent(up{job="portcullis-metrics"} == 1)`:                                            {"up"},
		`sum by (kind, le) (rate(portcullis_x_seconds_bucket{a="b_c"}[$__rate_interval])) > 0`: {"portcullis_x_seconds_bucket"},
		`max by (pool) (a_total{s="x"}) / max by (pool) (b_total > 0)`:                         {"a_total", "b_total"},
		`histogram_quantile(0.9, sum by (le) (rate(c_bucket[5m]))) or vector(0)`:               {"c_bucket"},
	} {
		if got := metricsIn(expr); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", expr, got, want)
		}
	}
}
