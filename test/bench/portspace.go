package main

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"jeffthecoder.xyz/portcullis/test/bench/process"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// space is the part of the port space that one class has.
type space struct {
	class       string
	ports       int
	withService bool
}

// portSpace fills the whole port space: every TCP port once. No object of the API server holds so many: a Service ends at
// about 10,000 ports, and a ConfigMap at about 30,000 entries. So several classes share the ports.
func (b *bench) portSpace() error {
	spaces := []space{{"space-0", 28086, false}, {"space-1", 28086, false}, {"space-2", 9363, true}}
	if b.quick {
		spaces = []space{{"space-0", 50, false}, {"space-1", 50, false}, {"space-2", 50, true}}
	}
	return b.on(1, harness.Options{}, func(s *stage) error {
		var classes []string // of each port
		var following []*progress
		var stops []func()
		defer func() {
			for _, stop := range stops {
				stop()
			}
		}()
		for _, space := range spaces {
			if err := s.class(space.class, space.withService); err != nil {
				return err
			}
			seen, stop, err := s.follow(space.class, space.withService)
			if err != nil {
				return err
			}
			stops = append(stops, stop)
			following = append(following, seen)
			classes = append(classes, slices.Repeat([]string{space.class}, space.ports)...)
		}
		b.say("portspace: %d streams of %d classes", len(classes), len(spaces))
		return s.fillPortSpace(spaces, classes, following)
	})
}

// fillPortSpace creates a stream for every port, and waits until all are programmed. classes has the class of each port.
func (s *stage) fillPortSpace(spaces []space, classes []string, following []*progress) error {
	clients, namespaces, err := s.clients("space", crowd)
	if err != nil {
		return err
	}
	defer s.b.reportProgress("programmed", len(classes), func() int { return sumOf(following) })()
	before := versionsOf(following)
	var created sample.Sample
	began := time.Now()
	if err := created.Measure(crowd, len(classes), func(worker, i int) error {
		return clients[worker].Create(s.b.ctx, stream(namespaces[worker], fmt.Sprintf("port-%d", i+1), classes[i], i+1))
	}); err != nil {
		return err
	}
	lastCreate := time.Now()
	last, err := s.latest(following, func(i int) int { return spaces[i].ports })
	if err != nil {
		return err
	}
	title := "The whole port space"
	if s.b.quick {
		title = "A part of the port space"
	}
	s.b.add(report.Section{
		Title: fmt.Sprintf("%s: %d streams", title, len(classes)),
		About: fmt.Sprintf("Each TCP port once, in %d classes with a ConfigMap each, the last one with a Service, too: the API server stores "+
			"no Service with more than about 10,000 ports and no ConfigMap with more than about 30,000 entries. Statuses are written meanwhile; "+
			"that all of them are is not waited for.", len(spaces)),
		Figures: []report.Figure{
			{Name: "creates per second", Value: created.Rate(), Unit: "1/s"},
			{Name: "create, p50", Value: created.At(50), Unit: "ms"},
			{Name: "create, p99", Value: created.At(99), Unit: "ms"},
			{Name: "first create to programmed", Value: last.Sub(began).Seconds(), Unit: "s"},
			{Name: "last create to programmed", Value: last.Sub(lastCreate).Seconds(), Unit: "s"},
			{Name: "versions of ConfigMaps and Service", Value: float64(versionsOf(following) - before), Unit: "versions"},
			{Name: "memory of the manager at its peak", Value: process.Peak(s.Replicas[0].PID()), Unit: "MiB"},
		},
	})
	return nil
}

// versionsOf is how many versions of the ConfigMaps and Services have been seen.
func versionsOf(following []*progress) int {
	sum := 0
	for _, seen := range following {
		sum += len(seen.history())
	}
	return sum
}

func sumOf(following []*progress) int {
	sum := 0
	for _, seen := range following {
		sum += seen.done()
	}
	return sum
}

// latest waits until each of several proxies has so many ports, and returns when the last of them had.
func (s *stage) latest(following []*progress, want func(i int) int) (time.Time, error) {
	ends := make([]time.Time, len(following))
	var group errgroup.Group
	for i, seen := range following {
		group.Go(func() (err error) {
			ends[i], err = seen.wait(s.b.ctx, want(i), 10*time.Minute)
			return err
		})
	}
	err := group.Wait()
	return slices.MaxFunc(ends, time.Time.Compare), err
}
