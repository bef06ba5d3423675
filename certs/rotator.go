package certs

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// prepareRetry is how often the leader looks whether the Secret is there.
const prepareRetry = time.Second

// rotatorManager is the manager as cert-controller sees it. With RequireLeaderElection, cert-controller starts its cache where it
// rotates, so that followers could not mirror the Secret; without it, every replica would rotate.
type rotatorManager struct {
	manager.Manager
	rotator *rotator.CertRotator
	names   []string
	log     logr.Logger
	cache   cache.Cache
	rotates bool
}

// Add registers one of cert-controller's runnables: its cache for every replica, its rotator with patience. The cache
// comes first.
func (m *rotatorManager) Add(r manager.Runnable) error {
	switch r := r.(type) {
	case cache.Cache:
		m.cache = r
		return m.Manager.Add(everyReplica(r.Start))
	case *rotator.CertRotator:
		m.rotates = true
		return m.Manager.Add(&patientRotator{rotator: r, reader: m.cache, writer: m.Manager.GetClient(), names: m.names, log: m.log})
	default:
		return m.Manager.Add(r)
	}
}

// GetClient returns what cert-controller writes with.
func (m *rotatorManager) GetClient() client.Client {
	return rotatorClient{Client: m.Manager.GetClient(), reader: m.cache, rotator: m.rotator}
}

// rotatorClient is what cert-controller writes with. It leaves out updates that would change nothing: cert-controller writes the webhook
// configuration at every event of it and of the Secret, without a look at what is in it. And it gives certificates ECDSA keys.
type rotatorClient struct {
	client.Client
	reader  client.Reader
	rotator *rotator.CertRotator
}

// Update writes obj: a webhook configuration unless the cache has it just so, the Secret with a certificate of ours in the place of
// cert-controller's.
func (c rotatorClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	switch wanted := obj.(type) {
	case *corev1.Secret:
		if authority, ok := authorityOf(wanted); ok {
			if err := reissue(c.rotator, authority, wanted); err != nil {
				return err
			}
		}
	case *unstructured.Unstructured:
		now := &unstructured.Unstructured{}
		now.SetGroupVersionKind(wanted.GroupVersionKind())
		err := c.reader.Get(ctx, client.ObjectKeyFromObject(wanted), now)
		if err == nil && equality.Semantic.DeepEqual(now.Object, wanted.Object) {
			return nil
		}
	}
	return c.Client.Update(ctx, obj, opts...)
}

// patientRotator starts the rotator once its Secret is there, and outlives it. cert-controller's own Start returns an error, which
// would end the process, when there is no Secret, and after some minutes in which it could not inject the authority.
type patientRotator struct {
	rotator *rotator.CertRotator
	reader  client.Reader
	writer  client.Writer
	names   []string
	log     logr.Logger
}

// NeedLeaderElection is true: one replica rotates.
func (p *patientRotator) NeedLeaderElection() bool { return true }

// Start runs the rotator until the context ends. When the rotator gives up (its writes were refused for long), the
// process and with it admission go on: the rotator's controller, a runnable of its own, tries again with every event.
func (p *patientRotator) Start(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, prepareRetry, true, p.prepare)
	if err == nil {
		err = p.rotator.Start(ctx)
	}
	if err != nil && ctx.Err() == nil {
		p.log.Error(err, "The certificate rotator gave up, its controller goes on")
	}
	<-ctx.Done()
	return nil
}

// prepare says whether the Secret can be left to the rotator, which would end at once without one: not while the mirror has not made it or
// the cache has not heard of it.
func (p *patientRotator) prepare(ctx context.Context) (bool, error) {
	secret := &corev1.Secret{}
	if err := p.reader.Get(ctx, p.rotator.SecretKey, secret); err != nil {
		return false, nil //nolint:nilerr // it is looked for again
	}
	err := p.ensureNames(ctx, secret)
	if err != nil {
		p.log.Error(err, "Can't replace a certificate that lacks DNS names, trying again")
	}
	return err == nil, nil
}

// ensureNames replaces a certificate that lacks one of our names: the rotator looks at the first one only. What is no
// certificate, or has no authority to sign another, is left to the rotator.
func (p *patientRotator) ensureNames(ctx context.Context, secret *corev1.Secret) error {
	lacking := lackingNames(secret, p.names)
	authority, ok := authorityOf(secret)
	if len(lacking) == 0 || !ok {
		return nil
	}
	if err := reissue(p.rotator, authority, secret); err != nil {
		return err
	}
	if err := p.writer.Update(ctx, secret); err != nil {
		return fmt.Errorf("writing the Secret: %w", err)
	}
	p.log.Info("Replaced a certificate that lacked DNS names", "names", lacking)
	return nil
}

// lackingNames returns the names that the certificate in the Secret is not for; none when there is no certificate.
func lackingNames(secret *corev1.Secret, names []string) []string {
	pair, err := tls.X509KeyPair(secret.Data[certFile], secret.Data[keyFile])
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return pair.Leaf.VerifyHostname(name) == nil })
}

// authorityOf returns the authority in the Secret, and whether there is one as cert-controller makes them. cert-controller exports
// nothing that reads one.
func authorityOf(secret *corev1.Secret) (*rotator.KeyPairArtifacts, bool) {
	pair, err := tls.X509KeyPair(secret.Data[caFile], secret.Data[caKeyFile])
	if err != nil {
		return nil, false
	}
	key, ok := pair.PrivateKey.(*rsa.PrivateKey)
	return &rotator.KeyPairArtifacts{
		Cert: pair.Leaf, Key: key, CertPEM: secret.Data[caFile], KeyPEM: secret.Data[caKeyFile],
	}, ok
}
