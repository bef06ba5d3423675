package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// What cert-controller needs, and no more:
//   - its cache lists and watches all Secrets of the own namespace and all webhook configurations, without a field
//     selector, so those verbs can't be bound to names; neither can create;
//   - nothing is ever fetched by name, all reads are from that cache: no get;
//   - writes go to the two named objects only.
//
// +kubebuilder:rbac:groups="",namespace=portcullis-system,resources=secrets,verbs=create;list;watch
// +kubebuilder:rbac:groups="",namespace=portcullis-system,resources=secrets,resourceNames=portcullis-webhook-cert,verbs=update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,verbs=list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=portcullis,verbs=update

const (
	authorityName = "portcullis-ca"
	organization  = "portcullis"
	fieldOwner    = "portcullis"

	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour
	// clockSkew is how long before now a new certificate is valid already, as cert-controller has it.
	clockSkew = time.Hour

	// caKeyFile is in the Secret only, never in a directory.
	caKeyFile = "ca.key"
)

// rotators numbers the rotators of this process: cert-controller insists on a controller name of its own for each.
var rotators atomic.Int32

// setupSelfManaged registers cert-controller's rotator, and our mirror of its Secret, with the manager.
func (s *Serving) setupSelfManaged(mgr manager.Manager) error {
	cr := newRotator(s.opts)
	adapted := &rotatorManager{Manager: mgr, rotator: cr, names: s.opts.DNSNames, log: s.log}
	if err := rotator.AddRotator(adapted, cr); err != nil {
		return err
	}
	if adapted.cache == nil || !adapted.rotates {
		return errors.New("cert-controller does not register the runnables it is known for")
	}
	s.trusted = func(ctx context.Context, cert *tls.Certificate) error {
		return trustedBy(ctx, adapted.cache, s.opts.WebhookConfiguration, cert, s.now())
	}
	m := &mirror{
		opts: s.opts, reader: adapted.cache, writer: mgr.GetClient(), log: s.log, published: s.load,
		issue: func() (*corev1.Secret, error) { return issue(cr) },
	}
	return m.setup(mgr, adapted.cache)
}

// newRotator returns cert-controller's rotator for these options. Only the leader rotates and injects; no replica has to
// wait for that with a Secret that is there.
func newRotator(o Options) *rotator.CertRotator {
	webhooks := []rotator.WebhookInfo{{Name: o.WebhookConfiguration, Type: rotator.Validating}}
	for _, other := range o.Others {
		webhooks = append(webhooks, rotator.WebhookInfo{Name: other, Type: rotator.Validating})
	}
	name := "certificate-rotator"
	if n := rotators.Add(1); n > 1 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	return &rotator.CertRotator{
		ControllerName:        name,
		SecretKey:             client.ObjectKey{Namespace: o.Namespace, Name: o.SecretName},
		CertDir:               o.Dir,
		CAName:                authorityName,
		CAOrganization:        organization,
		DNSName:               o.DNSNames[0],
		ExtraDNSNames:         o.DNSNames[1:],
		ExtKeyUsages:          &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		CaCertDuration:        authorityLifetime,
		ServerCertDuration:    certificateLifetime,
		IsReady:               make(chan struct{}),
		Webhooks:              webhooks,
		FieldOwner:            fieldOwner,
		RequireLeaderElection: true,
	}
}

// issue returns a Secret, not stored yet, with an authority as the rotator would make it, and a certificate: the rotator can't create the
// Secret that it rotates.
func issue(cr *rotator.CertRotator) (*corev1.Secret, error) {
	begin := time.Now().Add(-clockSkew)
	authority, err := cr.CreateCACert(begin, time.Now().Add(cr.CaCertDuration))
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cr.SecretKey.Namespace, Name: cr.SecretKey.Name,
			Labels: map[string]string{"app.kubernetes.io/name": "portcullis"},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{caFile: authority.CertPEM, caKeyFile: authority.KeyPEM},
	}
	return secret, reissue(cr, authority, secret)
}

// reissue puts a new certificate of the authority into the Secret, as the rotator would make it, but with a key of an elliptic curve: in a
// burst the API server makes a connection for almost every request, and each costs a signature, which takes ten times as long with the RSA
// keys that the rotator makes. One of those that is there already stays until it is rotated.
func reissue(cr *rotator.CertRotator, authority *rotator.KeyPairArtifacts, secret *corev1.Secret) error {
	now := time.Now()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: cr.DNSName}, DNSNames: append([]string{cr.DNSName}, cr.ExtraDNSNames...),
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(cr.ServerCertDuration),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: *cr.ExtKeyUsages, BasicConstraintsValid: true,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Cert, key.Public(), authority.Key)
	if err != nil {
		return err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	secret.Data[certFile], secret.Data[keyFile] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM
	return nil
}
