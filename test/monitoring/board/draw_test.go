package board

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const dashboard = `{"panels": [
	{"type": "row", "title": "Overview", "gridPos": {"x": 0, "y": 0, "w": 24, "h": 1}},
	{"type": "stat", "title": "Open", "gridPos": {"x": 0, "y": 1, "w": 4, "h": 4}, "targets": [{"expr": "sum(open)", "legendFormat": "Open"}],
	 "fieldConfig": {"defaults": {"unit": "short", "thresholds": {"steps": [{"color": "red", "value": null}, {"color": "green", "value": 2}]}}}},
	{"type": "timeseries", "title": "Rate <1>", "gridPos": {"x": 0, "y": 5, "w": 8, "h": 8}, "targets": [{"expr": "r", "legendFormat": "{{a}} {{b}} {{none}}"}],
	 "fieldConfig": {"defaults": {"unit": "reqps", "thresholds": {"steps": [{"color": "green", "value": null}, {"color": "red", "value": 3}]}}}},
	{"type": "timeseries", "title": "Nothing", "gridPos": {"x": 8, "y": 5, "w": 8, "h": 8}}
]}`

// element is one of a picture, with what of it is compared.
type element struct {
	Class string `xml:"class,attr"`
	Style string `xml:"style,attr"`
	Path  string `xml:"d,attr"`
	Text  string `xml:",chardata"`
}

// TestDraw holds that a picture has each panel with its values: the last one, or curves with gaps where there was nothing.
func TestDraw(t *testing.T) {
	t.Parallel()
	panels, err := Read([]byte(dashboard))
	if err != nil {
		t.Fatal(err)
	}
	panels[1].Series = []Series{{Name: "Open", Points: []Point{{0, 1}, {time.Minute, 7}}}}
	name := panels[2].Targets[0].Name(map[string]string{"a": "x", "b": "&", "c": "z"})
	panels[2].Series = []Series{{Name: name, Points: []Point{
		{0, 4}, {time.Second, 4}, {2 * time.Second, 4}, {3 * time.Second, 2}, {30 * time.Second, 0}, {60 * time.Second, 4},
	}}}
	picture := Draw("of a & b", panels, time.Minute, time.Second)
	var svg struct {
		Title string    `xml:"title"`
		Text  []element `xml:"text"`
		Line  []element `xml:"line"`
		Path  []element `xml:"path"`
	}
	if err := xml.Unmarshal(picture, &svg); err != nil {
		t.Fatalf("%v:\n%s", err, picture)
	}
	got := map[string]string{"": svg.Title}
	for _, e := range append(svg.Text, svg.Line...) {
		got[e.Class] = strings.TrimSpace(got[e.Class] + " " + e.Text + e.Style)
	}
	want := map[string]string{
		"": "of a & b", "row": "Overview", "title": "Open Rate <1> Nothing", "stat": "7fill: #73bf69", "none": "No data", "legend": "x &",
		"tick": "0/s 1/s 2/s 3/s 4/s 0:00 0:15 0:30 0:45 1:00", "grid": "", "bad": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := svg.Path[0].Path, "M70 192.0h0L81 192.0L86 253.0M232 314.0h0M394 192.0h0"; got != want {
		t.Errorf("the curve is %s, want %s", got, want)
	}
}

// TestLegend holds that names stay in their panel, and that those for which there is no room are counted.
func TestLegend(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		names string
		n     int
		want  string
	}{
		"all":           {"short", 12, "short"},
		"too many":      {"short", 80, "and 53 more"},
		"long ones":     {"a name that has a row of a panel for itself alone", 10, "and 6 more"},
		"one of a row":  {"a name that has a row of a panel for itself alone", 4, "a name that has a row of a panel for itself alone"},
		"nearly enough": {"a name that has a row of a panel for itself alone", 5, "and 1 more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Panel{Type: "timeseries", GridPos: Grid{W: 8, H: 8}}
			for range tc.n {
				p.Series = append(p.Series, Series{Name: tc.names, Points: []Point{{0, 1}}})
			}
			_, drawn, _ := strings.Cut(string(Draw("", []Panel{p}, time.Minute, time.Second)), `class="legend"`)
			if !strings.Contains(drawn[strings.LastIndex(drawn, "<text"):], ">"+tc.want+"<") || strings.Count(drawn, "<text") > 40 {
				t.Errorf("%s is not the last of:\n%s", tc.want, drawn)
			}
		})
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		unit                   string
		highest, tick, ceiling float64
	}{
		{"short", 0, 0.5, 1}, {"short", 4, 1, 4}, {"short", 4.1, 2, 6}, {"short", 93, 50, 100}, {"s", 0.003, 0.001, 0.003},
		{"bytes", 70 << 20, 20 << 20, 80 << 20}, {"percentunit", 0.08, 0.02, 0.08},
	} {
		tick, ceiling := scale(tc.unit, tc.highest)
		if diff := max(tick-tc.tick, tc.tick-tick, ceiling-tc.ceiling, tc.ceiling-ceiling); diff > 1e-6 {
			t.Errorf("%s up to %g: every %g up to %g, want every %g up to %g", tc.unit, tc.highest, tick, ceiling, tc.tick, tc.ceiling)
		}
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		unit  string
		value float64
		want  string
	}{
		{"short", 20000, "20k"}, {"short", 12, "12"}, {"reqps", 1.5, "1.5/s"}, {"s", 0, "0 s"}, {"s", 0.0000215, "21.5 µs"}, {"s", 0.25, "250 ms"},
		{"s", 30, "30 s"}, {"percentunit", 0.125, "12.5%"}, {"bytes", 64 << 20, "64 MiB"}, {"d", 89.96, "90 days"}, {"bool_yes_no", 1, "Yes"},
	} {
		if got := format(tc.unit, tc.value); got != tc.want {
			t.Errorf("%g %s is %q, want %q", tc.value, tc.unit, got, tc.want)
		}
	}
}
