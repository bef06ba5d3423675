package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fillWith makes a directory that has the named programs.
func fillWith(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// inTools runs the test where `go run -C tools ./assets` runs the program.
func inTools(t *testing.T) {
	t.Helper()
	t.Chdir("..")
}

func TestFindTakesTheGivenDirectory(t *testing.T) {
	dir := fillWith(t, programs()...)
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	got, err := find(t.Context())
	if err != nil || got != dir {
		t.Errorf("find() = %q, %v; want %q", got, err, dir)
	}
}

func TestFindPassesOverAnIncompleteDirectory(t *testing.T) {
	inTools(t)
	t.Setenv("KUBEBUILDER_ASSETS", fillWith(t, "etcd"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	pins, err := readPins(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, err := cacheDir(pins)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(want), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fillWith(t, programs()...), want); err != nil {
		t.Fatal(err)
	}
	got, err := find(t.Context())
	if err != nil || got != want {
		t.Errorf("find() = %q, %v; want the cache %q", got, err, want)
	}
}

func TestLackingWantsExecutables(t *testing.T) {
	dir := fillWith(t, "etcd", "kubectl")
	if err := os.Chmod(filepath.Join(dir, "kubectl"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(lacking(dir), " ")
	if want := "kube-apiserver kubectl"; got != want {
		t.Errorf("lacking() = %q, want %q", got, want)
	}
}

func TestCacheIsKeyedByVersion(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	older, err := cacheDir(pins{kubernetes: "v1.37.1", etcd: "v3.7.0"})
	if err != nil {
		t.Fatal(err)
	}
	for name, bumped := range map[string]pins{
		"kubernetes": {kubernetes: "v1.37.2", etcd: "v3.7.0"},
		"etcd":       {kubernetes: "v1.37.1", etcd: "v3.7.1"},
	} {
		newer, err := cacheDir(bumped)
		if err != nil {
			t.Fatal(err)
		}
		if newer == older {
			t.Errorf("a new version of %s keeps the directory %s", name, older)
		}
	}
}

func TestLockWaitsForTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := lock(short, path); err == nil {
		t.Fatal("a second holder got the lock")
	}
	unlock()
	again, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestRemoveLeftoversKeepsWhatIsFinished(t *testing.T) {
	dir := fillWith(t, "etcd", "kube-apiserver"+tmpExt)
	if err := removeLeftovers(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "etcd" {
		t.Errorf("left: %v, want etcd alone", entries)
	}
}
