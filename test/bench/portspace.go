package main

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"jeffthecoder.xyz/portcullis/test/bench/process"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// portSpace fills the whole port space: every TCP port once. No object of the API server holds so many: a Service ends at
// about 10,000 ports, and a ConfigMap at about 30,000 entries. So several classes share the ports.
func (b *bench) portSpace() error {
	ports, perClass := b.of(65535, 400), b.of(9363, 200)
	return b.on(1, harness.Options{ControlPlane: controlplane.Options{Audit: true}}, func(s *stage) error {
		classes := (ports + perClass - 1) / perClass
		b.say("portspace: %d streams of %d classes", ports, classes)
		var following []*progress
		var stops []func()
		defer func() {
			for _, stop := range stops {
				stop()
			}
		}()
		for i := range classes {
			withService := i > 0 // one without, to see what the Service costs
			if err := s.class(spaceClass(i), withService); err != nil {
				return err
			}
			seen, stop, err := s.follow(spaceClass(i), withService)
			if err != nil {
				return err
			}
			stops = append(stops, stop)
			following = append(following, seen)
		}
		return s.fillPortSpace(ports, perClass, following)
	})
}

func spaceClass(i int) string { return fmt.Sprintf("space-%d", i) }

// fillPortSpace creates a stream for every port, and waits until all are programmed.
func (s *stage) fillPortSpace(ports, perClass int, following []*progress) error {
	clients, namespaces, err := s.clients("space", crowd)
	if err != nil {
		return err
	}
	before, err := s.written()
	if err != nil {
		return err
	}
	defer s.b.reportProgress("programmed", ports, func() int { return sumOf(following) })()
	var created sample.Sample
	began := time.Now()
	if err := created.Measure(crowd, ports, func(worker, i int) error {
		return clients[worker].Create(s.b.ctx, stream(namespaces[worker], fmt.Sprintf("port-%d", i+1), spaceClass(i/perClass), i+1))
	}); err != nil {
		return err
	}
	lastCreate := time.Now()
	last, err := s.latest(following, func(i int) int { return min(perClass, ports-i*perClass) })
	if err != nil {
		return err
	}
	writes, err := s.since(before, harness.User)
	if err != nil {
		return err
	}
	proxies := writes.granted["configmaps"] + writes.granted["services"]
	title := "The whole port space"
	if s.b.quick {
		title = "A part of the port space"
	}
	s.b.add(report.Section{
		Title: fmt.Sprintf("%s: %d streams", title, ports),
		About: fmt.Sprintf("Each TCP port once, in %d classes with a ConfigMap each, all but one with a Service: the API server stores no "+
			"Service with more than about 10,000 ports and no ConfigMap with more than about 30,000 entries. Statuses are written meanwhile; "+
			"that all of them are is not waited for.", len(following)),
		Figures: []report.Figure{
			{Name: "creates per second", Value: created.Rate(), Unit: "1/s"},
			{Name: "create, p50", Value: created.At(50), Unit: "ms"},
			{Name: "create, p99", Value: created.At(99), Unit: "ms"},
			{Name: "first create to programmed", Value: last.Sub(began).Seconds(), Unit: "s"},
			{Name: "last create to programmed", Value: last.Sub(lastCreate).Seconds(), Unit: "s"},
			{Name: "writes of ConfigMaps and Services", Value: float64(proxies), Unit: "writes"},
			{Name: "memory of the manager at its peak", Value: process.Peak(s.Replicas[0].PID()), Unit: "MiB"},
		},
	})
	return nil
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
