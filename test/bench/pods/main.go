// Command pods measures what watching Pods costs: the memory of each Pod in the manager's slim cache and in a plain one,
// the writes in the life of a Pod, and how long it takes from a Pod's IP to its PodToIP. The Pods are objects of a real
// API server without kubelets; what a kubelet would write, this program writes.
//
//	go run ./test/bench/pods -pods 20000 -labeled 2000
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// settings say how much is measured.
type settings struct {
	pods, labeled, perNamespace, writers int
}

func main() {
	var s settings
	flag.IntVar(&s.pods, "pods", 20000, "how many Pods there are")
	flag.IntVar(&s.labeled, "labeled", 2000, "how many of them are in labeled namespaces")
	flag.IntVar(&s.perNamespace, "per-namespace", 100, "how many Pods a namespace has")
	flag.IntVar(&s.writers, "writers", 16, "how many requests this program makes at a time")
	flag.Parse()
	log.SetLogger(logr.Discard())
	if err := run(s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pods:", err)
		os.Exit(1)
	}
}

// run measures everything and writes the figures to out. An interrupt ends it.
func run(s settings, out io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	h, err := harness.Start(ctx, harness.Options{
		ControlPlane: controlplane.Options{Audit: true}, Flags: []string{"--leader-elect=false"},
	})
	if err != nil {
		return err
	}
	defer func() {
		if stopped := h.Stop(); err == nil {
			err = stopped
		}
	}()
	b := &bench{Harness: h, settings: s, out: out}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"create the Pods", b.create},
		{"the manager without Pods (--pod-to-ip=off)", b.measureOff},
		{"a manager reads the Pods", b.watchPods},
		{"the Pods get their IPs", b.assign},
		{"that manager, when all is done", b.compare},
		{"a new manager finds everything as it should be", b.measureAgain},
		{"the Pods in a plain and in the slim cache", b.compareCaches},
		{"the Pods end", b.end},
		{"writes", b.countWrites},
	} {
		fmt.Fprintf(out, "== %s\n", step.name)
		start := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintf(out, "   (%s)\n", time.Since(start).Round(100*time.Millisecond))
	}
	return nil
}
