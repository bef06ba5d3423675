package main

import (
	"strings"
	"testing"
)

func TestDashboard(t *testing.T) {
	board := grafana("portcullis", "Portcullis", rows)
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range board["panels"].([]object) {
		title, id, at := p["title"].(string), p["id"].(int), p["gridPos"].(object)
		if ids[id] {
			t.Errorf("%s has the number of another panel, %d", title, id)
		}
		ids[id] = true
		for x := at["x"].(int); x < at["x"].(int)+at["w"].(int); x++ {
			for y := at["y"].(int); y < at["y"].(int)+at["h"].(int); y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= width {
					t.Fatalf("%s lies on %q, or beside the dashboard", title, other)
				}
				taken[[2]int{x, y}] = title
			}
		}
		if p["type"] == "row" {
			continue
		}
		if about, _ := p["description"].(string); !strings.HasSuffix(about, ".") {
			t.Errorf("%s is not described in a sentence: %q", title, about)
		}
		if targets := p["targets"].([]object); len(targets) == 0 {
			t.Errorf("%s shows nothing", title)
		}
	}
}

func TestQueries(t *testing.T) {
	for name, tc := range map[string]struct {
		got  queries
		want queries
	}{
		"rates": {rates("a, b", "c_total"), queries{{"{{a}} {{b}}", "sum by (a, b) (rate(c_total[$__rate_interval]))"}}},
		"most":  {most("a", "b").over("c"), queries{{"{{a}}", "max by (a) (b) / (c)"}}},
		"quantiles": {quantiles("a", "b", `{c="d"}`), queries{
			{"{{a}} p50", `histogram_quantile(0.5, sum by (a, le) (rate(b_bucket{c="d"}[$__rate_interval])))`},
			{"{{a}} p99", `histogram_quantile(0.99, sum by (a, le) (rate(b_bucket{c="d"}[$__rate_interval])))`},
		}},
		"quantiles of all": {quantiles("", "b", ""), queries{
			{"p50", "histogram_quantile(0.5, sum by (le) (rate(b_bucket[$__rate_interval])))"},
			{"p99", "histogram_quantile(0.99, sum by (le) (rate(b_bucket[$__rate_interval])))"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range max(len(tc.got), len(tc.want)) {
				if len(tc.got) != len(tc.want) || tc.got[i] != tc.want[i] {
					t.Errorf("got %q, want %q", tc.got, tc.want)
					break
				}
			}
		})
	}
}
