package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// markdown is the report for people.
func (r *Report) markdown() []byte {
	var text bytes.Buffer
	fmt.Fprintln(&text, "# Benchmarks")
	fmt.Fprintf(&text, "\nMeasured by `make bench` on %s. The figures are in benchmarks.json, too.\n", r.Date)
	if r.Quick {
		fmt.Fprintln(&text, "\nThis was a quick run: fewer samples, smaller numbers of objects.")
	}
	fmt.Fprintln(&text, "\nEverything ran on one machine: etcd, kube-apiserver, Portcullis and the clients.",
		"What is compared was measured in the same run, in turns where that is possible.")
	fmt.Fprintln(&text, "\n| | |\n|---|---|")
	for _, f := range append(append([]Fact{}, r.Machine...), r.Versions...) {
		fmt.Fprintf(&text, "| %s | %s |\n", f.Name, f.Value)
	}
	r.goals(&text)
	for i := range r.Sections {
		r.Sections[i].markdown(&text)
	}
	return text.Bytes()
}

// goals lists all goals in one table.
func (r *Report) goals(text *bytes.Buffer) {
	fmt.Fprintln(text, "\n## Goals")
	fmt.Fprintln(text, "\n| | | measured | goal | |\n|---|---|--:|---|---|")
	for _, s := range r.Sections {
		for _, f := range s.Figures {
			if f.Goal != nil {
				fmt.Fprintf(text, "| %s | %s | %s | %s | %s |\n", s.Title, f.Name, f.measured(), f.Goal.Want, strings.ToUpper(f.Goal.verdict()))
			}
		}
	}
}

// measured is what the goal is about: the ratio where it is set for that, else the value.
func (f Figure) measured() string {
	if f.Than != "" && strings.Contains(f.Goal.Want, "×") {
		return Number(f.Ratio) + " ×"
	}
	return Number(f.Value) + " " + f.Unit
}

func (s *Section) markdown(text *bytes.Buffer) {
	fmt.Fprintf(text, "\n## %s\n\n%s\n", s.Title, s.About)
	if len(s.Figures) > 0 {
		s.table(text)
	}
	for _, p := range s.Plots {
		fmt.Fprintf(text, "\n![%s](%s/%s.svg)\n", p.Title, plotsDir, p.Name)
	}
}

// table lists the figures, and tells why goals are missed.
func (s *Section) table(text *bytes.Buffer) {
	fmt.Fprintln(text, "\n| | | | compared with | | ratio | goal | |\n|---|--:|---|---|--:|--:|---|---|")
	var missed []Figure
	for _, f := range s.Figures {
		baseline, ratio, want, verdict := "", "", "", ""
		if f.Than != "" {
			baseline, ratio = Number(f.Baseline), Number(f.Ratio)
		}
		if f.Goal != nil {
			want, verdict = f.Goal.Want, f.Goal.verdict()
			if !f.Goal.Met {
				verdict = "**missed**"
				missed = append(missed, f)
			}
		}
		fmt.Fprintf(text, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
			f.Name, Number(f.Value), f.Unit, f.Than, baseline, ratio, want, verdict)
	}
	for _, f := range missed {
		if f.Goal.Why != "" {
			fmt.Fprintf(text, "\nWhy %s misses its goal: %s\n", f.Name, f.Goal.Why)
		}
	}
}

// Number prints a number with three digits that count.
func Number(v float64) string {
	magnitude := math.Abs(v)
	switch {
	case v == math.Trunc(v) && magnitude < 1e15, magnitude >= 100:
		return fmt.Sprintf("%.0f", v)
	case magnitude >= 10:
		return fmt.Sprintf("%.1f", v)
	case magnitude >= 0.1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}
