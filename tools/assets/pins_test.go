package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pinned returns the modules by the minor versions that they pin. Those beside the default have it for their name.
func pinned(t *testing.T) map[string]string {
	t.Helper()
	usual, err := choosePins(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	others, err := filepath.Glob(filepath.Join(kubernetesModule, "*", "go.mod"))
	if err != nil || len(others) == 0 {
		t.Fatalf("no version beside the default is pinned (%v)", err)
	}
	modules := map[string]string{minor(usual.kubernetes): kubernetesModule}
	for _, file := range others {
		module := filepath.Dir(file)
		modules[filepath.Base(module)] = module
	}
	return modules
}

// TestThePinsAreChosenByTheMinorVersion asks for each version that there is, in both spellings.
func TestThePinsAreChosenByTheMinorVersion(t *testing.T) {
	inTools(t)
	modules := pinned(t)
	for version, module := range modules {
		for _, asked := range []string{version, "v" + version} {
			got, err := choosePins(t.Context(), asked)
			if err != nil || got.module != module || minor(got.kubernetes) != version {
				t.Errorf("for %s %+v was chosen, want what is in %s (%v)", asked, got, module, err)
			}
		}
	}
}

// TestWhatIsTestedOnIsSaid looks for the pinned versions where they are named for people, for Helm and for CI.
func TestWhatIsTestedOnIsSaid(t *testing.T) {
	inTools(t)
	oldest, newest := "", ""
	for version, module := range pinned(t) {
		if module == kubernetesModule {
			newest = version
		} else {
			oldest = version
		}
	}
	for file, want := range map[string][]string{
		"README.md":                     {"Kubernetes " + oldest + ",", "on " + newest + ", the newest"},
		"docs/operations.md":            {"Kubernetes " + oldest + ",", "on " + newest + ", the newest"},
		"CHANGELOG.md":                  {"Kubernetes " + oldest},
		"CONTRIBUTING.md":               {"KUBERNETES=v" + oldest},
		"Makefile":                      {"KUBERNETES=v" + oldest, "tools/kubernetes/" + oldest + "/go.mod"},
		".github/workflows/ci.yaml":     {"v" + oldest},
		"tools/chart/static/Chart.yaml": {">=" + oldest + ".0-0"},
	} {
		text, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s does not say %q; what is pinned is Kubernetes %s and %s", file, part, oldest, newest)
			}
		}
	}
}

func TestAVersionWithoutPinsIsRefused(t *testing.T) {
	inTools(t)
	usual, err := choosePins(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []string{"v1.2", "v" + minor(usual.kubernetes) + "0", usual.kubernetes, "newest", "v"} {
		_, err := choosePins(t.Context(), asked)
		if err == nil || !strings.Contains(err.Error(), "v"+minor(usual.kubernetes)) {
			t.Errorf("asked for %q: %v; want an error that names the versions there are", asked, err)
		}
	}
}

// giveServer makes a directory with all programs, of which the API server says that it is of the version.
func giveServer(t *testing.T, version string) string {
	t.Helper()
	dir := fillWith(t, programs()...)
	script := "#!/bin/sh\necho Kubernetes " + version + "\n"
	if err := os.WriteFile(filepath.Join(dir, "kube-apiserver"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return dir
}

// TestAGivenDirectoryHasTheAskedVersion gives another patch release, which is taken, and another minor version, which is
// not.
func TestAGivenDirectoryHasTheAskedVersion(t *testing.T) {
	inTools(t)
	usual, err := choosePins(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	asked := "v" + minor(usual.kubernetes)
	dir := giveServer(t, asked+".99-other")
	if got, err := find(t.Context(), asked); err != nil || got != dir {
		t.Errorf("find(%q) = %q, %v; want %q", asked, got, err, dir)
	}
	dir = giveServer(t, "v1.2.3")
	if got, err := find(t.Context(), asked); err == nil || !strings.Contains(err.Error(), "v1.2.3") {
		t.Errorf("find(%q) = %q, %v; want an error that names the version in %s", asked, got, err, dir)
	}
}

// TestFindTakesTheCacheOfTheAskedVersion fills the caches of all versions.
func TestFindTakesTheCacheOfTheAskedVersion(t *testing.T) {
	inTools(t)
	t.Setenv("KUBEBUILDER_ASSETS", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for asked := range pinned(t) {
		want := moveToCache(t, asked, fillWith(t, programs()...))
		if got, err := find(t.Context(), asked); err != nil || got != want {
			t.Errorf("find(%q) = %q, %v; want %q", asked, got, err, want)
		}
	}
}
