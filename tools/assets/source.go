package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// probeTimeout bounds the question whether the download site can be reached at all.
	probeTimeout = 10 * time.Second
	// downloadTimeout bounds the download itself, about 150 MB.
	downloadTimeout = 10 * time.Minute
	// heartbeat is how often a long step says that it is alive.
	heartbeat = 20 * time.Second
)

// download puts what setup-envtest's archive for the pinned minor version has into dir. It fails fast where the site is
// out of reach.
func download(ctx context.Context, dir string, pins pins) error {
	setup, err := output(ctx, 2*time.Minute, "go", "tool", "-n", "setup-envtest")
	if err != nil {
		return err
	}
	version := minor(pins.kubernetes)
	found, err := output(ctx, probeTimeout, setup, "list", version+".x")
	if err != nil {
		return err
	}
	if !strings.Contains(found, version+".") {
		return fmt.Errorf("setup-envtest knows no version %s.x", version)
	}
	say("downloading etcd, kube-apiserver and kubectl %s.x", version)
	store := filepath.Join(dir, "envtest"+tmpExt)
	unpacked, err := output(ctx, downloadTimeout, setup, "use", version+".x!", "--bin-dir", store, "--print", "path")
	if err != nil {
		return err
	}
	for _, name := range archived() {
		if err := os.Rename(filepath.Join(unpacked, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return os.RemoveAll(store)
}

// compile builds the named programs into dir, with progress.
func compile(ctx context.Context, dir string, pins pins, names []string) error {
	sources := map[string]struct{ pkg, version, effort string }{
		"etcd":           {"go.etcd.io/etcd/server/v3", pins.etcd, "a minute"},
		"kube-apiserver": {"k8s.io/kubernetes/cmd/kube-apiserver", pins.kubernetes, "5 minutes on 2 cores"},
		"kubectl":        {"k8s.io/kubernetes/cmd/kubectl", pins.kubernetes, "a minute"},
		// Half of it is what kube-apiserver is made of; beside an archive it all has to be compiled.
		controllerManager: {"k8s.io/kubernetes/cmd/" + controllerManager, pins.kubernetes, "2 to 5 minutes on 2 cores"},
	}
	for _, name := range names {
		source := sources[name]
		say("compiling %s %s (about %s, once) ...", name, source.version, source.effort)
		start := time.Now()
		err := beating(name, start, func() error {
			return build(ctx, filepath.Join(dir, name), source.pkg, pins)
		})
		if err != nil {
			return err
		}
		say("compiled %s in %s", name, time.Since(start).Round(time.Second))
	}
	return nil
}

// build compiles pkg of the pinned sources to path. The file appears only when it is complete.
func build(ctx context.Context, path, pkg string, pins pins) error {
	tmp := path + tmpExt
	cmd := exec.CommandContext(ctx, "go", "-C", pins.module, "build", "-o", tmp,
		"-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion="+pins.kubernetes, pkg)
	// The programs are for this machine, whatever the caller builds for.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=",
		"GOFLAGS=-mod=readonly -trimpath -buildvcs=false")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compile %s: %w\n%s", pkg, err, tail(stderr.String(), 20))
	}
	return os.Rename(tmp, path)
}

// beating runs work and says now and then that it still runs.
func beating(name string, start time.Time, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			say("  still compiling %s (%s)", name, time.Since(start).Round(time.Second))
		}
	}
}

// output returns what a program prints, without the space around it; an error carries the program's last words.
func output(ctx context.Context, limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s: no answer within %s", filepath.Base(name), limit)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(name), withStderr(err))
	}
	return strings.TrimSpace(string(out)), nil
}

// withStderr returns the cause that a failed command wrote last, in place of its bare exit status.
func withStderr(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		last := tail(string(exit.Stderr), 1)
		// After a failed request comes what was asked, in quotes; only the cause behind it is of use.
		if cut := strings.LastIndex(last, `": `); cut >= 0 {
			last = last[cut+len(`": `):]
		}
		if last != "" {
			return errors.New(last)
		}
	}
	return err
}

// tail returns the last n lines of text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
