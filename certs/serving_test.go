package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestCertificateIsReloadedWhenFilesAreRenamed(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	first, second := ca.pair(t, "first.test", time.Hour), ca.pair(t, "second.test", time.Hour)
	first.write(t, dir)
	_, address := serve(t, dir)
	expectServed(t, address, ca, "first.test")

	for name, content := range second.files() {
		temporary := filepath.Join(dir, name+".new")
		writeFile(t, temporary, content)
		if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	expectServed(t, address, ca, "second.test")
	if got, want := testutil.ToFloat64(expiry.WithLabelValues()), float64(second.notAfter.Unix()); got != want {
		t.Errorf("expiry metric is %v, want %v", got, want)
	}
}

func TestCertificateIsReloadedWhenKubeletSwapsItsSymlink(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	for _, version := range []string{"one.test", "two.test"} {
		if err := os.Mkdir(filepath.Join(dir, ".."+version), 0o755); err != nil {
			t.Fatal(err)
		}
		ca.pair(t, version, time.Hour).write(t, filepath.Join(dir, ".."+version))
	}
	symlink(t, "..one.test", filepath.Join(dir, "..data"))
	symlink(t, "..data/tls.crt", filepath.Join(dir, "tls.crt"))
	symlink(t, "..data/tls.key", filepath.Join(dir, "tls.key"))
	_, address := serve(t, dir)
	expectServed(t, address, ca, "one.test")

	symlink(t, "..two.test", filepath.Join(dir, "..data_tmp"))
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "..one.test")); err != nil {
		t.Fatal(err)
	}
	expectServed(t, address, ca, "two.test")
}

func TestCertificateThatAppearsLaterIsServed(t *testing.T) {
	dir, ca := filepath.Join(t.TempDir(), "not", "yet"), newAuthority(t)
	s, address := serve(t, dir)

	if _, err := s.GetCertificate(nil); !errors.Is(err, ErrNotLoaded) || !strings.Contains(err.Error(), dir) {
		t.Errorf("handshakes fail with %v, want ErrNotLoaded and the directory", err)
	}
	if err := s.Check(nil); !errors.Is(err, ErrNotLoaded) {
		t.Errorf("Check says %v, want ErrNotLoaded", err)
	}
	if err := handshake(address, ca, "late.test"); err == nil {
		t.Error("a handshake succeeded without a certificate")
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ca.pair(t, "late.test", time.Hour).write(t, dir)
	expectServed(t, address, ca, "late.test")
	if err := s.Check(&http.Request{}); err != nil {
		t.Errorf("Check says %v of a good certificate", err)
	}
}

func TestBadFilesKeepTheLastGoodCertificate(t *testing.T) {
	ca := newAuthority(t)
	good, other := ca.pair(t, "good.test", time.Hour), ca.pair(t, "other.test", time.Hour)
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"a key of another certificate": func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, keyFile), other.keyPEM) },
		"garbage instead of a certificate": func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, certFile), []byte("garbage"))
		},
		"an empty key": func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, keyFile), nil) },
		"a file gone":  func(t *testing.T, dir string) { removeFile(t, filepath.Join(dir, keyFile)) },
		"a directory in place of a file": func(t *testing.T, dir string) {
			removeFile(t, filepath.Join(dir, certFile))
			if err := os.Mkdir(filepath.Join(dir, certFile), 0o755); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			good.write(t, dir)
			s, log := newLoggedServing(Options{Dir: dir})
			s.load()
			spoil(t, dir)
			log.clear()
			for range 5 {
				s.load()
			}

			cert, err := s.GetCertificate(nil)
			if err != nil || cert.Leaf.DNSNames[0] != "good.test" {
				t.Errorf("serving %v, %v; want the good certificate", cert, err)
			}
			if err := s.Check(nil); err != nil {
				t.Errorf("Check says %v although a good certificate is served", err)
			}
			if lines := log.about("certificate"); len(lines) != 1 {
				t.Errorf("five looks logged %d lines, want one:\n%s", len(lines), strings.Join(lines, "\n"))
			}

			_ = os.RemoveAll(filepath.Join(dir, certFile))
			other.write(t, dir)
			s.load()
			if cert, _ := s.GetCertificate(nil); cert.Leaf.DNSNames[0] != "other.test" {
				t.Errorf("serving %v after the files were put right", cert.Leaf.DNSNames)
			}
		})
	}
}

func TestEveryBadChangeIsLoggedOnce(t *testing.T) {
	dir := t.TempDir()
	newAuthority(t).pair(t, "good.test", time.Hour).write(t, dir)
	s, log := newLoggedServing(Options{Dir: dir})
	s.load()
	for change := range 3 {
		writeFile(t, filepath.Join(dir, certFile), fmt.Appendf(nil, "garbage %d", change))
		for range 4 {
			s.load()
		}
	}
	if lines := log.about("Can't load"); len(lines) != 3 {
		t.Errorf("three bad changes logged %d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

func TestTheMetricSaysForHowLongFilesAreBad(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	first, second := ca.pair(t, "first.test", time.Hour), ca.pair(t, "second.test", time.Hour)
	first.write(t, dir)
	s, _ := newLoggedServing(Options{Dir: dir})
	s.load()
	looks := func(when string, want ...float64) {
		t.Helper()
		for n, value := range want {
			s.load()
			if got := testutil.ToFloat64(refused); got != value {
				t.Errorf("%s, look %d: the metric is %v, want %v", when, n+1, got, value)
			}
		}
	}
	looks("with a pair", 0, 0)
	writeFile(t, filepath.Join(dir, certFile), second.certPEM)
	looks("with half of another", 0, 1, 1, 1)
	first.write(t, dir)
	looks("with the pair of before", 0, 0)
	removeFile(t, filepath.Join(dir, keyFile))
	looks("with no key", 0, 1, 1)
	second.write(t, dir)
	looks("with another pair", 0, 0)
}

func TestAMomentBetweenTwoRenamesIsNoError(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	ca.pair(t, "old.test", time.Hour).write(t, dir)
	s, log := newLoggedServing(Options{Dir: dir})
	s.load()
	next := ca.pair(t, "new.test", time.Hour)
	writeFile(t, filepath.Join(dir, certFile), next.certPEM)
	s.load()
	writeFile(t, filepath.Join(dir, keyFile), next.keyPEM)
	s.load()
	if lines := log.about("Can't load"); len(lines) != 0 {
		t.Errorf("logged %q", lines)
	}
	if cert, _ := s.GetCertificate(nil); cert.Leaf.DNSNames[0] != "new.test" {
		t.Errorf("serving %v", cert.Leaf.DNSNames)
	}
}

func TestWaitingForTheFirstCertificateIsQuiet(t *testing.T) {
	s, log := newLoggedServing(Options{Dir: filepath.Join(t.TempDir(), "missing")})
	for range 10 {
		s.load()
	}
	if lines := log.about(""); len(lines) != 1 || !strings.Contains(lines[0], "Waiting for the serving certificate") {
		t.Errorf("ten looks logged %q, want one line", lines)
	}
}

func TestCheckSaysWhenACertificateIsOutOfDate(t *testing.T) {
	dir := t.TempDir()
	pair := newAuthority(t).pair(t, "dated.test", time.Hour)
	pair.write(t, dir)
	s, log := newLoggedServing(Options{Dir: dir})
	s.load()
	for name, test := range map[string]struct {
		now  time.Time
		want string
	}{
		"expired": {pair.notAfter.Add(time.Second), "expired at " + pair.notAfter.UTC().Format(time.RFC3339)},
		"early":   {pair.notBefore.Add(-time.Second), "not valid before " + pair.notBefore.UTC().Format(time.RFC3339)},
		"in time": {pair.notAfter.Add(-time.Second), ""},
	} {
		t.Run(name, func(t *testing.T) {
			log.clear()
			s.now = func() time.Time { return test.now }
			for range 3 {
				err := s.Check(nil)
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("Check says %v, want %q", err, test.want)
				}
			}
			if lines := log.about("eady to serve"); len(lines) != 1 {
				t.Errorf("three checks logged %q, want one line for the change", lines)
			}
		})
	}
}

func TestOptionsAreValidated(t *testing.T) {
	good := Options{
		Dir: "/certs", SelfManaged: true, Namespace: "ns", SecretName: "cert", WebhookConfiguration: "hooks",
		DNSNames: []string{"hooks.ns.svc", "localhost"},
	}
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"complete":              {func(*Options) {}, ""},
		"mounted needs no more": {func(o *Options) { *o = Options{Dir: "/certs"} }, ""},
		"no directory":          {func(o *Options) { o.Dir = "" }, "no directory"},
		"no Secret":             {func(o *Options) { o.SecretName = "" }, "no Secret given"},
		"no names":              {func(o *Options) { o.DNSNames = nil }, "no DNS name given"},
		"an IP address":         {func(o *Options) { o.DNSNames = []string{"127.0.0.1"} }, `"127.0.0.1" is an IP address`},
		"a bad name":            {func(o *Options) { o.DNSNames[1] = "no_name" }, `"no_name" is no DNS name`},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			o.DNSNames = append([]string(nil), good.DNSNames...)
			test.change(&o)
			_, err := New(o)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("New says %v, want %q", err, test.want)
			}
		})
	}
}

// serve starts a TLS listener and the watch of dir, and returns the listener's address.
func serve(t *testing.T, dir string) (*Serving, string) {
	t.Helper()
	s, _ := newLoggedServing(Options{Dir: dir})
	s.look = 10 * time.Millisecond
	s.load()
	go func() { _ = s.watch(t.Context()) }()

	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: s.GetCertificate, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func(conn net.Conn) {
				_ = conn.(*tls.Conn).Handshake()
				_ = conn.Close()
			}(conn)
		}
	}()
	return s, listener.Addr().String()
}

// handshake says whether a client that trusts ca and asks for name is content.
func handshake(address string, ca *authority, name string) error {
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: ca.pool(), ServerName: name, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	return conn.Close()
}

// expectServed waits until a client that trusts ca and asks for name is content.
func expectServed(t *testing.T, address string, ca *authority, name string) {
	t.Helper()
	eventually(t, func() error { return handshake(address, ca, name) })
}
