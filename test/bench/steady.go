package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/process"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/harness"
)

const (
	// steady is how many streams are created in a second while a class fills.
	steady = 50
	// singles are the ports of streams that are created one after the other, and of what is made by hand.
	singles, byHand = 60000, 62000
)

// steadyHouse is a class whose streams have objects of their own, which is filled step by step.
type steadyHouse struct {
	*stage
	way
	clients    []client.Client
	namespaces []string
	// open counts the streams of which all is written, and seen tells when it was.
	open *tallied
	seen *sightings
	// streams is how many there are, and opened how many single ones.
	streams, opened int
}

// way is what stands behind a class.
type way struct {
	// title is the name of the class.
	title string
	// list is the kind of what is written last for a stream, and isWritten says which of it is.
	list      client.ObjectList
	isWritten func(client.Object) bool
	// said says whether a stream says what it is to say in the end.
	said func(*v1beta1.StreamIngress) bool
	// resources are what Portcullis writes, limits how much of some there may be for each stream.
	resources []string
	limits    map[string]float64
	// byHand makes what a stream needs, as one would without Portcullis.
	byHand func(h *steadyHouse, port int32) error
	// late explains what comes after the last create, and slow what a single one takes.
	late, slow string
}

// fillUp measures a class while it fills.
func (s *stage) fillUp(w way, sizes []int) (figures []report.Figure, err error) {
	h, stop, err := s.houseOf(w)
	if err != nil {
		return nil, err
	}
	defer stop()
	var before *sample.Sample
	for _, n := range sizes {
		filled, err := h.fill(n)
		figures = append(figures, filled...)
		if err != nil {
			return figures, err
		}
		single, took, err := h.single(before)
		figures = append(figures, single...)
		if err != nil {
			return figures, err
		}
		before = took
	}
	return figures, nil
}

// houseOf makes users with an upstream each for a class that there is.
func (s *stage) houseOf(w way) (h *steadyHouse, stop func(), err error) {
	h = &steadyHouse{stage: s, way: w, open: &tallied{seen: map[string]bool{}}}
	if h.clients, h.namespaces, err = s.clients(w.title+"-user", crowd); err != nil {
		return nil, nil, err
	}
	for i, ns := range h.namespaces {
		if err := s.endpoint(ns, fmt.Sprintf("10.244.0.%d", 1+i)); err != nil {
			return nil, nil, err
		}
	}
	h.seen, stop, err = s.watching(w.list, func(e watch.Event) string {
		obj, ok := e.Object.(client.Object)
		if !ok || !w.isWritten(obj) {
			return ""
		}
		h.open.add(obj.GetName())
		return obj.GetName()
	})
	return h, stop, err
}

// fill creates streams until there are so many, steadily, and waits until everything is written.
func (h *steadyHouse) fill(n int) ([]report.Figure, error) {
	h.b.say("%s: %d streams, %d a second", h.title, n, steady)
	before, err := h.written()
	if err != nil {
		return nil, err
	}
	more, open := n-h.streams, h.open.count()
	used, profiled := h.computing(), h.b.profile(fmt.Sprintf("%s-%d", h.title, n))
	defer h.b.reportProgress("written", more, func() int { return h.open.count() - open })()
	pace := flowcontrol.NewTokenBucketRateLimiter(steady, 1)
	created := &sample.Sample{}
	if err := created.Measure(crowd, more, func(worker, i int) error {
		if err := pace.Wait(h.b.ctx); err != nil {
			return err
		}
		port := 1 + h.streams + i
		return h.clients[worker].Create(h.b.ctx, stream(h.namespaces[worker], fmt.Sprintf("s-%d", port), h.title, port))
	}); err != nil {
		return nil, err
	}
	lastCreate := time.Now()
	if err := h.until(func() (bool, error) { return h.open.count()-open >= more, nil }); err != nil {
		return nil, err
	}
	late := time.Since(lastCreate)
	if err := h.all(h.namespaces, h.said); err != nil {
		return nil, err
	}
	reported := time.Since(lastCreate)
	profiled()
	h.streams = n
	writes, err := h.since(before, harness.User)
	if err != nil {
		return nil, err
	}
	name := func(what string) string { return fmt.Sprintf("%d streams: %s", n, what) }
	figures := []report.Figure{
		{Name: name("creates per second"), Value: created.Rate(), Unit: "1/s"},
		report.Figure{Name: name("last create to written"), Value: late.Seconds(), Unit: "s"}.AtMost(5, h.late),
		{Name: name("last create to reported"), Value: reported.Seconds(), Unit: "s"},
	}
	figures = append(figures, h.perStream(name, more, writes)...)
	for _, cost := range used(n) {
		cost.Name += fmt.Sprintf(", for %d of them", more)
		figures = append(figures, cost)
	}
	return append(figures, report.Figure{
		Name: name("memory of the manager"), Value: process.Memory(h.Replicas[0].PID()), Unit: "MiB",
	}), nil
}

// perStream is what each of n streams has cost in writes.
func (w way) perStream(name func(string) string, n int, writes tally) []report.Figure {
	var figures []report.Figure
	all := 0
	for _, resource := range w.resources {
		granted := writes.granted[resource]
		all += granted
		figure := report.Figure{Name: name("writes of " + resource + " per stream"), Value: float64(granted) / float64(n), Unit: "writes"}
		if limit, limited := w.limits[resource]; limited {
			figure = figure.AtMost(limit, "")
		}
		figures = append(figures, figure)
	}
	return append(figures, report.Figure{Name: name("writes per stream"), Value: float64(all) / float64(n), Unit: "writes"},
		report.Figure{Name: name("conflicts retried"), Value: float64(writes.conflicts), Unit: "writes"})
}

// single creates streams one after the other, and what they need by hand beside them. Before are the streams of a house with fewer, nil
// for none.
func (h *steadyHouse) single(before *sample.Sample) ([]report.Figure, *sample.Sample, error) {
	n := h.b.of(100, 5)
	h.b.say("%s: %d streams, one after the other, among %d", h.title, n, h.streams)
	took, plain := &sample.Sample{}, &sample.Sample{}
	for range n {
		port := singles + h.opened
		h.opened++
		began := time.Now()
		if err := h.Client.Create(h.b.ctx, stream(h.namespaces[0], fmt.Sprintf("s-%d", port), h.title, port)); err != nil {
			return nil, nil, err
		}
		at, err := h.seen.wait(h.b.ctx, v1beta1.StreamServiceName(h.title, v1beta1.TCP, int32(port)))
		if err != nil {
			return nil, nil, err
		}
		took.Add(at.Sub(began))
		if err := harness.Pause(h.b.ctx, 250*time.Millisecond); err != nil { // the next one is no part of a burst
			return nil, nil, err
		}
		began = time.Now()
		if err := h.byHand(h, int32(byHand+h.opened)); err != nil {
			return nil, nil, err
		}
		plain.Add(time.Since(began))
	}
	const than = "by hand"
	name := func(what string) string {
		return fmt.Sprintf("one more of %d streams: create to written, %s", h.streams, what)
	}
	worst := report.Figure{Name: name("p99"), Value: took.At(99), Unit: "ms"}.Against(than, plain.At(99)).AtMost(500, h.slow)
	figures := []report.Figure{
		report.Figure{Name: name("p50"), Value: took.At(50), Unit: "ms"}.Against(than, plain.At(50)), worst,
	}
	if before != nil {
		ratio := report.Figure{Name: name("p50, beside fewer streams"), Value: took.At(50), Unit: "ms"}.Against("fewer streams", before.At(50))
		figures = append(figures, ratio)
	}
	return figures, took, nil
}
