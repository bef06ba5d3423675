package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// report is everything that was found.
type report struct {
	Date string `json:"date"`
	// Quick says that less was measured than for docs.
	Quick    bool      `json:"quick,omitempty"`
	Machine  []fact    `json:"machine"`
	Versions []fact    `json:"versions"`
	Sections []section `json:"sections"`
}

// fact is something that the figures depend on.
type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// section is what one part has measured.
type section struct {
	Title   string   `json:"title"`
	About   string   `json:"about"`
	Figures []figure `json:"figures"`
}

// figure is one number.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Without is the same without Portcullis in the way, where that can be measured, and Ratio what Portcullis makes of it.
	Without float64 `json:"without,omitempty"`
	Ratio   float64 `json:"ratio,omitempty"`
}

// against adds what the same figure is without Portcullis.
func (f figure) against(without float64) figure {
	f.Without = without
	if without > 0 {
		f.Ratio = f.Value / without
	}
	return f
}

// add adds a section, and prints it.
func (b *bench) add(s section) {
	b.report.Sections = append(b.report.Sections, s)
	for _, f := range s.Figures {
		text := fmt.Sprintf("%s: %s %s", f.Name, number(f.Value), f.Unit)
		if f.Without > 0 {
			text += fmt.Sprintf(" (without Portcullis %s, ratio %.2f)", number(f.Without), f.Ratio)
		}
		b.say("  %s", text)
	}
}

// write writes benchmarks.json and benchmarks.md into a directory.
func (r *report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "benchmarks.json"), append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "benchmarks.md"), r.markdown(), 0o600)
}

// markdown is the report for people.
func (r *report) markdown() []byte {
	var text bytes.Buffer
	fmt.Fprintln(&text, "# Benchmarks")
	fmt.Fprintf(&text, "\nMeasured by `make bench` on %s. The figures are in benchmarks.json, too.\n", r.Date)
	if r.Quick {
		fmt.Fprintln(&text, "\nThis was a quick run: fewer samples, smaller numbers of streams.")
	}
	fmt.Fprintln(&text, "\nEverything ran on one machine: etcd, kube-apiserver, the replicas and the clients.",
		"\n\"Without\" is the same request for a namespace that the webhook leaves out, sent in turns with the others.")
	fmt.Fprintln(&text, "\n| | |\n|---|---|")
	for _, f := range append(r.Machine, r.Versions...) {
		fmt.Fprintf(&text, "| %s | %s |\n", f.Name, f.Value)
	}
	for _, s := range r.Sections {
		fmt.Fprintf(&text, "\n## %s\n\n%s\n\n", s.Title, s.About)
		fmt.Fprintln(&text, "| | | | without | ratio |\n|---|--:|---|--:|--:|")
		for _, f := range s.Figures {
			without, ratio := "", ""
			if f.Without > 0 {
				without, ratio = number(f.Without), fmt.Sprintf("%.2f", f.Ratio)
			}
			fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", f.Name, number(f.Value), f.Unit, without, ratio)
		}
	}
	return text.Bytes()
}

// number prints a number with three digits that count.
func number(v float64) string {
	switch {
	case v >= 100 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
