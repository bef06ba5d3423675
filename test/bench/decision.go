package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"jeffthecoder.xyz/portcullis/test/bench/plot"
	"jeffthecoder.xyz/portcullis/test/bench/report"
)

// decision runs the Go benchmarks of the webhooks: what a decision costs, without what the API server costs.
func (b *bench) decision() error {
	found, err := b.decisions("-bench=.", "-skip=^("+guardBenchmark+"|"+hostsBenchmark+")")
	if err != nil {
		return err
	}
	b.add(decisionSection(found))
	return nil
}

// decisions runs some Go benchmarks of the webhooks.
func (b *bench) decisions(which ...string) ([]*measured, error) {
	times, runs := "300ms", b.of(3, 1)
	if b.quick {
		times = "20ms"
	}
	b.say("decision: Go benchmarks of the webhooks, %d times %s each", runs, times)
	args := append([]string{"test", "-run=^$", "-benchtime=" + times, "-count=" + strconv.Itoa(runs),
		"-short=" + strconv.FormatBool(b.quick), "./webhooks"}, which...)
	test := exec.CommandContext(b.ctx, "go", args...)
	test.Dir = b.root
	out, err := test.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test -bench: %w\n%s", err, out)
	}
	found := parseBenchmarks(out)
	if len(found) == 0 {
		return nil, fmt.Errorf("go test -bench has measured nothing:\n%s", out)
	}
	return found, nil
}

// measured is what Go benchmarks of one name have found, one element a run.
type measured struct {
	name string
	// claims is how many claims there were, ListenerSets, or host names.
	claims        float64
	nanos, allocs []float64
}

var benchmarkLine = regexp.MustCompile(
	`^Benchmark(\S+?)(?:/(?:claims|sets|names)=(\d+))?(?:-\d+)?\s+\d+\s+([\d.]+) ns/op\s+[\d.]+ B/op\s+(\d+) allocs/op`)

// parseBenchmarks reads what go test -bench prints, in its order.
func parseBenchmarks(out []byte) []*measured {
	var found []*measured
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		m := benchmarkLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		claims, _ := strconv.ParseFloat(m[2], 64)
		nanos, _ := strconv.ParseFloat(m[3], 64)
		allocs, _ := strconv.ParseFloat(m[4], 64)
		at := slices.IndexFunc(found, func(f *measured) bool { return f.name == m[1] && f.claims == claims })
		if at < 0 {
			at, found = len(found), append(found, &measured{name: m[1], claims: claims})
		}
		found[at].nanos, found[at].allocs = append(found[at].nanos, nanos), append(found[at].allocs, allocs)
	}
	return found
}

// micros is the median cost in microseconds.
func (m *measured) micros() float64 { return median(m.nanos) / 1000 }

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// decisionSection reports what each kind of decision costs with the most claims, and how that differs from fewer.
func decisionSection(found []*measured) report.Section {
	s := report.Section{
		Title: "The decision, in process",
		About: "Go benchmarks of the webhooks on a cache filled with claims and everything that goes with them: streams, Services, " +
			"and the ConfigMap and Service of the class, as full as they can be. Medians of several runs. " +
			"What would write a claim writes it into memory. A review is a whole request at the webhook server: JSON in, JSON out.",
	}
	chart := plot.Chart{Name: "decision", Title: "Cost of a decision", X: "claims in the ledger", Y: "µs", LogX: true}
	for _, of := range byName(found) {
		title := strings.ReplaceAll(of[0].name, "/", ", ")
		s.Figures = append(s.Figures, decisionFigures(title, "claims", 50, of)...)
		if len(of) > 1 {
			line := plot.Line{Name: title}
			for _, m := range of {
				line.Points = append(line.Points, plot.Point{X: m.claims, Y: m.micros()})
			}
			chart.Series = append(chart.Series, line)
		}
	}
	s.Plots = []plot.Chart{chart}
	return s
}

// byName are the benchmarks of one name each.
func byName(found []*measured) (names [][]*measured) {
	for len(found) > 0 {
		name := found[0].name
		isOther := func(m *measured) bool { return m.name != name }
		names = append(names, slices.DeleteFunc(slices.Clone(found), isOther))
		found = slices.DeleteFunc(found, func(m *measured) bool { return !isOther(m) })
	}
	return names
}

// decisionFigures are the figures of one kind of decision, measured with several numbers of claims, or of something else, and at most so
// many microseconds long.
func decisionFigures(title, things string, limit float64, of []*measured) []report.Figure {
	last := of[len(of)-1]
	allocations := report.Figure{Name: title + ", allocations", Value: median(last.allocs)}
	if len(of) == 1 {
		return []report.Figure{{Name: title, Value: last.micros(), Unit: "µs"}, allocations}
	}
	byCost := func(a, b *measured) int { return cmp.Compare(a.micros(), b.micros()) }
	most, least := slices.MaxFunc(of, byCost), slices.MinFunc(of, byCost)
	why := fmt.Sprintf("it is the most with %.0f %s and the least with %.0f", most.claims, things, least.claims)
	if most == last {
		why += "; no step of it loops over " + things + ", but what is in a larger cache is less often in the CPU's"
	} else {
		why += ", so that it is not their number that costs: the machine did something else, too"
	}
	return []report.Figure{
		report.Figure{Name: fmt.Sprintf("%s, %.0f %s", title, last.claims, things), Value: last.micros(), Unit: "µs"}.AtMost(limit, ""),
		report.Figure{Name: title + ", the most of all sizes", Value: most.micros(), Unit: "µs"}.
			Against("the least", least.micros()).
			RatioAtMost(1.3, why),
		allocations,
	}
}
