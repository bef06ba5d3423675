package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// errExited says that a program ended although it should serve.
var errExited = errors.New("ended at once")

// process is one program that runs until it is stopped, or until this process ends. A nil *process is one that was
// never started.
type process struct {
	cmd    *exec.Cmd
	log    string
	exited chan struct{} // closed when the program is gone
}

// startProcess starts a program with its output in the file log, which begins anew.
func startProcess(path string, args []string, log string) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return nil, err
	}
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(path, args...), log: log, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.SysProcAttr = ownGroup()
	started := make(chan error)
	go func() {
		// Linux ends the program when the thread that started it ends, so that thread has to live as long as it does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer file.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in the log
		}
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(path), err)
	}
	return p, nil
}

// ready waits until check succeeds. A program that ends before gives errExited with its last words; so does one that
// takes too long, which is stopped.
func (p *process) ready(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	name := filepath.Base(p.cmd.Path)
	for {
		err := check(ctx)
		select {
		case <-p.exited:
			return fmt.Errorf("%s %w; %s ends with:\n%s", name, errExited, p.log, p.lastWords())
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not ready (%w), see %s: %w", name, ctx.Err(), p.log, err), p.stop(0))
		case <-p.exited:
		case <-tick.C:
		}
	}
}

// stop ends the program and returns when it is gone. It asks first, and insists when patience is over.
func (p *process) stop(patience time.Duration) error {
	if p == nil {
		return nil
	}
	if patience > 0 {
		if err := p.signal(syscall.SIGTERM); err != nil {
			return err
		}
		select {
		case <-p.exited:
			return nil
		case <-time.After(patience):
		}
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// signal sends sig to the program; one that is gone already is no error.
func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", filepath.Base(p.cmd.Path), err)
	}
	return nil
}

// lastWords returns the end of the program's log.
func (p *process) lastWords() string {
	const enough = 10
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-enough):], []byte("\n")))
}
