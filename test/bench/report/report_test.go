package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jeffthecoder.xyz/portcullis/test/bench/plot"
)

func TestGoals(t *testing.T) {
	f := Figure{Name: "p50", Value: 2, Unit: "ms"}
	for name, tc := range map[string]struct {
		figure Figure
		met    bool
	}{
		"at most, met":           {f.AtMost(2, ""), true},
		"at most, missed":        {f.AtMost(1.9, "slow"), false},
		"at least, met":          {f.AtLeast(2, ""), true},
		"at least, missed":       {f.AtLeast(3, "slow"), false},
		"ratio, met":             {f.Against("nothing", 1).RatioAtMost(2, ""), true},
		"ratio, missed":          {f.Against("nothing", 1).RatioAtMost(1.3, "slow"), false},
		"ratio, met by nothing":  {Figure{Unit: "s"}.Against("nothing", 1).RatioAtMost(1.3, ""), true},
		"ratio, nothing to hold": {f.Against("nothing", 0).RatioAtMost(1.3, "slow"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.figure.Goal.Met != tc.met || (tc.figure.Goal.Why == "slow") == tc.met {
				t.Errorf("got %+v", *tc.figure.Goal)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 3: "3", 1234.5: "1234", 12.34: "12.3", 1.234: "1.23", 0.01234: "0.0123", -2.5: "-2.50"} {
		if got := Number(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}

func TestAddTo(t *testing.T) {
	dir := t.TempDir()
	section := func(title string, value float64) Section {
		return Section{Title: title, Figures: []Figure{{Name: "took", Value: value, Unit: "s"}}}
	}
	whole := &Report{Date: "2026-01-01", Sections: []Section{section("First", 1), section("Second", 2)}}
	if err := whole.Write(dir); err != nil {
		t.Fatal(err)
	}
	more := &Report{Date: "2026-02-02", Versions: []Fact{{"Go", "go1"}}, Sections: []Section{section("Second", 22), section("Third", 33)}}
	if err := more.AddTo(dir); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "benchmarks.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(content, &got); err != nil || got.Date != whole.Date || len(got.Sections) != 3 {
		t.Fatalf("got %+v, %v", got, err)
	}
	for i, want := range []struct {
		value    float64
		measured string
	}{{1, ""}, {22, "on 2026-02-02, Go go1"}, {33, "on 2026-02-02, Go go1"}} {
		if s := got.Sections[i]; s.Figures[0].Value != want.value || s.Measured != want.measured {
			t.Errorf("section %s has %v, measured %q", s.Title, s.Figures[0].Value, s.Measured)
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	r := &Report{Date: "2026-01-01", Machine: []Fact{{"CPU", "one"}}, Sections: []Section{{
		Title: "Admission", About: "How long it takes.",
		Figures: []Figure{Figure{Name: "told yes", Value: 3, Unit: "ms"}.Against("no webhook", 1).RatioAtMost(2.2, "it writes twice")},
		Plots:   []plot.Chart{{Name: "admission", Title: "Admission"}},
	}, {
		Title: "Start-up", About: "How long that takes.", Figures: []Figure{{Name: "ready", Value: 2, Unit: "s"}, {Name: "writes"}},
	}}}
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"0 of 1 goals are met.",
		"| Admission | told yes | 3 × | ≤ 2.20 × no webhook | **missed** |",
		"| told yes | 3 ms | no webhook: 1 ms | 3 | ≤ 2.20 × no webhook | **missed** |",
		"Missed by \"told yes\": it writes twice.\n",
		"![Admission](benchmarks/admission.svg)",
		"| What | Measured |\n|---|--:|\n| ready | 2 s |\n| writes | 0 |\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	content, err := os.ReadFile(filepath.Join(dir, "benchmarks.json"))
	var back Report
	if err != nil || json.Unmarshal(content, &back) != nil || back.Sections[0].Figures[0].Ratio != 3 {
		t.Errorf("%v\n%s", err, content)
	}
	if _, err := os.Stat(filepath.Join(dir, plotsDir, "admission.svg")); err != nil {
		t.Error(err)
	}
}
