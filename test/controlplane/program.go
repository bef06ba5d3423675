package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// errExited says that a program ended although it should serve.
var errExited = errors.New("ended at once")

// Program is a program that runs until it is stopped, or until this process ends. A terminal's Ctrl-C does not reach it.
// A nil *Program is one that was never started: it can be stopped, too, and never exits.
type Program struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// StartProgram starts the program at path. Both its outputs go to output; a file saves copying.
func StartProgram(path string, args []string, output io.Writer) (*Program, error) {
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = output, output
	return Launch(cmd)
}

// Launch starts a command as a program.
func Launch(cmd *exec.Cmd) (*Program, error) {
	p := &Program{cmd: cmd, exited: make(chan struct{})}
	p.cmd.SysProcAttr = ownGroup()
	started := make(chan error)
	go func() {
		// Linux ends the program when the thread that started it ends, so that thread has to live as long as it does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in its output
		}
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name(), err)
	}
	return p, nil
}

// Exited is closed when the program is gone.
func (p *Program) Exited() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.exited
}

// Answers waits until url answers 200. A program that ends before, or takes longer than limit, is an error.
func (p *Program) Answers(ctx context.Context, url string, limit time.Duration) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.exited:
			return false, fmt.Errorf("%s %w", p.name(), errExited)
		default:
		}
		last = probe(ctx, http.DefaultClient, url)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// Stop asks the program to end, kills it when it has not within patience, and returns when it is gone. Without patience
// it is killed at once.
func (p *Program) Stop(patience time.Duration) error {
	if p == nil {
		return nil
	}
	if patience > 0 {
		if err := p.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		select {
		case <-p.exited:
			return nil
		case <-time.After(patience):
		}
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// Signal sends sig to the program; one that is gone already is no error.
func (p *Program) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name(), err)
	}
	return nil
}

// PID of the process.
func (p *Program) PID() int { return p.cmd.Process.Pid }

func (p *Program) name() string {
	return filepath.Base(p.cmd.Path)
}

// server is a program of the control plane, with its output in a file.
type server struct {
	*Program
	log string
}

// startServer starts a program with its output in the file log, which begins anew.
func (cp *ControlPlane) startServer(name string, args []string) (server, error) {
	log := filepath.Join(cp.opts.Dir, "logs", name+".log")
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return server{}, err
	}
	file, err := os.Create(log)
	if err != nil {
		return server{}, err
	}
	cmd := exec.Command(filepath.Join(cp.assets, name), args...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = append(os.Environ(), cp.opts.Env...)
	program, err := Launch(cmd)
	return server{program, log}, errors.Join(err, file.Close())
}

// ready waits until check succeeds. A program that ends before gives errExited with its last words; so does one that
// takes too long, which is stopped.
func (s server) ready(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	name := s.name()
	for {
		err := check(ctx)
		select {
		case <-s.exited:
			return fmt.Errorf("%s %w; %s ends with:\n%s", name, errExited, s.log, s.lastWords())
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not ready (%w), see %s: %w", name, ctx.Err(), s.log, err), s.Stop(0))
		case <-s.exited:
		case <-tick.C:
		}
	}
}

// lastWords returns the end of the program's log.
func (s server) lastWords() string {
	const enough = 10
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-enough):], []byte("\n")))
}
