package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/creack/pty"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

const (
	// startTimeout bounds how long a cluster may take until it can be shown, and commandTimeout how long one command may.
	startTimeout, commandTimeout = 10 * time.Minute, 2 * time.Minute
	// prompt is what a command is typed after, and continued is before the further lines of one.
	prompt, continued = "$ ", "> "
)

// stage is a cluster with kubectl.
type stage struct {
	// bin has kubectl and its plugin.
	bin, kubeconfig string
}

// withoutPortcullis shows a cluster that has never seen Portcullis, with a few conflicts.
func withoutPortcullis(ctx context.Context, dir string, show func(*stage) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	if err := applyFile(ctx, cp, "conflicts.yaml"); err != nil {
		return err
	}
	return onStage(ctx, dir, cp, show)
}

// withPortcullis shows a cluster where Portcullis runs, with one class of streams.
func withPortcullis(ctx context.Context, dir string, show func(*stage) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	h, err := harness.Start(ctx, harness.Options{Replicas: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Stop()) }()
	if err := applyFile(ctx, h.ControlPlane, "class.yaml"); err != nil {
		return err
	}
	return onStage(ctx, dir, h.ControlPlane, show)
}

// applyFile applies one of test/recording/testdata.
func applyFile(ctx context.Context, cp *controlplane.ControlPlane, name string) error {
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	objects, err := controlplane.ReadFile(filepath.Join(root, "test", "recording", "testdata", name))
	if err != nil {
		return err
	}
	return controlplane.Apply(ctx, cp.Config(), "recording", objects...)
}

// onStage builds the plugin beside kubectl, and shows.
func onStage(ctx context.Context, dir string, cp *controlplane.ControlPlane, show func(*stage) error) error {
	assets, err := controlplane.Assets(ctx)
	if err != nil {
		return err
	}
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join(assets, "kubectl"), filepath.Join(dir, "kubectl")); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, "kubectl-portcullis"), "./cmd/kubectl-portcullis")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the plugin: %w\n%s", err, out)
	}
	return show(&stage{bin: dir, kubeconfig: cp.Kubeconfig()})
}

// record types the commands of a recording, and returns what the terminal shows.
func (s *stage) record(ctx context.Context, r recording) ([]row, error) {
	var rows []row
	for _, c := range r.commands {
		rows = append(rows, typed(c.text)...)
		said, err := s.run(ctx, c, r.columns)
		if err != nil {
			return nil, err
		}
		rows = append(rows, append(shown(said, r.columns), row{})...)
	}
	return rows[:len(rows)-1], nil
}

// typed are the lines of a command as somebody types them.
func typed(text string) (rows []row) {
	before := prompt
	for line := range strings.SplitSeq(text, "\n") {
		rows = append(rows, row{isTyped: true, spans: []span{{text: before, style: style{dim: true}}, {text: line, style: style{bold: true}}}})
		before = continued
	}
	return rows
}

// run runs a command on a terminal so many columns wide, and returns all that it writes there.
func (s *stage) run(ctx context.Context, c command, columns int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", c.text)
	path := s.bin + string(os.PathListSeparator) + os.Getenv("PATH")
	cmd.Env = []string{"PATH=" + path, "HOME=" + s.bin, "TERM=xterm", "KUBECONFIG=" + s.kubeconfig}
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: uint16(columns)}) //nolint:gosec // a few hundred
	if err != nil {
		return "", err
	}
	var said strings.Builder
	_, _ = terminal.WriteTo(&said) // on Linux, a terminal whose program has ended is an error (EIO), not the end of a file
	err = cmd.Wait()
	if err := terminal.Close(); err != nil {
		return "", err
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return "", err
	}
	if status := cmd.ProcessState.ExitCode(); status != c.status {
		return "", fmt.Errorf("%s ended with %d, not %d:\n%s", c.text, status, c.status, said.String())
	}
	return said.String(), nil
}
