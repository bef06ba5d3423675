package certs

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestPublish(t *testing.T) {
	one := map[string][]byte{certFile: []byte("cert 1"), keyFile: []byte("key 1"), caFile: []byte("ca 1")}
	two := map[string][]byte{certFile: []byte("cert 2"), keyFile: []byte("key 2"), caFile: []byte("ca 2")}
	for name, test := range map[string]struct {
		before      func(t *testing.T, dir string)
		wantChanged bool
	}{
		"into a directory that is not there": {func(*testing.T, string) {}, true},
		"over what was published before":     {func(t *testing.T, dir string) { mustPublish(t, dir, one) }, true},
		"what is there already":              {func(t *testing.T, dir string) { mustPublish(t, dir, two) }, false},
		"over plain files": {func(t *testing.T, dir string) {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, certFile), []byte("somebody's"))
		}, true},
		"what plain files say already": {func(t *testing.T, dir string) {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, content := range two {
				writeFile(t, filepath.Join(dir, name), content)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "b")
			test.before(t, dir)
			changed, err := publish(dir, two)
			if err != nil || changed != test.wantChanged {
				t.Fatalf("publish returned %v, %v; want %v", changed, err, test.wantChanged)
			}
			if !published(dir, two) {
				t.Error("the files do not say what was published")
			}
			if left := versions(t, dir); len(left) > 1 {
				t.Errorf("earlier versions are left behind: %v", left)
			}
		})
	}
}

func TestPublishedKeysAreForTheOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	mustPublish(t, dir, map[string][]byte{keyFile: []byte("key")})
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, keyFile): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestPublishSaysWhyItCannot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, nil)
	if _, err := publish(file, map[string][]byte{certFile: nil}); err == nil {
		t.Error("a file was taken for a directory")
	}
}

func TestProcessesMayShareADirectory(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	pairs := []keyPair{ca.pair(t, "one.test", time.Hour), ca.pair(t, "two.test", time.Hour)}
	var writers sync.WaitGroup
	for _, pair := range pairs {
		writers.Go(func() {
			for range 500 {
				if _, err := publish(dir, pair.files()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	s, _ := newLoggedServing(Options{Dir: dir})
	s.load()
	if _, err := s.GetCertificate(nil); err != nil {
		t.Errorf("two writers left no valid pair: %v", err)
	}
	if left := versions(t, dir); len(left) != 1 {
		t.Errorf("two writers left the versions %v, want one", left)
	}
}

func mustPublish(t *testing.T, dir string, contents map[string][]byte) {
	t.Helper()
	if _, err := publish(dir, contents); err != nil {
		t.Fatal(err)
	}
}

func versions(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..version-") {
			found = append(found, entry.Name())
		}
	}
	return found
}
