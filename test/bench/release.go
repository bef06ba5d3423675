package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// release measures how long a port is held after its stream is deleted.
func (b *bench) release() error {
	return b.on(2, harness.Options{}, func(s *stage) error {
		n := b.of(100, 10)
		b.say("release: %d streams are deleted, one after the other", n)
		_, namespaces, err := s.clients("release", 1)
		if err == nil {
			err = s.class("release", true)
		}
		if err != nil {
			return err
		}
		gone, stop, err := s.watching(&v1beta1.EdgeClaimList{}, func(e watch.Event) string {
			if c, ok := e.Object.(*v1beta1.EdgeClaim); ok && e.Type == watch.Deleted {
				return c.Name
			}
			return ""
		})
		if err != nil {
			return err
		}
		defer stop()
		var free, again sample.Sample
		for i := range n {
			port := 10000 + i
			victim := stream(namespaces[0], fmt.Sprintf("victim-%d", i), "release", port)
			if err := s.Client.Create(b.ctx, victim); err != nil {
				return err
			}
			began := time.Now()
			if err := s.Client.Delete(b.ctx, victim); err != nil {
				return err
			}
			at, err := gone.wait(b.ctx, fmt.Sprintf("stream.release.tcp.%d", port))
			if err != nil {
				return err
			}
			free.Add(at.Sub(began))
			rival := stream(namespaces[0], fmt.Sprintf("rival-%d", i), "release", port)
			if err := s.until(func() (bool, error) { return s.Client.Create(b.ctx, rival.DeepCopy()) == nil, nil }); err != nil {
				return err
			}
			again.Add(time.Since(began))
		}
		b.add(report.Section{
			Title: "From deletion to a free port",
			About: "A stream is created and deleted at once, with nothing in between. Measured is the time from the delete to the moment " +
				"its claim is gone, and to the moment another stream has the port.",
			Figures: []report.Figure{
				{Name: "claim gone, p50", Value: free.At(50), Unit: "ms"},
				{Name: "claim gone, p99", Value: free.At(99), Unit: "ms"},
				{Name: "given to another, p50", Value: again.At(50), Unit: "ms"},
				{Name: "given to another, p99", Value: again.At(99), Unit: "ms"},
			},
		})
		return nil
	})
}
