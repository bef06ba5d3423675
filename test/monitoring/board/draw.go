package board

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"time"
	"unicode/utf8"
)

// The measures of a picture, in pixels: of a cell of the grid, between panels, and of what is around the curves of one.
const (
	cellWidth, cellHeight, gap         = 52.0, 30.0, 8.0
	left, right, top, bottom           = 62.0, 22.0, 34.0, 76.0
	letter, legendRow, legendRows, key = 5.9, 13.0, 4, 16.0
)

const looks = `
text { font: 11px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; fill: #9fa7b3 }
.row, .title { font-weight: 600; fill: #d8d9da }
.row { font-size: 15px }
.title { font-size: 12px }
.legend { font-size: 10px }
.stat { font-size: 34px; font-weight: 600 }
.panel { fill: #181b1f; stroke: #2c3235 }
.grid { stroke: #2c3235 }
.bad { stroke: #f2495c; stroke-dasharray: 6 4 }
.curve { fill: none; stroke-width: 1.4; stroke-linejoin: round }
`

// palette are the colors of curves, in order.
var palette = []string{
	"#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#ffa6b0", "#37872d", "#e0b400", "#1f60c4", "#fa6400",
}

// colors are those that thresholds name.
var colors = map[string]string{"green": "#73bf69", "red": "#f2495c"}

// Draw draws panels, of a time that lasted so long with a value every step. The title is for who can't see the picture.
func Draw(title string, panels []Panel, lasted, step time.Duration) []byte {
	rows := 0
	for _, p := range panels {
		rows = max(rows, p.GridPos.Y+p.GridPos.H)
	}
	out := &bytes.Buffer{}
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" width="%[1]g" height="%[2]g" role="img">`+"\n",
		24*cellWidth+gap, float64(rows)*cellHeight+gap)
	fmt.Fprintf(out, "<title>%s</title>\n<style>%s</style>\n", html.EscapeString(title), looks)
	out.WriteString(`<rect width="100%" height="100%" fill="#111217"/>` + "\n")
	for _, p := range panels {
		at := p.GridPos
		f := frame{
			out: out, panel: p, lasted: lasted, step: step,
			x: float64(at.X)*cellWidth + gap, y: float64(at.Y)*cellHeight + gap,
			w: float64(at.W)*cellWidth - gap, h: float64(at.H)*cellHeight - gap,
		}
		f.draw()
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// frame is where a panel is drawn.
type frame struct {
	out          *bytes.Buffer
	panel        Panel
	lasted, step time.Duration
	x, y, w, h   float64
}

func (f frame) draw() {
	if f.panel.Type == "row" {
		f.text("row", f.x, f.y+f.h-2, "start", f.panel.Title)
		return
	}
	fmt.Fprintf(f.out, `<rect class="panel" x="%g" y="%g" width="%g" height="%g" rx="3"/>`+"\n", f.x, f.y, f.w, f.h)
	f.text("title", f.x+10, f.y+19, "start", f.panel.Title)
	highest, n := f.values()
	switch {
	case n == 0:
		f.text("none", f.x+f.w/2, f.y+f.h/2+8, "middle", "No data")
	case f.panel.Type == "stat":
		f.number()
	default:
		f.curves(highest)
	}
}

// values are the highest value, and how many there are.
func (f frame) values() (highest float64, n int) {
	for _, s := range f.panel.Series {
		for _, p := range s.Points {
			highest, n = max(highest, p.Value), n+1
		}
	}
	return highest, n
}

// number writes the last value, in the color of its threshold.
func (f frame) number() {
	points := f.panel.Series[0].Points
	last := points[len(points)-1].Value
	color := ""
	for _, s := range f.panel.FieldConfig.Defaults.Thresholds.Steps {
		if s.Value == nil || last >= *s.Value {
			color = colors[s.Color]
		}
	}
	fmt.Fprintf(f.out, `<text class="stat" x="%g" y="%g" text-anchor="middle" style="fill: %s">%s</text>`+"\n",
		f.x+f.w/2, f.y+f.h/2+24, color, html.EscapeString(format(f.panel.FieldConfig.Defaults.Unit, last)))
}

// curves draws the axes, the threshold where it is in sight, the curves and the legend.
func (f frame) curves(highest float64) {
	unit := f.panel.FieldConfig.Defaults.Unit
	tick, ceiling := scale(unit, highest)
	x0, y0, width, height := f.x+left, f.y+top, f.w-left-right, f.h-top-bottom
	x := func(at time.Duration) float64 { return x0 + width*float64(at)/float64(f.lasted) }
	y := func(value float64) float64 { return y0 + height*(1-value/ceiling) }
	for v := 0.0; v < ceiling+tick/2; v += tick {
		f.line("grid", x0, y(v), x0+width, y(v))
		f.text("tick", x0-6, y(v)+4, "end", format(unit, v))
	}
	for i := range 5 {
		at := f.lasted / 4 * time.Duration(i)
		f.text("tick", x(at), y0+height+15, "middle", fmt.Sprintf("%d:%02d", int(at.Minutes()), int(at.Seconds())%60))
	}
	for _, s := range f.panel.FieldConfig.Defaults.Thresholds.Steps {
		if s.Value != nil && *s.Value <= ceiling {
			f.line("bad", x0, y(*s.Value), x0+width, y(*s.Value))
		}
	}
	for i, s := range f.panel.Series {
		fmt.Fprintf(f.out, `<path class="curve" stroke="%s" d="`, palette[i%len(palette)])
		for j, p := range s.Points {
			switch broken := j == 0 || p.At-s.Points[j-1].At > 2*f.step; {
			case broken:
				fmt.Fprintf(f.out, "M%.0f %.1fh0", x(p.At), y(p.Value)) // a point that is alone is seen, too
			case j+1 == len(s.Points) || p.Value != s.Points[j-1].Value || p.Value != s.Points[j+1].Value || s.Points[j+1].At-p.At > 2*f.step:
				fmt.Fprintf(f.out, "L%.0f %.1f", x(p.At), y(p.Value))
			}
		}
		f.out.WriteString("\" stroke-linecap=\"round\"/>\n")
	}
	f.legend(y0 + height + 32)
}

// legend names the curves, as many as there is room for.
func (f frame) legend(y float64) {
	x, row := f.x+10, 1
	for i, s := range f.panel.Series {
		width := key + letter*float64(utf8.RuneCountInString(s.Name)) + 8
		more := len(f.panel.Series) - i
		reserved := 0.0
		if row == legendRows && more > 1 {
			reserved = letter * 11
		}
		if x+width+reserved > f.x+f.w && row == legendRows {
			f.text("legend", x, y, "start", fmt.Sprintf("and %d more", more))
			return
		}
		if x+width > f.x+f.w {
			x, y, row = f.x+10, y+legendRow, row+1
		}
		fmt.Fprintf(f.out, `<rect x="%.0f" y="%.0f" width="11" height="3" fill="%s"/>`, x, y-5, palette[i%len(palette)])
		f.text("legend", x+key, y, "start", s.Name)
		x += width
	}
}

func (f frame) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(f.out, `<line class="%s" x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

func (f frame) text(class string, x, y float64, anchor, text string) {
	fmt.Fprintf(f.out, `<text class="%s" x="%.0f" y="%.0f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, html.EscapeString(text))
}

// scale gives how far from each other the values of an axis are that are written beside it, and its end, at or above the highest value.
func scale(unit string, highest float64) (tick, ceiling float64) {
	round := map[string]float64{"bytes": 1 << 20, "percentunit": 0.01}[unit]
	if round == 0 {
		round = 1
	}
	if highest == 0 {
		highest = round
	}
	wanted := highest / round / 4
	power := math.Pow(10, math.Floor(math.Log10(wanted)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if tick = factor * power * round; tick >= wanted*round*0.999 {
			break
		}
	}
	return tick, tick * math.Ceil(highest/tick*0.999)
}

// format writes a value as Grafana writes its unit.
func format(unit string, v float64) string {
	switch {
	case unit == "bool_yes_no":
		return map[bool]string{true: "Yes", false: "No"}[v != 0]
	case unit == "percentunit":
		return fmt.Sprintf("%.3g%%", v*100)
	case unit == "bytes":
		return fmt.Sprintf("%.4g MiB", v/(1<<20))
	case unit == "reqps":
		return fmt.Sprintf("%.3g/s", v)
	case unit == "d":
		return fmt.Sprintf("%.0f days", v)
	case unit == "s" && v != 0 && v < 0.001:
		return fmt.Sprintf("%.3g µs", v*1e6)
	case unit == "s" && v != 0 && v < 1:
		return fmt.Sprintf("%.3g ms", v*1000)
	case unit == "s":
		return fmt.Sprintf("%.3g s", v)
	case v >= 10000:
		return fmt.Sprintf("%.4gk", v/1000)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}
