package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// TestPicturesShowTheirCommands holds that every picture is of the commands that would be recorded now, and that what they say is there.
func TestPicturesShowTheirCommands(t *testing.T) {
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "docs", "pictures")
	// Of make dashboard, and drawn by hand.
	wanted := []string{filepath.Join(dir, "dashboard.svg"), filepath.Join(dir, "overview.svg")}
	for _, r := range recordings {
		wanted = append(wanted, filepath.Join(dir, r.name+".svg"))
	}
	slices.Sort(wanted)
	there, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if diff := cmp.Diff(wanted, there); err != nil || diff != "" {
		t.Errorf("docs/pictures, %v: run make recordings (-want +got):\n%s", err, diff)
	}
	for _, r := range recordings {
		t.Run(r.name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, r.name+".svg")) //nolint:gosec // a file of this repository
			if err != nil {
				t.Fatal(err)
			}
			rows := textOf(t, data)
			var got []string
			said := 0
			for _, line := range rows {
				if isTyped(line) {
					got = append(got, line)
				} else {
					said++
				}
			}
			var want []string
			for _, c := range r.commands {
				for _, typed := range typed(c.text) {
					want = append(want, typed.spans[0].text+typed.spans[1].text)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || said < len(r.commands) {
				t.Errorf("run make recordings: %d lines of answers, and of commands (-want +got):\n%s", said, diff)
			}
		})
	}
}

func isTyped(line string) bool {
	return strings.HasPrefix(line, prompt) || strings.HasPrefix(line, continued)
}

// textOf are the lines of a picture.
func textOf(t *testing.T, picture []byte) (lines []string) {
	t.Helper()
	var svg struct {
		Title string `xml:"title"`
		Text  []struct {
			Spans []string `xml:"tspan"`
		} `xml:"text"`
	}
	if err := xml.Unmarshal(picture, &svg); err != nil || svg.Title == "" {
		t.Fatalf("title %q, %v", svg.Title, err)
	}
	for _, text := range svg.Text {
		lines = append(lines, strings.Join(text.Spans, ""))
	}
	return lines
}

// TestShown holds what a terminal shows.
func TestShown(t *testing.T) {
	t.Parallel()
	plain := func(text string) row { return row{spans: []span{{text: text}}} }
	for name, tc := range map[string]struct {
		text string
		want []row
	}{
		"lines":                         {"one\r\ntwo\r\n", []row{plain("one"), plain("two")}},
		"a line that is too long":       {"0123456789abc\n", []row{plain("0123456789"), plain("abc")}},
		"letters, not bytes":            {"äöüäöüäöüä\n", []row{plain("äöüäöüäöüä")}},
		"progress that is written over": {"\rreading: 7\r\x1b[Kdone\r\n", []row{plain("done")}},
		"colors": {"\x1b[1mA\x1b[0m b\r\n\x1b[31merror\x1b[0m c\r\n", []row{
			{spans: []span{{"A", style{bold: true}}, {text: " b"}}},
			{spans: []span{{"error", style{color: "31"}}, {text: " c"}}},
		}},
		"a color over the end of a row": {"\x1b[33m0123456789ab\x1b[0m", []row{
			{spans: []span{{"0123456789", style{color: "33"}}}}, {spans: []span{{"ab", style{color: "33"}}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, shown(tc.text, 10), cmp.AllowUnexported(row{}, span{}, style{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPicture holds that what is written is text, and never markup of the picture.
func TestPicture(t *testing.T) {
	t.Parallel()
	said := `<script>alert(1)</script> & "quotes"`
	rows := append(typed("first\nsecond"), row{spans: []span{{said[:8], style{color: "31"}}, {text: said[8:]}}})
	got := textOf(t, picture("a < b", 80, rows))
	if diff := cmp.Diff([]string{"$ first", "> second", said}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
