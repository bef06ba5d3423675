package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"jeffthecoder.xyz/portcullis/test/bench/plot"
	"jeffthecoder.xyz/portcullis/test/bench/process"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// house fills a cluster step by step, and measures on the way: bursts of streams, then single changes with all of them
// there, Pods, and at last what a new process makes of everything.
func (b *bench) house() error {
	options := harness.Options{ControlPlane: controlplane.Options{Audit: true}, Flags: b.profileFlags()}
	if b.quick {
		options.Flags = append(options.Flags, "--audit-interval=15s") // two looks of the second reader are waited for
	}
	return b.on(1, options, func(s *stage) error {
		full, err := s.bursts()
		if err != nil {
			return err
		}
		for _, measure := range []func(string) error{s.changes, s.crowd, s.population, s.startUp} {
			if err := measure(full); err != nil {
				return err
			}
		}
		return nil
	})
}

// inHouse is how many streams a full house has.
func (b *bench) inHouse() int { return b.of(10000, 200) }

// bursts measures bursts of growing size, each for a class of its own, and returns the last class.
func (s *stage) bursts() (class string, err error) {
	sizes := []int{100, 1000, s.b.inHouse()}
	if s.b.quick {
		sizes = []int{100, s.b.inHouse()}
	}
	var outcomes []outcome
	var used []report.Figure
	for _, n := range sizes {
		class = fmt.Sprintf("burst-%d", n)
		s.b.say("burst: %d streams by %d clients", n, crowd)
		if err := s.class(class, true); err != nil {
			return "", err
		}
		profiled, computed := s.b.profile(class), s.computing()
		o, err := s.converge(burst{
			class: class, streams: n, firstPort: 10000, withService: true, user: harness.User, reports: isOpen, limit: 10 * time.Minute,
		})
		profiled()
		used = computed(n)
		if err != nil {
			return "", err
		}
		s.b.say("  %s", o)
		outcomes = append(outcomes, *o)
	}
	manager := s.Replicas[0].PID()
	section := s.b.convergenceSection(outcomes)
	section.Figures = append(append(section.Figures, used...),
		report.Figure{Name: "memory of the manager at its peak", Value: process.Peak(manager), Unit: "MiB"})
	s.b.add(section)
	return class, nil
}

// computing begins to note how much each process computes, and tells it when the function that it returns is called.
func (s *stage) computing() func(streams int) []report.Figure {
	processes := process.Children(os.Getpid())
	processes["the clients"] = os.Getpid()
	before := map[string]float64{}
	for name, pid := range processes {
		before[name] = process.CPUSeconds(pid)
	}
	return func(streams int) []report.Figure {
		var figures []report.Figure
		for _, name := range slices.Sorted(maps.Keys(processes)) {
			used := process.CPUSeconds(processes[name]) - before[name]
			figures = append(figures, report.Figure{Name: fmt.Sprintf("%d streams: CPU time of %s", streams, name), Value: used, Unit: "s"})
		}
		return figures
	}
}

// convergenceSection reports bursts, against what the tutorial's controller took for as many streams.
func (b *bench) convergenceSection(outcomes []outcome) report.Section {
	section := report.Section{
		Title: "Convergence of bursts",
		About: fmt.Sprintf("Streams are created by %d clients as fast as they can, for a class with a ConfigMap and a Service. "+
			"Programmed is when both have every port; reported is when every stream's status says so. "+
			"Compared is a controller as in a tutorial, which updates the ConfigMap once and the Service once for each stream, "+
			"without admission, claims, status and events. The API server can store about 10,000 ports in one Service, so that no burst for "+
			"one class is larger. Writes are counted at the API server.", crowd),
	}
	seconds := plot.Chart{Name: "convergence", Title: "From the first create to the last port", X: "streams", Y: "s", LogX: true, LogY: true}
	writes := plot.Chart{Name: "writes", Title: "Writes of the ConfigMap and the Service", X: "streams", Y: "writes", LogX: true, LogY: true}
	var ours, reported, all plot.Line
	for i := range outcomes {
		o := &outcomes[i]
		n := float64(o.streams)
		section.Figures = append(section.Figures, b.burstFigures(o)...)
		ours.Points = append(ours.Points, plot.Point{X: n, Y: o.programmed.Seconds()})
		reported.Points = append(reported.Points, plot.Point{X: n, Y: o.reported.Seconds()})
		all.Points = append(all.Points, plot.Point{X: n, Y: float64(o.proxyWrites())})
	}
	ours.Name, reported.Name, all.Name = "programmed", "reported", "Portcullis"
	seconds.Series, writes.Series = []plot.Line{ours, reported}, []plot.Line{all}
	if len(b.tutorials) > 0 {
		theirs, theirWrites := plot.Line{Name: "tutorial"}, plot.Line{Name: "tutorial"}
		for i := range b.tutorials {
			o := &b.tutorials[i]
			theirs.Points = append(theirs.Points, plot.Point{X: float64(o.streams), Y: o.programmed.Seconds()})
			theirs.Dashed = theirs.Dashed || o.brokenOff > 0
			if o.brokenOff == 0 {
				theirWrites.Points = append(theirWrites.Points, plot.Point{X: float64(o.streams), Y: float64(o.proxyWrites())})
			}
		}
		seconds.Series, writes.Series = append(seconds.Series, theirs), append(writes.Series, theirWrites)
	}
	section.Plots = []plot.Chart{seconds, writes}
	return section
}

// burstFigures are the figures of one burst.
func (b *bench) burstFigures(o *outcome) []report.Figure {
	n := float64(o.streams)
	name := func(what string) string { return fmt.Sprintf("%d streams: %s", o.streams, what) }
	programmed := report.Figure{Name: name("first create to programmed"), Value: o.programmed.Seconds(), Unit: "s"}
	last := report.Figure{Name: name("last create to programmed"), Value: (o.programmed - o.lastCreate).Seconds(), Unit: "s"}
	writes := report.Figure{Name: name("writes of ConfigMap and Service"), Value: float64(o.proxyWrites()), Unit: "writes"}
	sent := report.Figure{Name: name("sent for them"), Value: o.sentBytes / (1 << 20), Unit: "MiB"}
	for i := range b.tutorials {
		if t := &b.tutorials[i]; t.streams == o.streams {
			than := "tutorial"
			if t.brokenOff > 0 {
				than = fmt.Sprintf("tutorial, extrapolated from %d streams", t.brokenOff)
			} else {
				writes = writes.Against(than, float64(t.proxyWrites()))
				sent = sent.Against(than, t.sentBytes/(1<<20))
			}
			programmed = programmed.Against(than, t.programmed.Seconds())
			if o.streams == 10000 {
				programmed = programmed.RatioAtMost(0.05, fmt.Sprintf("%.0f of the %.0f s had passed when the last stream was created. "+
					"Until then nothing can be complete, and the creates take longer here: Portcullis judges each, writes a claim, a status and "+
					"events for it, and the tutorial's controller does not", o.lastCreate.Seconds(), o.programmed.Seconds()))
			}
		}
	}
	if o.streams >= 10000 {
		last, writes = last.AtMost(3, whyLate), writes.AtMost(100, fmt.Sprintf("writes are spaced by time, "+
			"and this burst took %.0f s", o.programmed.Seconds()))
	}
	return []report.Figure{
		programmed, last,
		{Name: name("reported"), Value: o.reported.Seconds(), Unit: "s"},
		{Name: name("creates per second"), Value: o.created.Rate(), Unit: "1/s"},
		writes, sent,
		{Name: name("conflicts retried"), Value: float64(o.writes.conflicts), Unit: "writes"},
		{Name: name("writes of claims per stream"), Value: float64(o.writes.granted["edgeclaims"]) / n, Unit: "writes"},
		{Name: name("writes of status per stream"), Value: float64(o.writes.granted["status"]) / n, Unit: "writes"},
		{Name: name("writes of events per stream"), Value: float64(o.writes.granted["events"]) / n, Unit: "writes"},
	}
}

// whyLate explains what comes after the last create.
const whyLate = "the writes for one class are spaced by two seconds, or by what a write takes where that is longer. For each write of a " +
	"Service with so many ports, the API server merges, validates and stores all of them, beside the claims, statuses and events of the burst"
