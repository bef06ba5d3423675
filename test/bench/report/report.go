// Package report writes down what a benchmark has found: for people as Markdown with plots, for programs as JSON.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"jeffthecoder.xyz/portcullis/test/bench/plot"
)

// Report is everything that was found.
type Report struct {
	Date string `json:"date"`
	// Quick says that less was measured than in a full run.
	Quick    bool      `json:"quick,omitempty"`
	Machine  []Fact    `json:"machine"`
	Versions []Fact    `json:"versions"`
	Sections []Section `json:"sections"`
}

// Fact is something that the figures depend on.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Section is what one part has measured.
type Section struct {
	Title string `json:"title"`
	About string `json:"about"`
	// Measured says when, and on what, if that was another run than the report's.
	Measured string       `json:"measured,omitempty"`
	Figures  []Figure     `json:"figures,omitempty"`
	Plots    []plot.Chart `json:"plots,omitempty"`
}

// Figure is one number.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Baseline is the same measured for something else, which Than names; Ratio is what Value is of it.
	Baseline float64 `json:"baseline,omitempty"`
	Than     string  `json:"than,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"`
	Goal     *Goal   `json:"goal,omitempty"`
}

// Goal is what a figure should be.
type Goal struct {
	// Want is the goal in words.
	Want string `json:"want"`
	Met  bool   `json:"met"`
	// Why it was missed.
	Why string `json:"why,omitempty"`
}

// Against adds the same figure of something else.
func (f Figure) Against(than string, baseline float64) Figure {
	f.Than, f.Baseline = than, baseline
	if baseline > 0 {
		f.Ratio = f.Value / baseline
	}
	return f
}

// AtMost sets a goal for the value. why explains what stands in the way, where the goal is missed.
func (f Figure) AtMost(limit float64, why string) Figure {
	return f.goal(fmt.Sprintf("≤ %s %s", Number(limit), f.Unit), f.Value <= limit, why)
}

// RatioAtMost sets a goal for the ratio.
func (f Figure) RatioAtMost(limit float64, why string) Figure {
	return f.goal(fmt.Sprintf("≤ %s × %s", Number(limit), f.Than), f.Baseline > 0 && f.Ratio <= limit, why)
}

// AtLeast sets a goal for the value.
func (f Figure) AtLeast(limit float64, why string) Figure {
	return f.goal(fmt.Sprintf("≥ %s %s", Number(limit), f.Unit), f.Value >= limit, why)
}

func (f Figure) goal(want string, met bool, why string) Figure {
	f.Goal = &Goal{Want: want, Met: met}
	if !met {
		f.Goal.Why = why
	}
	return f
}

// String is the figure in one line.
func (f Figure) String() string {
	text := fmt.Sprintf("%s: %s %s", f.Name, Number(f.Value), f.Unit)
	if f.Than != "" {
		text += fmt.Sprintf(" (%s %s, ratio %s)", f.Than, Number(f.Baseline), Number(f.Ratio))
	}
	if f.Goal != nil {
		text += fmt.Sprintf(" [%s: %s]", f.Goal.Want, f.Goal.verdict())
	}
	return text
}

func (g *Goal) verdict() string {
	if g.Met {
		return "met"
	}
	return "missed"
}

// Write writes benchmarks.json, benchmarks.md and the plots into a directory.
func (r *Report) Write(dir string) error {
	plots := filepath.Join(dir, plotsDir)
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return err
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	files := map[string][]byte{
		filepath.Join(dir, "benchmarks.json"): append(content, '\n'),
		filepath.Join(dir, "benchmarks.md"):   r.markdown(),
	}
	for _, s := range r.Sections {
		for _, p := range s.Plots {
			files[filepath.Join(plots, p.Name+".svg")] = p.SVG()
		}
	}
	for name, content := range files {
		if err := os.WriteFile(name, content, 0o644); err != nil { //nolint:gosec // a report is for everybody
			return err
		}
	}
	return nil
}

// AddTo writes what was found into the report that a directory has, in place of its sections of the same titles. They say that they are
// of another run.
func (r *Report) AddTo(dir string) error {
	content, err := os.ReadFile(filepath.Join(dir, "benchmarks.json"))
	if err != nil {
		return err
	}
	var whole Report
	if err := json.Unmarshal(content, &whole); err != nil {
		return err
	}
	for _, s := range r.Sections {
		s.Measured = "on " + r.Date
		for _, v := range r.Versions {
			s.Measured += fmt.Sprintf(", %s %s", v.Name, v.Value)
		}
		i := slices.IndexFunc(whole.Sections, func(other Section) bool { return other.Title == s.Title })
		if i < 0 {
			whole.Sections = append(whole.Sections, s)
		} else {
			whole.Sections[i] = s
		}
	}
	return whole.Write(dir)
}

// plotsDir is where the plots are, beside the report.
const plotsDir = "benchmarks"
