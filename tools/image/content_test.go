package main

import (
	"crypto/x509"
	"slices"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// TestAuthorities holds that the file has each unconditional authority, for x509 to read, and no other.
func TestAuthorities(t *testing.T) {
	want, constrained := x509.NewCertPool(), 0
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			constrained++
			continue
		}
		authority, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		want.AddCert(authority)
	}
	t.Logf("%d authorities have constraints", constrained)
	got := x509.NewCertPool()
	if !got.AppendCertsFromPEM(authorities()) || !got.Equal(want) {
		t.Error("the file does not hold the authorities of the bundle")
	}
}

func TestAbove(t *testing.T) {
	if got, want := above("etc/ssl/certs/ca.crt"), []string{"etc", "etc/ssl", "etc/ssl/certs"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := above("portcullis"); len(got) > 0 {
		t.Errorf("got %v above the root", got)
	}
}

func TestTheSameFilesMakeTheSameLayer(t *testing.T) {
	files := []file{{path: "etc/a", mode: 0o644, content: []byte("a")}, {path: "etc/b", mode: 0o600}}
	digest := func(files []file) string {
		layer, err := newLayer(files)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return digest.String()
	}
	first, again := digest(files), digest(files)
	files[1].mode = 0o644
	if other := digest(files); first != again || first == other {
		t.Errorf("got %s, then %s; with another mode %s", first, again, other)
	}
}
