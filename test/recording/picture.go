package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"unicode/utf8"
)

// The measures of a picture, in pixels.
const (
	cell, lineHeight = 7.2, 18.0
	margin, bar      = 16.0, 28.0
)

// The times of a picture, in seconds: what is typed comes after a pause, what a command says line by line.
const typedAfter, saidAfter = 1.2, 0.06

// looks are the fonts and colors of all text, and how it appears.
const looks = `
text {
  font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  fill: #e6edf3;
  white-space: pre;
}
.bold { font-weight: bold }
.dim { fill: #8b949e }
@media (prefers-reduced-motion: no-preference) {
  text { animation: appear 0.1s backwards }
  @keyframes appear { from { opacity: 0 } }
}
`

// colors are those of ECMA-48 on a dark ground.
var colors = map[string]string{"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea"}

// picture draws rows as they appear on a terminal, one after the other, where the picture is moved; where it is not, or who looks at it
// wants nothing to move, all are there. The title is for who can't see it.
func picture(title string, columns int, rows []row) []byte {
	width, height := float64(columns)*cell+2*margin, float64(len(rows))*lineHeight+2*margin+bar
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" width="%[1]g" height="%[2]g" role="img">`+"\n",
		math.Round(width), math.Round(height))
	fmt.Fprintf(&out, "<title>%s</title>\n<style>%s</style>\n", html.EscapeString(title), looks)
	fmt.Fprintf(&out, `<rect width="%.0f" height="%.0f" rx="8" fill="#0d1117"/>`+"\n", width, height)
	for i, color := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&out, `<circle cx="%.0f" cy="16" r="5" fill="%s"/>`+"\n", margin+5+float64(i)*18, color)
	}
	at := 0.0
	for i, r := range rows {
		if at += saidAfter; r.isTyped && (i == 0 || !rows[i-1].isTyped) {
			at += typedAfter
		}
		draw := rowText{at: at, y: bar + margin + float64(i)*lineHeight + 12}
		draw.write(&out, r)
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// rowText writes a row that appears at a time, in seconds, at a height.
type rowText struct{ at, y float64 }

// write has each span where its column is, and as wide as its columns are, whatever font is there.
func (t rowText) write(out *bytes.Buffer, r row) {
	if len(r.spans) == 0 {
		return
	}
	fmt.Fprintf(out, `<text y="%.0f" style="animation-delay: %.2fs">`, t.y, t.at)
	column := 0
	for _, s := range r.spans {
		n := utf8.RuneCountInString(s.text)
		if n == 0 {
			continue
		}
		fmt.Fprintf(out, `<tspan x="%.1f" textLength="%.1f" lengthAdjust="spacingAndGlyphs"%s>%s</tspan>`,
			margin+float64(column)*cell, float64(n)*cell, s.attributes(), html.EscapeString(s.text))
		column += n
	}
	out.WriteString("</text>\n")
}

// attributes are those of a style, with a space before them.
func (s style) attributes() string {
	switch color := colors[s.color]; {
	case color != "":
		return fmt.Sprintf(` style="fill: %s"`, color)
	case s.bold:
		return ` class="bold"`
	case s.dim:
		return ` class="dim"`
	default:
		return ""
	}
}
