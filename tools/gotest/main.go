// Command gotest runs `go test` in several modules side by side and says how it goes, at least every 20 seconds:
//
//	gotest [FLAG ...] MODULE ...
//
// Flags are those of `go test`; a module is the directory of its go.mod, and all of its packages are tested. A package
// that passes is one line, one that fails comes with what its failed tests said. The last line counts the tests.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// heartbeat is how long nothing may be said.
const heartbeat = 20 * time.Second

func main() {
	flags, modules := split(os.Args[1:])
	if len(modules) == 0 {
		fmt.Fprintln(os.Stderr, "usage: gotest [FLAG ...] MODULE ...")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	passed := run(ctx, os.Stdout, heartbeat, flags, modules)
	stop()
	if !passed {
		os.Exit(1)
	}
}

// split takes the flags of `go test`, each of one word, from the modules behind them.
func split(args []string) (flags, modules []string) {
	for i, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return args[:i], args[i:]
		}
	}
	return args, nil
}

// run tests all modules and returns whether everything passed. It tells out of it, at least once each beat.
func run(ctx context.Context, out io.Writer, beat time.Duration, flags, modules []string) bool {
	r := newReport(out)
	ended := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		tick := time.NewTicker(beat / 10)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case now := <-tick.C:
				r.beat(now, beat)
			}
		}
	})
	var tests sync.WaitGroup
	for _, module := range modules {
		tests.Go(func() {
			if err := test(ctx, r, flags, module); err != nil {
				r.broken(module, err)
			}
		})
	}
	tests.Wait()
	close(ended)
	beating.Wait()
	return r.close()
}

// packages are the patterns of all packages of a module. Those below its directory test, which have whole programs to wait
// for, come first, and of these the integration tests, which take longest: what begins last would end last.
func packages(module string) []string {
	var patterns []string
	for _, dir := range []string{"test/integration", "test"} {
		if info, err := os.Stat(filepath.Join(module, dir)); err == nil && info.IsDir() {
			patterns = append(patterns, "./"+dir+"/...")
		}
	}
	return append(patterns, "./...")
}

// test runs `go test` in one module and reports its events. The error is that of a run which failed although no package
// did, for a flag that is none, say.
func test(ctx context.Context, r *report, flags []string, module string) error {
	args := slices.Concat([]string{"-C", module, "test", "-json"}, flags, packages(module))
	cmd := exec.CommandContext(ctx, "go", args...)
	// `go test` does not pass an interrupt on to the tests, nor does a terminal here: they are told as a group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	said := &strings.Builder{}
	cmd.Stderr = said
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	failed, readErr := r.read(events)
	err = cmd.Wait()
	switch {
	case readErr != nil:
		return readErr
	case err != nil && !failed:
		return fmt.Errorf("%w\n%s", err, said)
	default:
		return nil
	}
}
