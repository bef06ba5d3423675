package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/rest"
)

// PortTakenError says that another process listens on a port that was asked for.
type PortTakenError struct {
	// Port is the port, and For what would have listened on it.
	Port int
	For  string
}

// Error names the port and its use.
func (e *PortTakenError) Error() string {
	return fmt.Sprintf("port %d for %s is taken by another process", e.Port, e.For)
}

// CheckPort returns a *PortTakenError when something listens on the loopback address at port.
func CheckPort(port int, use string) error {
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return &PortTakenError{Port: port, For: use}
	}
	return listener.Close()
}

// startEtcd starts etcd on a socket that only this user can reach.
func (cp *ControlPlane) startEtcd(ctx context.Context) error {
	if err := cp.makeSocketDir(); err != nil {
		return err
	}
	args := []string{
		"--data-dir=" + cp.etcdData(),
		"--listen-client-urls=unix://" + cp.etcdSocket(),
		// Only a client that asks etcd for its members gets it, and the API server doesn't ask. It must be there beside the
		// flag above, and etcd 3.6, that of Kubernetes 1.35, refuses a socket in it.
		"--advertise-client-urls=http://unused.invalid:2379",
		"--listen-peer-urls=unix://" + filepath.Join(cp.sockets, "peer"),
		"--log-level=warn",
	}
	if !cp.opts.Durable {
		args = append(args, "--unsafe-no-fsync")
	}
	var err error
	cp.etcd, err = cp.startServer("etcd", args)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", cp.etcdSocket())
		},
	}}
	defer client.CloseIdleConnections()
	return cp.etcd.ready(ctx, func(ctx context.Context) error { return probe(ctx, client, "http://etcd/health") })
}

// makeSocketDir makes the directory of etcd's sockets: below cp.opts.Dir, unless the path would be too long for one.
func (cp *ControlPlane) makeSocketDir() error {
	cp.sockets = filepath.Join(cp.opts.Dir, "sockets")
	if len(cp.etcdSocket()) <= maxSocketPath {
		return os.MkdirAll(cp.sockets, 0o700)
	}
	var err error
	cp.sockets, err = os.MkdirTemp("", "portcullis-")
	return err
}

func (cp *ControlPlane) etcdData() string {
	return filepath.Join(cp.opts.Dir, etcdDir)
}

func (cp *ControlPlane) etcdSocket() string {
	return filepath.Join(cp.sockets, "client")
}

// startAPIServer starts the API server and waits until it is ready. A fixed port is checked first; a free one is drawn
// again when another process was faster.
func (cp *ControlPlane) startAPIServer(ctx context.Context) error {
	if cp.opts.APIServerPort != 0 {
		if err := CheckPort(cp.opts.APIServerPort, "the API server"); err != nil {
			return err
		}
		return cp.serve(ctx)
	}
	var err error
	for range startAttempts {
		if cp.opts.APIServerPort, err = FreePort(); err != nil {
			return err
		}
		err = cp.serve(ctx)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errExited) {
			return err
		}
	}
	return err
}

// serve starts the API server on its port; when that is a new one, clients are configured for it.
func (cp *ControlPlane) serve(ctx context.Context) error {
	if err := cp.configure(); err != nil {
		return err
	}
	args, err := cp.apiServerArgs()
	if err != nil {
		return err
	}
	if cp.apiServer, err = cp.startServer("kube-apiserver", args); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(cp.config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return cp.apiServer.ready(ctx, func(ctx context.Context) error { return probe(ctx, client, cp.url()+"/readyz") })
}

// configure makes the administrator's client configuration and kubeconfig, once for a port.
func (cp *ControlPlane) configure() error {
	if cp.config != nil && cp.config.Host == cp.url() {
		return nil
	}
	var err error
	if cp.config, err = cp.ConfigFor(admin, adminGroup); err != nil {
		return err
	}
	cp.kubeconfig, err = cp.KubeconfigFor(filepath.Join(cp.opts.Dir, "kubeconfig"), admin, adminGroup)
	return err
}

// apiServerArgs returns the flags of the API server, those of the options last.
func (cp *ControlPlane) apiServerArgs() ([]string, error) {
	args := []string{
		"--etcd-servers=unix://" + cp.etcdSocket(),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(cp.opts.APIServerPort),
		"--tls-cert-file=" + cp.pki.path("apiserver.crt"), "--tls-private-key-file=" + cp.pki.path("apiserver.key"),
		"--client-ca-file=" + cp.pki.path("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + cp.pki.path("serviceaccount.key"),
		"--service-account-signing-key-file=" + cp.pki.path("serviceaccount.key"),
		"--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112",
		"--authorization-mode=RBAC", "--allow-privileged",
		// A loopback address can be no endpoint of the Service "kubernetes".
		"--endpoint-reconciler-type=none",
	}
	if !cp.opts.Controllers {
		// Nobody makes the default ServiceAccounts, which this plugin wants of every Pod.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if cp.opts.Audit {
		audit, err := cp.auditArgs()
		if err != nil {
			return nil, err
		}
		args = append(args, audit...)
	}
	return append(args, cp.opts.APIServerFlags...), nil
}

// url returns where the API server listens.
func (cp *ControlPlane) url() string {
	return "https://" + loopback(cp.opts.APIServerPort)
}
