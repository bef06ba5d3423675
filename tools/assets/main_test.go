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
	got, err := find(t.Context(), "")
	if err != nil || got != dir {
		t.Errorf("find() = %q, %v; want %q", got, err, dir)
	}
}

func TestFindPassesOverAnIncompleteDirectory(t *testing.T) {
	inTools(t)
	t.Setenv("KUBEBUILDER_ASSETS", fillWith(t, "etcd"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	want := moveToCache(t, "", fillWith(t, programs()...))
	got, err := find(t.Context(), "")
	if err != nil || got != want {
		t.Errorf("find() = %q, %v; want the cache %q", got, err, want)
	}
}

// TestFindCompletesTheGivenDirectory gives the programs that setup-envtest gives, and takes the one that is missing from
// the cache.
func TestFindCompletesTheGivenDirectory(t *testing.T) {
	inTools(t)
	given := fillWith(t, archived()...)
	t.Setenv("KUBEBUILDER_ASSETS", given)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	cache := moveToCache(t, "", fillWith(t, controllerManager))
	for range 2 { // the second time it is all there
		dir, err := find(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range programs() {
			want := filepath.Join(given, name)
			if name == controllerManager {
				want = filepath.Join(cache, name)
			}
			if got, err := os.Readlink(filepath.Join(dir, name)); err != nil || got != want {
				t.Errorf("%s is %q, %v; want %q", name, got, err, want)
			}
		}
	}
	if got := lacking(given, []string{controllerManager}); len(got) == 0 {
		t.Error("something was written to the given directory")
	}
	if got := lacking(cache, archived()); len(got) != len(archived()) {
		t.Error("what was given was fetched again")
	}
}

// TestFindKeepsTheDirectoriesApart gives one directory and then another.
func TestFindKeepsTheDirectoriesApart(t *testing.T) {
	inTools(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	moveToCache(t, "", fillWith(t, controllerManager))
	for range 2 {
		given := fillWith(t, archived()...)
		t.Setenv("KUBEBUILDER_ASSETS", given)
		dir, err := find(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(filepath.Join(dir, "etcd")); err != nil || got != filepath.Join(given, "etcd") {
			t.Errorf("with %s given, etcd is %s, %v", given, got, err)
		}
	}
}

// moveToCache makes dir the cache of the asked version, and returns its new name.
func moveToCache(t *testing.T, asked, dir string) string {
	t.Helper()
	pins, err := choosePins(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := cacheDir(pins)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(cache), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, cache); err != nil {
		t.Fatal(err)
	}
	return cache
}

func TestLackingWantsExecutables(t *testing.T) {
	dir := fillWith(t, "etcd", "kubectl")
	if err := os.Chmod(filepath.Join(dir, "kubectl"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(lacking(dir, programs()), " ")
	if want := "kube-apiserver kubectl kube-controller-manager"; got != want {
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
