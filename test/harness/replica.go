package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Replica is one process of the binary.
type Replica struct {
	// Health and Metrics are the URLs of its endpoints, without a path.
	Health, Metrics string
	// Log is the path of its log.
	Log string

	webhook string
	cmd     *exec.Cmd
	done    chan struct{}
	front   *Balancer
}

// StartReplica starts another replica and waits until it is ready. It then gets its share of admission requests.
func (h *Harness) StartReplica(ctx context.Context, flags ...string) (*Replica, error) {
	r, err := h.SpawnReplica(flags...)
	if err != nil {
		return nil, err
	}
	err = r.AwaitReady(ctx)
	return r, err
}

// SpawnReplica starts another replica and does not wait.
func (h *Harness) SpawnReplica(flags ...string) (*Replica, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	name := "replica-" + strconv.Itoa(len(h.Replicas))
	kubeconfig, err := h.KubeconfigFor(filepath.Join(h.dir, name+".kubeconfig"), User, Groups...)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(h.dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := append([]string{
		"--kubeconfig=" + kubeconfig, "--namespace=portcullis-system",
		"--cert-dir=" + filepath.Join(h.dir, name+"-certs"), "--self-signed-certs", "--webhook-dns-names=localhost",
		"--webhook-host=127.0.0.1", "--webhook-port=" + strconv.Itoa(ports[0]),
		"--health-probe-bind-address=" + local(ports[1]),
		"--metrics-bind-address=" + local(ports[2]), "--metrics-secure=false",
	}, append(h.opts.Flags, flags...)...)
	r := &Replica{
		Health: "http://" + local(ports[1]), Metrics: "http://" + local(ports[2]), Log: log.Name(),
		webhook: local(ports[0]), cmd: exec.Command(h.binary, args...), done: make(chan struct{}), front: h.front,
	}
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // how it ended is for the test to judge
	}()
	h.Replicas = append(h.Replicas, r)
	return r, nil
}

// AwaitReady waits until the replica is ready, and sends it admission requests from then on.
func (r *Replica) AwaitReady(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		select {
		case <-r.done:
			return false, errors.New("the process ended")
		default:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Health+"/readyz", http.NoBody)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
	if err != nil {
		log, _ := os.ReadFile(r.Log)
		return fmt.Errorf("waiting for a replica to be ready: %w\n%s", err, tail(log, 4000))
	}
	r.front.Add(r.webhook)
	return nil
}

// Kill ends the process with SIGKILL, as a crash would: its share of requests fails until nobody sends it any. A
// second Kill does nothing.
func (r *Replica) Kill() error { return r.end(syscall.SIGKILL) }

// Terminate ends the process with SIGTERM, after taking it out of the share of requests.
func (r *Replica) Terminate() error {
	r.front.remove(r.webhook)
	return r.end(syscall.SIGTERM)
}

// Retire ends the process as a rolling update would: no new connections, and SIGTERM a moment later.
func (r *Replica) Retire() error {
	r.front.retire(r.webhook)
	time.Sleep(100 * time.Millisecond) // what preStop is for: connections that are being made
	return r.end(syscall.SIGTERM)
}

func (r *Replica) end(signal syscall.Signal) error {
	select {
	case <-r.done:
		return nil
	default:
	}
	if err := r.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.done
	r.front.remove(r.webhook)
	return nil
}

// Freeze stops the process in the middle of whatever it does, as a machine that hangs would, and takes it out of the share
// of requests. Thaw lets it go on; it gets requests again after AwaitReady.
func (r *Replica) Freeze() error {
	r.front.remove(r.webhook)
	return r.cmd.Process.Signal(syscall.SIGSTOP)
}

// Thaw lets a frozen process go on.
func (r *Replica) Thaw() error { return r.cmd.Process.Signal(syscall.SIGCONT) }

// Ended is closed when the process is gone.
func (r *Replica) Ended() <-chan struct{} { return r.done }

// PID of the process.
func (r *Replica) PID() int { return r.cmd.Process.Pid }

func isInvalid(err error) bool { return apierrors.IsInvalid(err) }

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePorts finds ports that nobody listens on. All are held until all are found, so that they differ.
func freePorts(n int) (ports []int, err error) {
	held := make([]net.Listener, 0, n)
	for range n {
		l, listenErr := net.Listen("tcp", "127.0.0.1:0")
		if listenErr != nil {
			err = listenErr
			break
		}
		held = append(held, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range held {
		err = errors.Join(err, l.Close())
	}
	return ports, err
}

func tail(b []byte, n int) string {
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return string(b)
}

// LogTail is the end of the log, n bytes at most.
func (r *Replica) LogTail(n int) string {
	log, err := os.ReadFile(r.Log)
	if err != nil {
		return err.Error()
	}
	return tail(log, n)
}
