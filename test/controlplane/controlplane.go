// Package controlplane starts a real etcd, kube-apiserver and kube-controller-manager on this machine, for tests and for
// `make run`.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{})
//	if err != nil { ... }
//	defer cp.Stop()
//	c, err := client.New(cp.Config(), client.Options{})
//
// The API server is a complete one: RBAC, admission webhooks, priority and fairness, and tokens of service accounts. It
// is alone until StartControllers: nothing is garbage-collected before, no namespace finishes deleting, quotas do not
// count, no Service gets endpoints and aggregated ClusterRoles such as "view" are empty. There are never any nodes: a Pod
// that is bound to one by hand is not run, and does not end before its deletion is forced.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// startTimeout bounds how long one program may take until it works; a busy machine with two cores needs half a minute, at times far more.
	startTimeout = 5 * time.Minute
	// stopTimeout bounds how long a program may take to stop by itself.
	stopTimeout = 10 * time.Second
	// goneWithin is how long after its connections a program may end.
	goneWithin = 2 * time.Second
	// startAttempts is how often a start is tried when another process grabs a port that was free a moment ago.
	startAttempts = 3
	// etcdDir is where etcd's data are below Options.Dir.
	etcdDir = "etcd"
	// maxSocketPath is how long the path of a socket may be on every system.
	maxSocketPath = 100
	// admin is the user of Config and Kubeconfig.
	admin = "admin"
	// adminGroup may do everything in every cluster.
	adminGroup = "system:masters"
)

// Options say how a control plane is started. The zero value is right for a test.
type Options struct {
	// Dir keeps data, certificates and logs over restarts. Empty: a temporary one, which Stop removes.
	Dir string
	// From is the directory of a control plane that has stopped, which began with another Dir: this one begins with its data. Empty:
	// it begins with none.
	From string
	// Assets is the directory of the programs. Empty: what the function Assets finds.
	Assets string
	// APIServerPort on the loopback address. 0: any free one.
	APIServerPort int
	// APIServerFlags are added to the API server's flags; the last one of a name counts.
	APIServerFlags []string
	// Env is added to the environment of the programs, each "name=value".
	Env []string
	// Controllers says that StartControllers will be called: only then Pods can have, and must have, a ServiceAccount.
	Controllers bool
	// Durable makes etcd sync every write to the disk. Tests are much faster without.
	Durable bool
	// Audit records every write for Writes, and AuditReads with it every other request for Requests.
	Audit, AuditReads bool
}

// ControlPlane is a running etcd and kube-apiserver, and a controller manager after StartControllers. Its methods are for
// one goroutine at a time, Config and Kubeconfig for any.
type ControlPlane struct {
	opts        Options
	temporary   bool
	assets      string
	sockets     string
	pki         *pki
	config      *rest.Config
	etcd        server
	apiServer   server
	controllers server
	kubeconfig  string
}

// Start returns a control plane that serves. The programs live until Stop, or until this process ends; ctx only bounds
// the start. A fixed port that is taken gives a *PortTakenError.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	cp := &ControlPlane{opts: opts, assets: opts.Assets}
	if err := cp.start(ctx); err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	return cp, nil
}

func (cp *ControlPlane) start(ctx context.Context) error {
	if err := cp.prepare(ctx); err != nil {
		return err
	}
	if err := cp.startEtcd(ctx); err != nil {
		return err
	}
	return cp.startAPIServer(ctx)
}

// prepare finds the programs and makes the directory with all that is in it before the first start.
func (cp *ControlPlane) prepare(ctx context.Context) error {
	var err error
	if cp.assets == "" {
		if cp.assets, err = Assets(ctx); err != nil {
			return err
		}
	}
	if cp.opts.Dir == "" {
		cp.temporary = true
		if cp.opts.Dir, err = os.MkdirTemp("", "portcullis-controlplane-"); err != nil {
			return err
		}
	}
	if cp.opts.Dir, err = filepath.Abs(cp.opts.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(cp.opts.Dir, 0o700); err != nil {
		return err
	}
	if cp.opts.From != "" {
		if err := cp.beginWith(cp.opts.From); err != nil {
			return fmt.Errorf("the data of %s: %w", cp.opts.From, err)
		}
	}
	if cp.pki, err = openPKI(filepath.Join(cp.opts.Dir, "pki")); err != nil {
		return fmt.Errorf("certificates of the control plane: %w", err)
	}
	return nil
}

// Config returns the configuration of a client that may do everything, without a limit on its rate.
func (cp *ControlPlane) Config() *rest.Config {
	return rest.CopyConfig(cp.config)
}

// Kubeconfig returns the absolute path of the administrator's kubeconfig file.
func (cp *ControlPlane) Kubeconfig() string {
	return cp.kubeconfig
}

// ConfigFor returns the configuration of a client that is user, a member of groups. It has the rights that RBAC gives;
// "system:serviceaccount:<namespace>:<name>" is a service account.
func (cp *ControlPlane) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	cert, key, err := cp.pki.client(user, groups)
	if err != nil {
		return nil, fmt.Errorf("certificate of user %s: %w", user, err)
	}
	return &rest.Config{
		Host:            cp.url(),
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.pki.ca.certPEM, CertData: cert, KeyData: key},
		QPS:             -1,
	}, nil
}

// Dir returns the absolute path of the directory with data, certificates and logs.
func (cp *ControlPlane) Dir() string {
	return cp.opts.Dir
}

// RestartAPIServer stops the API server and starts it again on the same port, with the same data and the same flags.
func (cp *ControlPlane) RestartAPIServer(ctx context.Context) error {
	return cp.restartAPIServer(ctx, stopTimeout)
}

// CrashAPIServer kills the API server and starts it again on the same port, with the same data and the same flags.
func (cp *ControlPlane) CrashAPIServer(ctx context.Context) error {
	return cp.restartAPIServer(ctx, 0)
}

func (cp *ControlPlane) restartAPIServer(ctx context.Context, patience time.Duration) error {
	if err := cp.apiServer.Stop(patience); err != nil {
		return err
	}
	return cp.startAPIServer(ctx)
}

// Exited returns a channel that is closed when one of the programs that run now is gone, which it should not be before
// Stop.
func (cp *ControlPlane) Exited() <-chan struct{} {
	one, etcd, apiServer, controllers := make(chan struct{}), cp.etcd.Exited(), cp.apiServer.Exited(), cp.controllers.Exited()
	go func() {
		defer close(one)
		select {
		case <-etcd:
		case <-apiServer:
		case <-controllers:
		}
	}()
	return one
}

// Gone waits a moment for a program to end, and returns an error with the last words of those that have: who talks to a program
// notices that it ends before its owner does. It is nil while all of them run, or while none was started.
func (cp *ControlPlane) Gone(ctx context.Context) error {
	if cp == nil {
		return nil
	}
	select {
	case <-cp.Exited():
	case <-ctx.Done():
	case <-time.After(goneWithin):
	}
	var errs []error
	for _, s := range []server{cp.etcd, cp.apiServer, cp.controllers} {
		select {
		case <-s.Exited():
			errs = append(errs, fmt.Errorf("%s has ended; %s ends with:\n%s", s.name(), s.log, s.lastWords()))
		default:
		}
	}
	return errors.Join(errs...)
}

// Stop ends the programs and waits until they are gone; a temporary directory goes with them. A second Stop does
// nothing.
func (cp *ControlPlane) Stop() error {
	patience := stopTimeout
	if cp.temporary {
		// Nobody reads this data again, so there is nothing to wait for.
		patience = 0
	}
	err := errors.Join(cp.controllers.Stop(patience), cp.apiServer.Stop(patience), cp.etcd.Stop(patience))
	if cp.temporary {
		err = errors.Join(err, os.RemoveAll(cp.opts.Dir))
	}
	if cp.sockets != "" {
		err = errors.Join(err, os.RemoveAll(cp.sockets))
	}
	return err
}
