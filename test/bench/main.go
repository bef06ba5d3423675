// Command bench is what `make bench` starts: it runs Portcullis as its users do, measures it, prints what it finds, and
// writes docs/benchmarks.md and docs/benchmarks.json. With --quick, or QUICK=1, it takes less than five minutes and
// writes to bin instead.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

func main() {
	log.SetLogger(logr.Discard()) // what clients have to say is in their errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "make bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	ctx    context.Context
	quick  bool
	out    io.Writer
	began  time.Time
	binary string
	report report
}

// parts are what can be measured, in this order.
var parts = []struct {
	name string
	run  func(*bench) error
}{
	{"admission", (*bench).admission},
	{"races", (*bench).races},
	{"release", (*bench).release},
	{"programming", (*bench).programming},
	{"burst", (*bench).burst},
	{"scale", (*bench).scale},
}

func run(ctx context.Context, args []string, out io.Writer) error {
	b := &bench{ctx: ctx, out: out, began: time.Now()}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&b.quick, "quick", os.Getenv("QUICK") == "1", "measure less, in less than five minutes")
	only := flags.String("only", "", "the parts to measure, separated by commas; all when left out")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "portcullis-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if b.binary, err = harness.Build(ctx, dir); err != nil {
		return err
	}
	if err := b.describe(root); err != nil {
		return err
	}
	for _, part := range parts {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), part.name) {
			continue
		}
		if err := part.run(b); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	where := filepath.Join(root, "docs")
	if b.quick || *only != "" {
		where = filepath.Join(root, "bin")
	}
	b.say("writing %s", filepath.Join(where, "benchmarks.md"))
	return b.report.write(where)
}

// say prints progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.out, "%6.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// of is full, or less of it in a quick run.
func (b *bench) of(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}
