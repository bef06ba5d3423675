// Command bench is what `make bench` starts: it runs Portcullis as its users do, measures it, prints what it finds, and
// writes docs/benchmarks.md with its plots, and docs/benchmarks.json. With --quick, or QUICK=1, it takes less than five
// minutes and writes to bin instead. With --only=<parts> it measures those, and writes to bin, too, or with --add into the report in docs.
package main

import (
	"context"
	"errors"
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

	"jeffthecoder.xyz/portcullis/test/bench/empty"
	"jeffthecoder.xyz/portcullis/test/bench/process"
	"jeffthecoder.xyz/portcullis/test/bench/report"
	"jeffthecoder.xyz/portcullis/test/bench/tutorial"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// children are the programs that this one starts itself again as, to compare with.
var children = map[string]func(context.Context, []string) error{"empty": empty.Serve, "tutorial": tutorial.Run}

func main() {
	log.SetLogger(logr.Discard()) // what clients have to say is in their errors
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if child := children[firstOf(os.Args[1:])]; child != nil {
		err = child(ctx, os.Args[2:])
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "make bench:", err)
		os.Exit(1)
	}
}

func firstOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// bench is one run.
type bench struct {
	ctx   context.Context
	quick bool
	out   io.Writer
	began time.Time
	// root is the directory of the repository, dir one for what is only needed during the run.
	root, dir string
	// profiles is where profiles are written, empty for none.
	profiles string
	binary   string
	// templates are what control planes begin with.
	templates *harness.Templates
	report    report.Report
	// tutorials are what the tutorial's controller took, for comparison.
	tutorials []outcome
}

// parts are what can be measured, in this order.
var parts = []struct {
	name string
	run  func(*bench) error
}{
	{"decision", (*bench).decision},
	{"admission", (*bench).admission},
	{"races", (*bench).races},
	{"release", (*bench).release},
	{"tutorial", (*bench).tutorial},
	{"house", (*bench).house},
	{"kernel", (*bench).kernel},
	{"gateway", (*bench).gateway},
	{"guard", (*bench).guard},
	{"hosts", (*bench).hosts},
	{"cilium", (*bench).cilium},
	{"nodeports", (*bench).nodePorts},
	{"ingress", (*bench).ingress},
	{"balancers", (*bench).balancers},
	{"metallb", (*bench).besideMetalLB},
	{"portspace", (*bench).portSpace},
	{"costs", (*bench).costs},
	{"plugin", (*bench).plugin},
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	b := &bench{ctx: ctx, out: out, began: time.Now()}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&b.quick, "quick", os.Getenv("QUICK") != "", "measure less, in less than five minutes")
	flags.StringVar(&b.profiles, "profiles", "", "directory for CPU and heap profiles of the manager in the part house; none when left out")
	add := flags.Bool("add", false, "write what is measured of --only into the report in docs, in place of what it has of that")
	only := flags.String("only", "", "the parts to measure, separated by commas; all when left out")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if b.root, err = controlplane.Root(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "portcullis-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.binary, err = harness.Build(ctx, b.dir); err != nil {
		return err
	}
	b.templates = harness.NewTemplates(b.dir)
	if err := b.describe(b.root); err != nil {
		return err
	}
	failed := b.measure(chosen)
	where, write := filepath.Join(b.root, "docs"), b.report.Write
	switch {
	case *add && !b.quick && failed == nil:
		write = b.report.AddTo
	case b.quick || *only != "":
		where = filepath.Join(b.root, "bin")
	}
	if err := write(where); err != nil {
		return err
	}
	b.say("all took %.0f s, and %.0f s of CPU time; the report is %s",
		time.Since(b.began).Seconds(), process.Spent(), filepath.Join(where, "benchmarks.md"))
	return failed
}

// measure runs the chosen parts. One that fails leaves a section that says so, and the others their turn.
func (b *bench) measure(chosen map[string]bool) error {
	var failed []error
	for _, part := range parts {
		if !chosen[part.name] {
			continue
		}
		began, computed := time.Now(), process.Spent()
		if err := part.run(b); err != nil {
			b.say("%s failed: %v", part.name, err)
			b.add(report.Section{Title: "Not measured: " + part.name, About: "This part failed in this run, and has no more figures."})
			failed = append(failed, fmt.Errorf("%s: %w", part.name, err))
		}
		b.say("%s took %.0f s, and %.0f s of CPU time", part.name, time.Since(began).Seconds(), process.Spent()-computed)
	}
	return errors.Join(failed...)
}

// choose finds the parts to measure.
func choose(only string) (map[string]bool, error) {
	chosen := map[string]bool{}
	for _, part := range parts {
		chosen[part.name] = only == "" || slices.Contains(strings.Split(only, ","), part.name)
	}
	for name := range strings.SplitSeq(only, ",") {
		if only != "" && !chosen[name] {
			return nil, fmt.Errorf("there is no part %q", name)
		}
	}
	// The house is compared with the tutorial's controller: alone, it would take the comparison out of the report.
	chosen["tutorial"] = chosen["tutorial"] || chosen["house"]
	return chosen, nil
}

// say prints progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.out, "%6.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// add adds a section, and prints it.
func (b *bench) add(s report.Section) {
	b.report.Sections = append(b.report.Sections, s)
	b.say("%s", s.Title)
	for _, f := range s.Figures {
		b.say("  %s", f)
	}
}

// of is full, or less of it in a quick run.
func (b *bench) of(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}
