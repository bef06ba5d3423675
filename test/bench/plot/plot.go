// Package plot draws charts of lines as SVG.
package plot

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
)

// Chart is a chart of lines.
type Chart struct {
	// Name is that of its file, without a suffix.
	Name  string `json:"name"`
	Title string `json:"title"`
	// X and Y say what the axes are.
	X string `json:"x"`
	Y string `json:"y"`
	// LogX and LogY make an axis logarithmic: what is not above 0 has no place there, and is left out.
	LogX   bool   `json:"logX,omitempty"`
	LogY   bool   `json:"logY,omitempty"`
	Series []Line `json:"series"`
}

// Line is one line of a chart.
type Line struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
	// Dashed is for what was not measured but computed.
	Dashed bool `json:"dashed,omitempty"`
}

// Point is one point of a line.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// The measures of a chart, in pixels.
const (
	width, height            = 720, 420
	left, right, top, bottom = 76, 190, 44, 56
)

// colors are told apart by people who see few colors, too.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#f0e442"}

// SVG draws the chart.
func (c *Chart) SVG() []byte {
	x := c.axis(c.LogX, func(p Point) float64 { return p.X }, left, width-right)
	y := c.axis(c.LogY, func(p Point) float64 { return p.Y }, height-bottom, top)
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	text(&out, left, 24, "start", ` font-size="15" font-weight="bold"`, c.Title)
	for _, tick := range x.ticks() {
		at := x.at(tick)
		line(&out, at, top, at, height-bottom)
		text(&out, at, height-bottom+18, "middle", "", label(tick))
	}
	for _, tick := range y.ticks() {
		at := y.at(tick)
		line(&out, left, at, width-right, at)
		text(&out, left-8, at+4, "end", "", label(tick))
	}
	text(&out, (left+width-right)/2, height-14, "middle", "", c.X)
	middle := float64(top+height-bottom) / 2
	text(&out, 18, middle, "middle", fmt.Sprintf(` transform="rotate(-90 18 %.1f)"`, middle), c.Y)
	for i, s := range c.Series {
		c.draw(&out, s, i, x, y)
	}
	fmt.Fprintln(&out, "</svg>")
	return out.Bytes()
}

// draw draws one line, and its name beside the chart.
func (c *Chart) draw(out *bytes.Buffer, s Line, i int, x, y axis) {
	color := colors[i%len(colors)]
	dashes := ""
	if s.Dashed {
		dashes = ` stroke-dasharray="6 4"`
	}
	points := slices.SortedFunc(slices.Values(s.Points), func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	points = slices.DeleteFunc(points, func(p Point) bool { return !x.has(p.X) || !y.has(p.Y) })
	fmt.Fprintf(out, `<polyline fill="none" stroke="%s" stroke-width="2"%s points="`, color, dashes)
	for _, p := range points {
		fmt.Fprintf(out, "%.1f,%.1f ", x.at(p.X), y.at(p.Y))
	}
	fmt.Fprintln(out, `"/>`)
	for _, p := range points {
		fmt.Fprintf(out, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"><title>%s: %s, %s</title></circle>`+"\n",
			x.at(p.X), y.at(p.Y), color, html.EscapeString(s.Name), label(p.X), label(p.Y))
	}
	row := float64(top + 10 + 20*i)
	fmt.Fprintf(out, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="%s" stroke-width="2"%s/>`+"\n",
		width-right+14, row-4, width-right+38, row-4, color, dashes)
	text(out, width-right+44, row, "start", "", s.Name)
}

func line(out *bytes.Buffer, x1, y1, x2, y2 float64) {
	fmt.Fprintf(out, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#dddddd"/>`+"\n", x1, y1, x2, y2)
}

func text(out *bytes.Buffer, x, y float64, anchor, more, s string) {
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="#222222"%s>%s</text>`+"\n", x, y, anchor, more, html.EscapeString(s))
}

// label prints a number as short as an axis needs it.
func label(v float64) string {
	if math.Abs(v) >= 10000 {
		return fmt.Sprintf("%gk", math.Round(v/100)/10)
	}
	return fmt.Sprintf("%.4g", v)
}
