// Command site builds the docs into a static site with Hugo, and proves that no link of it is dead. It is `make site`, run in tools.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The first time, Hugo is compiled, which takes a minute or more; from then on it takes a second.
const compileTimeout, buildTimeout = 20 * time.Minute, time.Minute

func main() {
	out := flag.String("out", filepath.FromSlash("../bin/site"), "directory of the site; what else is in it goes")
	source := flag.String("source", "", "what links to files of the repository lead to, a URL before their path; empty: they are left out")
	flag.Parse()
	if err := run(context.Background(), *out, *source); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "Open", filepath.Join(*out, "index.html"))
}

// run builds the site into a directory, and gives an error that lists its dead links.
func run(ctx context.Context, out, source string) error {
	absolute, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := hugo(ctx, compileTimeout, nil, "version"); err != nil {
		return err
	}
	// Hugo 0.164 waits for itself where more pages fail than it has workers.
	environment := []string{"HUGO_PARAMS_SOURCE=" + source, "HUGO_NUMWORKERMULTIPLIER=100"}
	if err := hugo(ctx, buildTimeout, environment, "build", "--source=site", "--destination="+absolute,
		"--cleanDestinationDir", "--noBuildLock", "--panicOnWarning"); err != nil {
		return err
	}
	dead, err := deadLinks(os.DirFS(absolute))
	if err == nil && len(dead) > 0 {
		err = fmt.Errorf("dead links:\n%s", strings.Join(dead, "\n"))
	}
	return err
}

// hugo runs Hugo, with further variables of the environment.
func hugo(ctx context.Context, timeout time.Duration, environment []string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"tool", "-modfile=hugo/go.mod", "hugo"}, args...)...)
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), environment...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // which go passes on to Hugo
	cmd.WaitDelay = 10 * time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("hugo %s: %w\n%s", args[0], errors.Join(err, ctx.Err()), said)
	}
	return nil
}
