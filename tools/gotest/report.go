package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is one line of `go test -json`, as `go doc cmd/test2json` and `go help buildjson` describe it.
type event struct {
	Time    time.Time
	Action  string
	Package string
	// ImportPath stands in place of Package when the package can't be built.
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// report says how the tests go. Several modules may write to it at once.
type report struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
	// last is when something was said last.
	last time.Time
	// packages are those that run, by their import path.
	packages map[string]*progress

	passed, failed, skipped int
	bad                     bool
}

// progress is what is known of a package whose tests run.
type progress struct {
	// done counts the tests that have ended.
	done int
	// running has when each test began that has not ended, and output what each test that may yet fail has said; that of
	// the package itself is under the empty name.
	running map[string]time.Time
	output  map[string][]string
	// failed are the tests that have, in the order in which they did.
	failed []string
}

func newReport(out io.Writer) *report {
	now := time.Now()
	return &report{out: out, begin: now, last: now, packages: map[string]*progress{}}
}

// read reports events until they end, and returns whether any package failed. What is no event is shown as it is.
func (r *report) read(events io.Reader) (failed bool, err error) {
	in := bufio.NewReader(events)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				r.say(string(line))
			} else if r.add(e) {
				failed = true
			}
		}
		if errors.Is(err, io.EOF) {
			return failed, nil
		}
		if err != nil {
			return failed, err
		}
	}
}

// add reports one event and returns whether it is the failure of a package.
func (r *report) add(e event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.packages[e.Package]
	if p == nil {
		p = &progress{running: map[string]time.Time{}, output: map[string][]string{}}
		r.packages[e.Package] = p
	}
	switch {
	case e.Action == "build-output":
		r.write(e.Output)
	case e.Action == "build-fail":
		r.bad = true
		return true
	case e.Action == "output":
		p.output[e.Test] = append(p.output[e.Test], e.Output)
	case e.Test != "":
		r.test(p, e)
	case e.Action == "pass", e.Action == "skip", e.Action == "fail":
		r.write(p.text(e.Action == "fail"))
		delete(r.packages, e.Package)
		r.bad = r.bad || e.Action == "fail"
		return e.Action == "fail"
	}
	return false
}

// test reports what became of one test. Of one that passes, the output is forgotten.
func (r *report) test(p *progress, e event) {
	switch e.Action {
	case "run", "cont":
		p.running[e.Test] = e.Time
		return
	case "pause": // until those that run alone have ended
		delete(p.running, e.Test)
		return
	case "pass":
		r.passed++
		delete(p.output, e.Test)
	case "skip":
		r.skipped++
	case "fail":
		r.failed++
		p.failed = append(p.failed, e.Test)
	default:
		return
	}
	p.done++
	delete(p.running, e.Test)
}

// text is what is said of a package that has ended: the line that `go test` ends with and, when it failed, what the tests
// said that failed or never ended, and those that were skipped.
func (p *progress) text(failed bool) string {
	own := p.output[""]
	if !failed {
		return strings.Join(own[max(0, len(own)-1):], "")
	}
	var b strings.Builder
	for _, test := range slices.Concat(p.failed, slices.Sorted(maps.Keys(p.running))) {
		b.WriteString(strings.Join(p.output[test], ""))
	}
	b.WriteString(strings.Join(own, ""))
	return b.String()
}

// beat says what runs when nothing has been said for as long as beat.
func (r *report) beat(now time.Time, beat time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.last) < beat-beat/5 {
		return
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		if p := r.packages[name]; len(p.running) > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d done, running %s", path.Base(name), p.done, p.longest(now)))
		}
	}
	if len(lines) == 0 {
		lines = []string{"building tests"}
	}
	r.write(fmt.Sprintf("... %s: %s\n", now.Sub(r.begin).Round(time.Second), strings.Join(lines, "; ")))
}

// longest names the tests that have run for longest, and since when.
func (p *progress) longest(now time.Time) string {
	const enough = 3
	names := slices.SortedFunc(maps.Keys(p.running), func(a, b string) int { return p.running[a].Compare(p.running[b]) })
	var texts []string
	for _, name := range names[:min(enough, len(names))] {
		texts = append(texts, fmt.Sprintf("%s (%s)", name, now.Sub(p.running[name]).Round(time.Second)))
	}
	if more := len(names) - enough; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

// broken reports a module whose tests could not be run.
func (r *report) broken(module string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad = true
	r.write(fmt.Sprintf("%s: %v\n", module, err))
}

// close counts the tests and returns whether all passed.
func (r *report) close() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(fmt.Sprintf("tested for %s\n%d passed, %d failed, %d skipped\n",
		time.Since(r.begin).Round(time.Second), r.passed, r.failed, r.skipped))
	return !r.bad
}

func (r *report) say(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(text)
}

// write writes while the caller holds the lock.
func (r *report) write(text string) {
	if text == "" {
		return
	}
	r.last = time.Now()
	_, _ = io.WriteString(r.out, text) // a closed terminal ends the tests by itself
}
