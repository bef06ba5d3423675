package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// row is a line of a terminal.
type row struct {
	// isTyped says that a person types it.
	isTyped bool
	spans   []span
}

// span is text of one style.
type span struct {
	text string
	style
}

// style is how text looks. The color is a number of ECMA-48, 0 for that of all text.
type style struct {
	bold, dim bool
	color     string
}

// control is a sequence that a terminal obeys (ECMA-48, "control sequence").
var control = regexp.MustCompile(`\x1b\[([0-9;?]*)([a-zA-Z])`)

// shown is what a terminal so many columns wide shows of a text: lines that are longer go on in the next, what is erased is not there, and
// "select graphic rendition" makes styles. Nothing else of ECMA-48 is written by the commands that are recorded.
func shown(text string, columns int) (rows []row) {
	now := style{}
	for line := range strings.SplitSeq(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n") {
		line = line[strings.LastIndexByte(line, '\r')+1:] // a progress that was written over
		var spans []span
		for line != "" {
			at := control.FindStringSubmatchIndex(line)
			if at == nil {
				spans = append(spans, span{line, now})
				break
			}
			if at[0] > 0 {
				spans = append(spans, span{line[:at[0]], now})
			}
			if line[at[4]:at[5]] == "m" {
				now = now.with(line[at[2]:at[3]])
			}
			line = line[at[1]:]
		}
		rows = append(rows, wrap(spans, columns)...)
	}
	return rows
}

// with is a style after a sequence of "select graphic rendition".
func (s style) with(parameters string) style {
	for p := range strings.SplitSeq(parameters, ";") {
		switch {
		case p == "" || p == "0":
			s = style{}
		case p == "1":
			s.bold = true
		case p == "2":
			s.dim = true
		case len(p) == 2 && p[0] == '3':
			s.color = p
		}
	}
	return s
}

// wrap has spans go on in the next row where a row is full.
func wrap(spans []span, columns int) []row {
	rows := []row{{}}
	left := columns
	for _, s := range spans {
		for utf8.RuneCountInString(s.text) > left {
			runes := []rune(s.text)
			rows[len(rows)-1].spans = append(rows[len(rows)-1].spans, span{string(runes[:left]), s.style})
			rows = append(rows, row{})
			s.text, left = string(runes[left:]), columns
		}
		rows[len(rows)-1].spans = append(rows[len(rows)-1].spans, s)
		left -= utf8.RuneCountInString(s.text)
	}
	return rows
}
