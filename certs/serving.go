package certs

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// ErrNotLoaded is what handshakes and checks fail with until a first certificate is loaded.
var ErrNotLoaded = errors.New("no serving certificate is loaded yet")

// lookInterval is how often the files are looked at. Two small reads a second cost nothing, cover every way of replacing
// files (symlink swaps, renames, a directory that appears later), and need no inotify watch, which nodes run out of.
const lookInterval = time.Second

// Serving holds the certificate that is served now. controller-runtime's certwatcher can't take its place: it has to find the files
// at its start, and can't tell files that stay bad from those that are being replaced.
type Serving struct {
	opts Options
	log  logr.Logger
	now  func() time.Time
	look time.Duration
	// trusted says whether clients of the webhook server would accept the certificate; nil when that is not ours to know.
	trusted func(context.Context, *tls.Certificate) error

	current atomic.Pointer[tls.Certificate]

	mu sync.Mutex
	// loaded identifies the files that current came from.
	loaded fingerprint
	// problem is why the files as they are now can't be loaded, nil when they are.
	problem *problem
	// verdict is the last answer of Check, for logging changes only.
	verdict *string
}

type fingerprint [sha256.Size]byte

// problem is one state of the files that can't be loaded.
type problem struct {
	files  fingerprint
	err    error
	logged bool
}

func newServing(o Options, log logr.Logger) *Serving {
	return &Serving{opts: o, log: log, now: time.Now, look: lookInterval}
}

// GetCertificate returns the certificate to serve, for tls.Config. Its error, until there is one, wraps ErrNotLoaded.
func (s *Serving) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := s.current.Load(); cert != nil {
		return cert, nil
	}
	return nil, s.notLoaded()
}

func (s *Serving) notLoaded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.problem == nil {
		return ErrNotLoaded
	}
	return fmt.Errorf("%w: %w", ErrNotLoaded, s.problem.err)
}

// Check is a healthz.Checker: nil only when a certificate is loaded and valid now and, self-managed, when every webhook of
// the configuration trusts it. A change of its answer is logged, because probes are not told reasons.
func (s *Serving) Check(req *http.Request) error {
	ctx := context.Background()
	if req != nil {
		ctx = req.Context()
	}
	err := s.usable(ctx)

	verdict := ""
	if err != nil {
		verdict = err.Error()
	}
	s.mu.Lock()
	changed := s.verdict == nil || *s.verdict != verdict
	s.verdict = &verdict
	s.mu.Unlock()
	switch {
	case changed && err != nil:
		s.log.Info("Not ready to serve", "reason", verdict)
	case changed:
		s.log.Info("Ready to serve")
	}
	return err
}

func (s *Serving) usable(ctx context.Context) error {
	cert, err := s.GetCertificate(nil)
	if err != nil {
		return err
	}
	now, leaf := s.now(), cert.Leaf
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the serving certificate in %s expired at %s", s.opts.Dir, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if now.Before(leaf.NotBefore) {
		return fmt.Errorf("the serving certificate in %s is not valid before %s", s.opts.Dir, leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	if s.trusted == nil {
		return nil
	}
	return s.trusted(ctx, cert)
}

// watch looks at the files until the context ends.
func (s *Serving) watch(ctx context.Context) error {
	ticker := time.NewTicker(s.look)
	defer ticker.Stop()
	for {
		s.load()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// load takes the files over when they changed and are good; when they are not, what was loaded before stays.
func (s *Serving) load() {
	s.mu.Lock()
	defer s.mu.Unlock()

	certPEM, keyPEM, err := readPair(s.opts.Dir)
	files := fingerprintOf(certPEM, keyPEM)
	if err != nil {
		s.refuse(files, err)
		return
	}
	if s.current.Load() != nil && files == s.loaded {
		s.problem = nil
		refused.Set(0)
		return
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		s.refuse(files, fmt.Errorf("%s and %s in %s are not a certificate and its key: %w", certFile, keyFile, s.opts.Dir, err))
		return
	}
	s.current.Store(&cert)
	s.loaded, s.problem = files, nil
	expiry.WithLabelValues().Set(float64(cert.Leaf.NotAfter.Unix()))
	refused.Set(0)
	s.log.Info("Loaded the serving certificate", "dir", s.opts.Dir,
		"dnsNames", cert.Leaf.DNSNames, "notAfter", cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
}

// refuse keeps what can't be loaded from being served. That is told only when a second look finds the same: files that
// are replaced one after the other do not match for a moment. The log says it once, the metric for as long as it is so.
func (s *Serving) refuse(files fingerprint, err error) {
	if s.problem == nil || s.problem.files != files || s.problem.err.Error() != err.Error() {
		s.problem = &problem{files: files, err: err}
		return
	}
	if s.problem.logged {
		return
	}
	s.problem.logged = true
	refused.Set(1)
	switch kept := s.current.Load() != nil; {
	case errors.Is(err, fs.ErrNotExist) && kept:
		s.log.Info("The files of the serving certificate are gone, still serving the one loaded before", "dir", s.opts.Dir)
	case errors.Is(err, fs.ErrNotExist):
		s.log.Info("Waiting for the serving certificate", "dir", s.opts.Dir, "files", []string{certFile, keyFile})
	default:
		s.log.Error(err, "Can't load the serving certificate", "dir", s.opts.Dir, "stillServingPrevious", kept)
	}
}

func readPair(dir string) (certPEM, keyPEM []byte, err error) {
	if certPEM, err = os.ReadFile(filepath.Join(dir, certFile)); err != nil {
		return nil, nil, err
	}
	if keyPEM, err = os.ReadFile(filepath.Join(dir, keyFile)); err != nil {
		return nil, nil, err
	}
	return certPEM, keyPEM, nil
}

func fingerprintOf(certPEM, keyPEM []byte) fingerprint {
	cert, key := sha256.Sum256(certPEM), sha256.Sum256(keyPEM)
	return sha256.Sum256(append(cert[:], key[:]...))
}
