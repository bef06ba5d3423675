package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// startTimeout bounds how long a replica may take until it is ready, and how long until the API server calls one.
const startTimeout = 5 * time.Minute

// Replica is one process of the binary.
type Replica struct {
	// Health, Metrics and Webhook are the URLs of its endpoints, without a path.
	Health, Metrics, Webhook string
	// Log is the path of its log.
	Log string

	webhook string
	program *controlplane.Program
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
	ports, err := controlplane.FreePorts(3)
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
		Health: "http://" + local(ports[1]), Metrics: "http://" + local(ports[2]), Webhook: "https://" + local(ports[0]),
		Log:     log.Name(),
		webhook: local(ports[0]), front: h.front,
	}
	cmd := exec.Command(h.binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), h.opts.Env...)
	if r.program, err = controlplane.Launch(cmd); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	h.Replicas = append(h.Replicas, r)
	go func() { // also where it ends by itself, as a leader does that could not renew its Lease in time
		<-r.Ended()
		r.front.remove(r.webhook)
	}()
	return r, nil
}

// AwaitReady waits until the replica is ready, and sends it admission requests from then on.
func (r *Replica) AwaitReady(ctx context.Context) error {
	if err := r.program.Answers(ctx, r.Health+"/readyz", startTimeout); err != nil {
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
func (r *Replica) Retire(ctx context.Context) error {
	r.front.retire(r.webhook)
	// What preStop is for: connections that are being made.
	return errors.Join(Pause(ctx, 100*time.Millisecond), r.end(syscall.SIGTERM))
}

func (r *Replica) end(signal syscall.Signal) error {
	select {
	case <-r.Ended():
		return nil
	default:
	}
	if err := r.program.Signal(signal); err != nil {
		return err
	}
	<-r.Ended()
	r.front.remove(r.webhook)
	return nil
}

// Freeze stops the process in the middle of whatever it does, as a machine that hangs would, and takes it out of the share
// of requests. Thaw lets it go on; it gets requests again after AwaitReady.
func (r *Replica) Freeze() error {
	r.front.remove(r.webhook)
	return r.program.Signal(syscall.SIGSTOP)
}

// Thaw lets a frozen process go on.
func (r *Replica) Thaw() error { return r.program.Signal(syscall.SIGCONT) }

// Ended is closed when the process is gone.
func (r *Replica) Ended() <-chan struct{} { return r.program.Exited() }

// PID of the process.
func (r *Replica) PID() int { return r.program.PID() }

func isInvalid(err error) bool { return apierrors.IsInvalid(err) }

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

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
