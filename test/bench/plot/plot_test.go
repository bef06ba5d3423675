package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func chart(log bool) *Chart {
	return &Chart{Name: "cost", Title: "cost <of> it", X: "objects", Y: "s", LogX: log, LogY: log, Series: []Line{
		{Name: "ours & theirs", Points: []Point{{100, 1}, {10000, 3}, {1000, 2}}},
		{Name: "guessed", Dashed: true, Points: []Point{{100, 0}, {10000, 900}}},
	}}
}

func TestSVGIsXML(t *testing.T) {
	for _, c := range []*Chart{chart(false), chart(true), {}} {
		dec := xml.NewDecoder(strings.NewReader(string(c.SVG())))
		for {
			_, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, c.SVG())
			}
		}
	}
}

// TestPoints counts points: a logarithmic axis has no place for 0.
func TestPoints(t *testing.T) {
	for log, want := range map[bool]int{false: 5, true: 4} {
		if got := strings.Count(string(chart(log).SVG()), "<circle"); got != want {
			t.Errorf("logarithmic %v: %d points, want %d", log, got, want)
		}
	}
}

func TestAxis(t *testing.T) {
	x := func(p Point) float64 { return p.X }
	linear := chart(false).axis(false, x, 0, 100)
	if linear.at(0) != 0 || linear.at(linear.high) != 100 || linear.high < 10000 {
		t.Errorf("linear: %+v", linear)
	}
	log := chart(true).axis(true, x, 0, 100)
	if log.low != 100 || log.high != 10000 || math.Abs(log.at(1000)-50) > 1e-9 {
		t.Errorf("logarithmic: %+v, 1000 is at %v", log, log.at(1000))
	}
	if n := len(linear.ticks()); n < 3 || n > 8 {
		t.Errorf("%d ticks: %v", n, linear.ticks())
	}
}
