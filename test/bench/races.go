package main

import (
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// rivals want one port at the same moment.
const rivals = 16

// races lets many users ask for one free port at the same moment, again and again, and counts how many are told yes.
func (b *bench) races() error {
	return b.on(2, harness.Options{}, func(s *stage) error {
		rounds := b.of(100, 10)
		for _, kind := range []string{"create", "update"} {
			if err := s.race(kind, rounds); err != nil {
				return err
			}
		}
		return nil
	})
}

// race is rounds in which all rivals create a stream for one free port, or move the one that they have there.
func (s *stage) race(kind string, rounds int) error {
	class := "race-" + kind
	s.b.say("races: %d rounds of %d users who %s a stream for one free port, at 2 replicas", rounds, rivals, kind)
	clients, namespaces, err := s.clients(class, rivals)
	if err == nil {
		err = s.class(class, false)
	}
	if err != nil {
		return err
	}
	for i, ns := range namespaces {
		if err := s.Client.Create(s.b.ctx, stream(ns, "mover", class, 100+i)); err != nil {
			return err
		}
	}
	var y yesses
	began := time.Now()
	for round := range rounds {
		y.round(rivals, func(i int) error {
			if kind == "create" {
				return clients[i].Create(s.b.ctx, stream(namespaces[i], fmt.Sprintf("round-%d", round), class, 10000+round))
			}
			move := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"listen":%d}}`, 10000+round))
			return clients[i].Patch(s.b.ctx, stream(namespaces[i], "mover", class, 0), move)
		})
	}
	elapsed := time.Since(began).Seconds()
	s.b.add(report.Section{
		Title: fmt.Sprintf("One free port, %d users at once (%s)", rivals, kind),
		About: fmt.Sprintf("%d rounds. In each, exactly one may be told yes; two are what Portcullis is there to prevent.", rounds),
		Figures: []report.Figure{
			report.Figure{Name: "rounds in which two or more were told yes", Value: float64(y.several), Unit: "rounds"}.AtMost(0, ""),
			{Name: "rounds in which exactly one was told yes", Value: float64(y.one), Unit: "rounds"},
			{Name: "rounds in which nobody was told yes", Value: float64(y.none), Unit: "rounds"},
			{Name: "requests without an answer", Value: float64(y.unclear), Unit: "requests"},
			{Name: "rounds per second", Value: float64(rounds) / elapsed, Unit: "1/s"},
			{Name: "admissions per second", Value: float64(rounds*rivals) / elapsed, Unit: "1/s"},
		},
	})
	if y.several > 0 {
		return fmt.Errorf("in %d rounds two users were told yes for one port", y.several)
	}
	return nil
}

// yesses counts rounds by how many were told yes.
type yesses struct{ none, one, several, unclear int }

// round lets n users try at the same moment.
func (y *yesses) round(n int, try func(i int) error) {
	errs := make([]error, n)
	begin := make(chan struct{})
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			<-begin
			errs[i] = try(i)
		})
	}
	close(begin)
	group.Wait()
	yes := 0
	for _, err := range errs {
		switch {
		case err == nil:
			yes++
		case !apierrors.IsInvalid(err):
			y.unclear++
		}
	}
	switch yes {
	case 0:
		y.none++
	case 1:
		y.one++
	default:
		y.several++
	}
}
