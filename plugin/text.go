package plugin

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// clean is a text that others have written, for one line on a terminal: what would move the cursor there, or turn around what is read, is
// replaced.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\t', r == '\u2028', r == '\u2029':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// line writes one line, whatever is in it.
func line(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, clean(fmt.Sprintf(format, args...)))
}

// plain is a text in which SARIF sees no links.
func plain(text string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`).Replace(text)
}

// inJSON is a text in JSON with what a terminal would obey as JSON has it. It is the same JSON.
func inJSON(text string) string {
	var all strings.Builder
	for _, r := range text {
		if (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) && r != '\n' {
			fmt.Fprintf(&all, `\u%04x`, r)
			continue
		}
		all.WriteRune(r)
	}
	return all.String()
}
