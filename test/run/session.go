package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

const (
	// patience is how long Portcullis may take to finish what it does before it is killed.
	patience = 20 * time.Second
	// readyTimeout bounds the time from its start until it is ready.
	readyTimeout = 5 * time.Minute
	// account is the service account of Portcullis: it has the same rights here as in a cluster.
	account = "system:serviceaccount:portcullis-system:portcullis"
)

// session is one run, from an empty machine to an empty machine.
type session struct {
	*settings
	out     io.Writer
	cp      *controlplane.ControlPlane
	manager *controlplane.Program
	journal *journal
	lock    *os.File
}

func newSession(s *settings, out io.Writer) *session {
	return &session{settings: s, out: out}
}

// run starts everything, waits until ctx ends, and stops everything. It returns an error when something failed or ended
// by itself.
func (s *session) run(ctx context.Context) error {
	err := s.start(ctx)
	if err == nil {
		err = s.wait(ctx)
	}
	if ctx.Err() != nil {
		err = nil // being interrupted is how a run ends
	}
	return errors.Join(err, s.stop())
}

// start brings everything up, in the order in which one thing needs the other.
func (s *session) start(ctx context.Context) error {
	for _, step := range []struct {
		text string
		do   func(context.Context) error
	}{
		{"", s.prepare},
		{"Starting etcd and kube-apiserver ...", s.startControlPlane},
		{"Applying CRDs, roles and webhooks ...", s.applyPlatform},
		// It learns of kinds that come later with a delay only.
		{"Starting kube-controller-manager ...", s.startControllers},
		{"Starting Portcullis ...", s.startManager},
		{"Applying samples ...", s.applySamples},
	} {
		if step.text != "" {
			s.say(step.text)
		}
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	if err := s.guide(); err != nil {
		return err
	}
	s.journal.show(s.out)
	return nil
}

// prepare makes sure that this is the only run, and that every port is free, before anything is started or removed.
func (s *session) prepare(context.Context) error {
	var err error
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := s.takeLock(); err != nil {
		return err
	}
	for _, p := range ports(s.settings) {
		if err := controlplane.CheckPort(*p.number, p.use); err != nil {
			return err
		}
	}
	if s.clean {
		return s.wipe()
	}
	return nil
}

// takeLock keeps a second run off the same data. The kernel gives the lock back when this process ends.
func (s *session) takeLock() error {
	file, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("another run uses %s: end it first", s.dir), file.Close())
	}
	s.lock = file
	return nil
}

const lockName = "lock"

// wipe removes everything in the directory but the lock.
func (s *session) wipe() error {
	s.say("Dropping the data of earlier runs ...")
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) startControlPlane(ctx context.Context) error {
	var err error
	s.cp, err = controlplane.Start(ctx, controlplane.Options{
		Dir: s.dir, APIServerPort: s.apiPort, Durable: true, Controllers: true,
	})
	return err
}

func (s *session) startControllers(ctx context.Context) error {
	return s.cp.StartControllers(ctx)
}

// startManager starts Portcullis and waits until it is ready.
func (s *session) startManager(ctx context.Context) error {
	kubeconfig, err := s.cp.KubeconfigFor(filepath.Join(s.dir, "portcullis.kubeconfig"), account,
		"system:serviceaccounts", "system:serviceaccounts:portcullis-system")
	if err != nil {
		return err
	}
	args := append([]string{
		"--kubeconfig=" + kubeconfig, "--namespace=portcullis-system", "--leader-elect=false",
		"--self-signed-certs", "--cert-dir=" + filepath.Join(s.dir, "certs"),
		"--webhook-dns-names=localhost", "--webhook-host=127.0.0.1", "--webhook-port=" + strconv.Itoa(s.webhookPort),
		"--health-probe-bind-address=127.0.0.1:" + strconv.Itoa(s.healthPort),
		"--metrics-bind-address=127.0.0.1:" + strconv.Itoa(s.metricPort), "--metrics-secure=false",
		"--pod-to-ip=all",
		"--default-load-balancer",
		"--zap-encoder=console", "--zap-time-encoding=rfc3339",
	}, s.extra...)
	if s.journal, err = newJournal(filepath.Join(s.dir, "logs", "portcullis.log")); err != nil {
		return err
	}
	if s.manager, err = controlplane.StartProgram(s.binary, args, s.journal); err != nil {
		return err
	}
	return s.ready(ctx)
}

// ready waits until Portcullis says that it is.
func (s *session) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	url := fmt.Sprintf("http://127.0.0.1:%d/readyz", s.healthPort)
	for {
		_, err := controlplane.Get(ctx, http.DefaultClient, url)
		if err == nil {
			return nil
		}
		select {
		case <-s.manager.Exited():
			return s.managerEnded()
		case <-ctx.Done():
			return fmt.Errorf("portcullis is not ready (%w): %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// wait returns when ctx ends, or with an error when something else ended.
func (s *session) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.manager.Exited():
		return s.managerEnded()
	case <-s.cp.Exited():
		return fmt.Errorf("the control plane ended; its logs are in %s", filepath.Join(s.dir, "logs"))
	}
}

// managerEnded is the error of a Portcullis that ended by itself.
func (s *session) managerEnded() error {
	const enough = 15
	return fmt.Errorf("portcullis ended by itself; %s ends with:\n%s", s.journal.path, s.journal.tail(enough))
}

// stop ends what was started, Portcullis first, because it writes until its end.
func (s *session) stop() error {
	if s.cp == nil {
		return nil
	}
	if s.journal != nil {
		s.journal.show(io.Discard)
	}
	s.say("Stopping ...")
	err := errors.Join(s.manager.Stop(patience), s.cp.Stop())
	if err == nil {
		s.say("Stopped. The data stays in %s for the next run.", s.dir)
	}
	return err
}

func (s *session) say(format string, args ...any) {
	fmt.Fprintf(s.out, format+"\n", args...)
}
