package certmanager

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/annotations"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// patience is how long cert-manager may take. Its controllers try again after up to 30 s, those of issuers after more.
const patience = 5 * time.Minute

// world is Portcullis and a client that knows cert-manager.
type world struct {
	*harness.Harness
	t  *testing.T
	c  client.Client
	ca authority
}

func newWorld(t *testing.T) *world {
	t.Helper()
	log.SetLogger(logr.Discard()) // the clients of the test have nothing to say
	h, err := harness.Start(t.Context(), harness.Options{
		ControlPlane: controlplane.Options{Controllers: true},
		// This machine may stand still for longer than a cluster would put up with. The one replica needs no lease.
		WebhookTimeout: 30, Flags: []string{"--leader-elect=false"},
	})
	if err != nil {
		t.Fatalf("starting Portcullis: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, r := range h.Replicas {
				t.Logf("log of %s:\n%s", r.Log, r.LogTail(4000))
			}
		}
		if err := h.Stop(); err != nil {
			t.Errorf("stopping Portcullis: %v", err)
		}
	})
	scheme := harness.Scheme()
	if err := cmv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{Harness: h, t: t, ca: newAuthority(t)}
	if w.c, err = client.New(h.Config(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return w
}

// eventually waits until check returns nil.
func (w *world) eventually(what string, check func() error) {
	w.t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && w.t.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	w.t.Fatalf("waiting for %s: %v", what, err)
}

func (w *world) create(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.c.Create(w.t.Context(), object); err != nil {
			w.t.Fatalf("creating %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// edit changes the stored object.
func edit[T client.Object](w *world, object T, change func(T)) {
	w.t.Helper()
	for {
		if err := w.c.Get(w.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			w.t.Fatal(err)
		}
		change(object)
		err := w.c.Update(w.t.Context(), object)
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			w.t.Fatalf("changing %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// refused waits until Portcullis refuses a Service, dry and then in truth. Until the API server can ask it and it has seen
// what it refuses for, the Service would pass.
func (w *world) refused(svc *corev1.Service, text string) {
	w.t.Helper()
	for _, options := range [][]client.CreateOption{{client.DryRunAll}, nil} {
		w.eventually(svc.Name+" to be refused", func() error {
			err := w.c.Create(w.t.Context(), svc.DeepCopy(), options...)
			if err == nil && options == nil {
				w.t.Fatalf("%s was created, want %q", svc.Name, text)
			}
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), text) {
				return fmt.Errorf("want %q, got: %w", text, err) // or it passes
			}
			return nil
		})
	}
}

// asking is a Service that asks for an Ingress, by its namespace/name.
func asking(key, value string) *corev1.Service {
	svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	svc.Namespace, svc.Name, _ = strings.Cut(key, "/")
	metav1.SetMetaDataAnnotation(&svc.ObjectMeta, v1beta1.AnnotationHTTP, value)
	return svc
}

func ask(value string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, v1beta1.AnnotationHTTP, value)
	}
}

// authority is a CA.
type authority struct {
	cert *x509.Certificate
	pool *x509.CertPool
	data map[string][]byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{pool: x509.NewCertPool(), data: map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

// issued waits until a Secret has a certificate of the CA that is right for all hosts and no others, and returns it.
func (w *world) issued(namespace, secret string, hosts ...string) *x509.Certificate {
	w.t.Helper()
	var leaf *x509.Certificate
	w.eventually(fmt.Sprintf("the certificate for %v in %s/%s", hosts, namespace, secret), func() error {
		s := &corev1.Secret{}
		if err := w.c.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: secret}, s); err != nil {
			return err
		}
		block, rest := pem.Decode(s.Data[corev1.TLSCertKey])
		if block == nil {
			return errors.New("there is no certificate in it")
		}
		var err error
		if leaf, err = x509.ParseCertificate(block.Bytes); err != nil {
			return err
		}
		chain := x509.NewCertPool()
		chain.AppendCertsFromPEM(rest)
		for _, host := range hosts {
			name := strings.Replace(host, "*", "any", 1)
			if _, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: w.ca.pool, Intermediates: chain}); err != nil {
				return err
			}
		}
		if !slices.Equal(slices.Sorted(slices.Values(leaf.DNSNames)), slices.Sorted(slices.Values(hosts))) {
			return fmt.Errorf("it is for %v", leaf.DNSNames)
		}
		return nil
	})
	return leaf
}

// hasEvent waits for an event of a Service that has all the texts.
func (w *world) hasEvent(svc *corev1.Service, texts ...string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("an event of %s with %q", svc.Name, texts), func() error {
		var list eventsv1.EventList
		if err := w.c.List(w.t.Context(), &list, client.InNamespace(svc.Namespace)); err != nil {
			return err
		}
		var seen []string
		for i := range list.Items {
			e := &list.Items[i]
			text := e.Type + " " + e.Reason + " " + e.Note
			if e.Regarding.Name != svc.Name {
				continue
			}
			seen = append(seen, text)
			if !slices.ContainsFunc(texts, func(want string) bool { return !strings.Contains(text, want) }) {
				return nil
			}
		}
		return fmt.Errorf("there are %q", seen)
	})
}

// TestCertificates has real certificates issued for annotated Services. cert-manager comes when Portcullis has been
// running for a while.
func TestCertificates(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"shop", Namespace} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	early := asking("shop/early", "host=early.example.com, issuer=ca")
	w.create(early) // nobody answers for Portcullis yet
	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.hasEvent(early, "Warning CertManagerMissing", "cert-manager, which is not installed")
	w.refused(asking("shop/web", "host=a.example.com, issuer=ca"), "issuer=ca needs cert-manager, which is not installed in this cluster")

	if err := Install(t.Context(), w.ControlPlane); err != nil {
		t.Fatal(err)
	}
	// The garbage collector learns of kinds that come later with a delay, and as long as the CertificateRequests of a deleted
	// Certificate are there, the next Certificate of its name can't make its own.
	if err := w.StartControllers(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.startCertManager()
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "ca"}, Type: corev1.SecretTypeTLS, Data: w.ca.data},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ca"}, Type: corev1.SecretTypeTLS, Data: w.ca.data},
		&cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "ca"}, Spec: byCA()},
		&cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}, Spec: byCA()})
	// What waited for cert-manager is served without a restart.
	w.issued("shop", "early-tls", "early.example.com")
	w.hasEvent(early, "Normal Exposed")
	w.hasEvent(early, "Normal CertificateReady", "the certificate for early.example.com is in Secret early-tls")

	svc := asking("shop/web", "host=a.example.com, host=b.example.com, host=*.c.example.com, issuer=ca")
	w.create(svc)
	first := w.issued("shop", "web-tls", "a.example.com", "b.example.com", "*.c.example.com")
	w.serves(svc, "Prefix a.example.com/ -> web:80\nPrefix b.example.com/ -> web:80\nPrefix *.c.example.com/ -> web:80\n"+
		"tls web-tls for a.example.com b.example.com *.c.example.com")
	w.hasEvent(svc, "Normal CertificateReady")
	if cert := w.certificate(svc); cert == nil || !metav1.IsControlledBy(cert, svc) {
		t.Errorf("the Service does not own its Certificate: %v", cert)
	}

	edit(w, svc, ask("host=a.example.com, host=d.example.com, issuer=Issuer/own"))
	second := w.issued("shop", "web-tls", "a.example.com", "d.example.com")
	if second.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the certificate was not issued anew")
	}
	w.hasEvent(svc, "Normal CertificateReady", "a.example.com, d.example.com")
	t.Run("by hand", func(t *testing.T) { byHand(t, w, svc) })
	t.Run("no longer asked for", func(t *testing.T) { noLonger(t, w, svc) })
	t.Run("somebody else's", func(t *testing.T) { somebodyElses(t, w) })
}

// byHand deletes and changes the Certificate of a Service.
func byHand(t *testing.T, w *world, svc *corev1.Service) {
	cert := w.certificate(svc)
	if err := w.c.Delete(t.Context(), cert); err != nil {
		t.Fatal(err)
	}
	w.eventually("the Certificate to be back", func() error {
		if again := w.certificate(svc); again == nil || again.UID == cert.UID {
			return errors.New("it is not")
		}
		return nil
	})
	edit(w, w.certificate(svc), func(cert *cmv1.Certificate) {
		cert.Spec.DNSNames = []string{"evil.example.com"}
		cert.Spec.RevisionHistoryLimit = new(int32(7))
	})
	w.eventually("the Certificate to be set right", func() error {
		if got := w.certificate(svc); !slices.Equal(got.Spec.DNSNames, []string{"a.example.com", "d.example.com"}) {
			return fmt.Errorf("it is for %v", got.Spec.DNSNames)
		}
		return nil
	})
	if limit := w.certificate(svc).Spec.RevisionHistoryLimit; limit == nil || *limit != 7 {
		t.Errorf("what the annotation does not say was changed: %v", limit)
	}
	w.issued("shop", "web-tls", "a.example.com", "d.example.com")
}

// noLonger takes issuers and Services away.
func noLonger(t *testing.T, w *world, svc *corev1.Service) {
	edit(w, svc, ask("host=a.example.com, tls=web-tls"))
	w.eventually("the Certificate to go", func() error { return isGone(w.certificate(svc)) })
	w.serves(svc, "Prefix a.example.com/ -> web:80\ntls web-tls for a.example.com")
	w.issued("shop", "web-tls", "a.example.com", "d.example.com") // the Secret stays
	edit(w, svc, ask("host=a.example.com, issuer=ca"))
	w.issued("shop", "web-tls", "a.example.com")
	if err := w.c.Delete(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	w.eventually("the Certificate to go with its Service", func() error { return isGone(w.certificate(svc)) })
	w.serves(svc, "")
}

// somebodyElses has a Certificate of the Service's name before the Service asks for one.
func somebodyElses(t *testing.T, w *world) {
	cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "theirs"}, Spec: cmv1.CertificateSpec{
		SecretName: "theirs", DNSNames: []string{"theirs.example.com"}, IssuerRef: cmmeta.IssuerReference{Name: "own", Kind: "Issuer"},
	}}
	w.create(cert)
	w.issued("shop", "theirs", "theirs.example.com")
	w.refused(asking("shop/theirs", "host=theirs.example.com, issuer=ca"), "a Certificate shop/theirs exists since")
	svc := asking("shop/theirs", "host=theirs.example.com, tls=theirs")
	w.create(svc)
	w.serves(svc, "Prefix theirs.example.com/ -> theirs:80\ntls theirs for theirs.example.com")
	if err := w.c.Delete(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	w.serves(svc, "")
	if now := w.certificate(svc); now == nil || now.Generation != cert.Generation {
		t.Errorf("the Certificate was touched: %v", now)
	}
}

func byCA() cmv1.IssuerSpec {
	return cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "ca"}}}
}

func isGone(cert *cmv1.Certificate) error {
	if cert != nil {
		return errors.New("it is there")
	}
	return nil
}

// startCertManager runs the controllers until the test ends.
func (w *world) startCertManager() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, w.Kubeconfig()) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("cert-manager: %v", err)
		}
	})
}

// certificate reads the Certificate of a Service's name, nil when there is none.
func (w *world) certificate(svc *corev1.Service) *cmv1.Certificate {
	w.t.Helper()
	cert := &cmv1.Certificate{}
	err := w.c.Get(w.t.Context(), client.ObjectKeyFromObject(svc), cert)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return cert
}

// serves waits until the Ingress of a Service is as wanted; with "" until there is none.
func (w *world) serves(svc *corev1.Service, want string) {
	w.t.Helper()
	w.eventually("the Ingress of "+svc.Name, func() error {
		ing, got := &networkingv1.Ingress{}, ""
		if err := w.c.Get(w.t.Context(), client.ObjectKeyFromObject(svc), ing); client.IgnoreNotFound(err) != nil {
			return err
		} else if err == nil {
			got = annotations.Describe(ing.Spec)
		}
		if got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}
