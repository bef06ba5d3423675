package report

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// markdown is the report for people.
func (r *Report) markdown() []byte {
	var text bytes.Buffer
	fmt.Fprintln(&text, "# Benchmarks")
	fmt.Fprintf(&text, "\nMeasured by `make bench` on %s. The same figures for programs are in benchmarks.json.\n", r.Date)
	if r.Quick {
		fmt.Fprintln(&text, "\nThis was a quick run, with fewer samples and fewer objects: it shows that all can be measured, and no more.")
	}
	fmt.Fprintln(&text, "\nEverything ran on one machine: etcd, which did not wait for its disk, kube-apiserver, Portcullis and the clients.",
		"What is compared was measured in the same run, in turns where that is possible. p50 is the median; p99 is what one in a hundred",
		"takes longer than.")
	fmt.Fprintln(&text, "\n| Machine and versions | |\n|---|---|")
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
	var rows bytes.Buffer
	all, met := 0, 0
	for _, s := range r.Sections {
		for _, f := range s.Figures {
			if f.Goal == nil {
				continue
			}
			all++
			if f.Goal.Met {
				met++
			}
			fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s |\n", s.Title, f.Name, f.measured(), f.Goal.Want, f.Goal.marked())
		}
	}
	if all == 0 {
		return
	}
	fmt.Fprintln(text, "\n## Goals")
	fmt.Fprintf(text, "\n%d of %d goals are met. For those that are missed, their sections say why.\n", met, all)
	fmt.Fprintf(text, "\n| Section | What | Measured | Goal | |\n|---|---|--:|---|---|\n%s", rows.Bytes())
}

// measured is what the goal is about: the ratio where it is set for that, else the value.
func (f Figure) measured() string {
	if f.Than != "" && strings.Contains(f.Goal.Want, "×") {
		return Number(f.Ratio) + " ×"
	}
	return f.value()
}

// value is the value with its unit.
func (f Figure) value() string { return strings.TrimSpace(Number(f.Value) + " " + f.Unit) }

// compared is what the value is compared with.
func (f Figure) compared() string {
	if f.Than == "" {
		return ""
	}
	return strings.TrimSpace(f.Than + ": " + Number(f.Baseline) + " " + f.Unit)
}

// marked is the verdict in words that are not overlooked.
func (g *Goal) marked() string {
	if g.Met {
		return "met"
	}
	return "**missed**"
}

func (s *Section) markdown(text *bytes.Buffer) {
	fmt.Fprintf(text, "\n## %s\n\n%s\n", s.Title, s.About)
	if s.Measured != "" {
		fmt.Fprintf(text, "\nMeasured in a run of its own, %s.\n", s.Measured)
	}
	if len(s.Figures) > 0 {
		s.table(text)
	}
	for _, p := range s.Plots {
		fmt.Fprintf(text, "\n![%s](%s/%s.svg)\n", p.Title, plotsDir, p.Name)
	}
}

// table lists the figures, and tells why goals are missed. It has no columns that would be empty.
func (s *Section) table(text *bytes.Buffer) {
	compared := slices.ContainsFunc(s.Figures, func(f Figure) bool { return f.Than != "" })
	aimed := slices.ContainsFunc(s.Figures, func(f Figure) bool { return f.Goal != nil })
	head, line := "| What | Measured |", "|---|--:|"
	if compared {
		head, line = head+" Compared with | Ratio |", line+"---|--:|"
	}
	if aimed {
		head, line = head+" Goal | |", line+"---|---|"
	}
	fmt.Fprintf(text, "\n%s\n%s\n", head, line)
	for _, f := range s.Figures {
		fmt.Fprintf(text, "| %s | %s |", f.Name, f.value())
		switch {
		case f.Than != "":
			fmt.Fprintf(text, " %s | %s |", f.compared(), Number(f.Ratio))
		case compared:
			fmt.Fprint(text, " | |")
		}
		switch {
		case f.Goal != nil:
			fmt.Fprintf(text, " %s | %s |", f.Goal.Want, f.Goal.marked())
		case aimed:
			fmt.Fprint(text, " | |")
		}
		fmt.Fprintln(text)
	}
	s.misses(text)
}

// misses tells why goals are missed, each reason once.
func (s *Section) misses(text *bytes.Buffer) {
	var whys []string
	names := map[string][]string{}
	for _, f := range s.Figures {
		if f.Goal == nil || f.Goal.Met {
			continue
		}
		why := cmp.Or(f.Goal.Why, "the reason is not known")
		if names[why] == nil {
			whys = append(whys, why)
		}
		names[why] = append(names[why], fmt.Sprintf("%q", f.Name))
	}
	for _, why := range whys {
		fmt.Fprintf(text, "\nMissed by %s: %s.\n", strings.Join(names[why], ", "), why)
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
