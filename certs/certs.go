// Package certs keeps the serving certificate of the webhook and metrics servers.
//
// There is one serving path: tls.crt and tls.key in a directory, loaded again whenever they change. What differs is who
// writes them. Mounted: kubelet does, from the Secret of cert-manager. Self-managed: cert-controller keeps an authority
// and a certificate in a Secret and the authority in the webhook configuration, and every replica mirrors that Secret
// into its own directory, so that neither a kubelet nor its propagation delay is needed.
package certs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// The files of a certificate directory, which are also the keys of its Secret.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
	caFile   = "ca.crt"
)

// Options says where the serving certificate comes from. Dir is always needed, the rest only when SelfManaged.
type Options struct {
	// Dir holds tls.crt and tls.key. They may appear later. Self-managed, it is made and must be writable.
	Dir string
	// SelfManaged makes, injects and rotates an authority and a certificate of our own.
	SelfManaged bool
	// WebhookConfiguration is the ValidatingWebhookConfiguration that the certificate is for. Self-managed, it is told the
	// authority.
	WebhookConfiguration string
	// Others are further ones, which are told the same authority.
	Others []string
	// Namespace and SecretName are where the authority and the certificate live.
	Namespace, SecretName string
	// DNSNames are what the API server calls the webhook server: no IP addresses, cert-controller can't issue for them.
	DNSNames []string
}

// New returns the serving side, with the certificate already loaded when its files are there. It is of use before the
// manager exists, because the webhook server's TLS options ask for it; SetupWithManager then keeps it fresh.
func New(o Options) (*Serving, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	s := newServing(o, logf.Log.WithName("certs"))
	s.load()
	return s, nil
}

// SetupWithManager registers what keeps the certificate fresh. All of it runs on every replica, except for the rotation,
// which is the leader's.
func (s *Serving) SetupWithManager(mgr manager.Manager) error {
	if err := mgr.Add(everyReplica(s.watch)); err != nil {
		return fmt.Errorf("serving certificate: %w", err)
	}
	reader := mgr.GetAPIReader()
	if err := mgr.Add(everyReplica(func(ctx context.Context) error { return s.watchTrust(ctx, reader) })); err != nil {
		return fmt.Errorf("trust in the serving certificate: %w", err)
	}
	if !s.opts.SelfManaged {
		return nil
	}
	if err := s.setupSelfManaged(mgr); err != nil {
		return fmt.Errorf("self-managed serving certificate: %w", err)
	}
	return nil
}

func (o Options) validate() error {
	if o.Dir == "" {
		return errors.New("no directory given")
	}
	if !o.SelfManaged {
		return nil
	}
	var missing []string
	for _, field := range []struct{ what, value string }{
		{"namespace", o.Namespace}, {"Secret", o.SecretName}, {"webhook configuration", o.WebhookConfiguration},
		{"DNS name", strings.Join(o.DNSNames, "")},
	} {
		if field.value == "" {
			missing = append(missing, field.what)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("self-managed, but no %s given", strings.Join(missing, " and no "))
	}
	for _, name := range o.DNSNames {
		if net.ParseIP(name) != nil {
			return fmt.Errorf("%q is an IP address; a self-managed certificate is for DNS names only, such as localhost", name)
		}
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return fmt.Errorf("%q is no DNS name: %s", name, strings.Join(problems, ", "))
		}
	}
	return nil
}

// everyReplica is a runnable that does not wait for leadership, as a plain RunnableFunc would.
type everyReplica func(context.Context) error

func (f everyReplica) Start(ctx context.Context) error { return f(ctx) }

func (everyReplica) NeedLeaderElection() bool { return false }
