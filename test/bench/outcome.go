package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
)

// crowd is how many users create objects at once.
const crowd = 32

// outcome is what became of a burst of streams.
type outcome struct {
	streams int
	// created are the creates; all of them were done at lastCreate, counted from the first.
	created    *sample.Sample
	lastCreate time.Duration
	// entered is when all ports were in the ConfigMap, counted from the first create, programmed when they were on the
	// Service, too, and reported when all streams said so, or why not; 0 when that was not waited for.
	entered, programmed, reported time.Duration
	// brokenOff is how many ports were programmed when the time was over, and programmed is what all would have taken, as
	// far as that can be computed; 0 when all were programmed.
	brokenOff int
	writes    tally
	sentBytes float64
}

// String is the outcome in one line.
func (o *outcome) String() string {
	text := fmt.Sprintf("%d streams: created in %.1f s, programmed after %.1f s, %d writes of ConfigMap and Service, %d conflicts",
		o.streams, o.lastCreate.Seconds(), o.programmed.Seconds(), o.proxyWrites(), o.writes.conflicts)
	if o.brokenOff > 0 {
		text += fmt.Sprintf(" (extrapolated: broken off at %d)", o.brokenOff)
	}
	return text
}

// proxyWrites are the writes of the ConfigMap and the Service that were granted.
func (o *outcome) proxyWrites() int {
	return o.writes.granted["configmaps"] + o.writes.granted["services"]
}

// burst is a number of streams of one class that are created at once.
type burst struct {
	class       string
	streams     int
	firstPort   int
	withService bool
	// user is whose writes are counted.
	user string
	// reports says of a stream whether its status is what is waited for, nil when it is not waited for.
	reports func(*v1beta1.StreamIngress) bool
	// limit is how long to wait until all are programmed.
	limit time.Duration
}

// converge creates the streams of a burst and waits until all are programmed. The class exists.
func (s *stage) converge(b burst) (*outcome, error) {
	clients, namespaces, err := s.clients(b.class, crowd)
	if err != nil {
		return nil, err
	}
	seen, stop, err := s.follow(b.class, b.withService)
	if err != nil {
		return nil, err
	}
	defer stop()
	before, err := s.written()
	if err != nil {
		return nil, err
	}
	bytesBefore, err := s.sentBytes()
	if err != nil {
		return nil, err
	}
	o := &outcome{streams: b.streams, created: &sample.Sample{}}
	began := time.Now()
	ended := s.b.reportProgress("programmed", b.streams, seen.done)
	defer ended()
	err = o.created.Measure(crowd, b.streams, func(worker, i int) error {
		return clients[worker].Create(s.b.ctx, stream(namespaces[worker], fmt.Sprintf("%s-%d", b.class, i), b.class, b.firstPort+i))
	})
	if err != nil {
		return nil, err
	}
	o.lastCreate = time.Since(began)
	at, err := seen.wait(s.b.ctx, b.streams, b.limit)
	switch {
	case errors.Is(err, errTooLong):
		o.brokenOff = seen.done()
		o.programmed = extrapolate(seen.history(), began, b.streams)
	case err != nil:
		return nil, err
	default:
		o.programmed = at.Sub(began)
	}
	if at, ok := reached(seen.history(), b.streams, func(s step) int { return s.entries }); ok {
		o.entered = at.Sub(began)
	}
	if b.reports != nil {
		if err := s.all(namespaces, b.reports); err != nil {
			return nil, err
		}
		o.reported = time.Since(began)
	}
	return o, s.settle(o, b, before, bytesBefore)
}

// settle counts what was written.
func (s *stage) settle(o *outcome, b burst, before int, bytesBefore float64) (err error) {
	if o.writes, err = s.since(before, b.user); err != nil {
		return err
	}
	after, err := s.sentBytes()
	o.sentBytes = after - bytesBefore
	return err
}

// all waits until all streams of some namespaces are as they should be. It looks now and then: to list them all keeps the API
// server from what is waited for.
func (s *stage) all(namespaces []string, is func(*v1beta1.StreamIngress) bool) error {
	for _, ns := range namespaces {
		if err := s.untilEvery(250*time.Millisecond, func() (bool, error) { return s.allIn(ns, is) }); err != nil {
			return fmt.Errorf("not all streams in %s are as they should be: %w", ns, err)
		}
	}
	return nil
}

func (s *stage) allIn(namespace string, is func(*v1beta1.StreamIngress) bool) (bool, error) {
	var streams v1beta1.StreamIngressList
	if err := s.Client.List(s.b.ctx, &streams, client.InNamespace(namespace)); err != nil {
		return false, err
	}
	for i := range streams.Items {
		if !is(&streams.Items[i]) {
			return false, nil
		}
	}
	return true, nil
}

// isOpen says whether a stream says that it is programmed.
func isOpen(si *v1beta1.StreamIngress) bool {
	return meta.IsStatusConditionTrue(si.Status.Conditions, v1beta1.ConditionProgrammed)
}

// reportProgress says every few seconds how far something is, until the function that it returns is called.
func (b *bench) reportProgress(what string, of int, done func() int) func() {
	ctx, cancel := context.WithCancel(b.ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Second):
				b.say("  %d of %d %s", done(), of, what)
			}
		}
	}()
	return cancel
}
