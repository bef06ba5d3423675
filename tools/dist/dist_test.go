package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReleaseIsReproducible makes a release twice, for this machine's platform alone and in clones at different places, and expects the
// same bytes, and in them what belongs there.
func TestReleaseIsReproducible(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	here, elsewhere := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "at", "another", "place")
	copyOf(t, root, here)
	copyOf(t, root, elsewhere)
	first, second := releaseOf(t, here), releaseOf(t, elsewhere)
	if a, b := text(t, first, "checksums.txt"), text(t, second, "checksums.txt"); a != b {
		t.Errorf("two releases differ:\n%s\n%s", a, b)
	}
	holdsAll(t, first)
	namesTheImage(t, first)
	billsAreComplete(t, first)
	krewInstalls(t, first)
}

// copyOf copies a clone as it is, with what is not committed.
func copyOf(t *testing.T, root, to string) {
	t.Helper()
	git := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	listed, err := git.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) { // removed since the last commit
			continue
		}
		file := filepath.Join(to, name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644)); err != nil { //nolint:gosec // a clone
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || os.Chmod(file, info.Mode()) != nil {
			t.Fatal("the mode of ", name, err)
		}
	}
	content, err := os.ReadFile(filepath.Join(root, ".git"))
	if err == nil { // a worktree: the file says where the rest is
		err = os.WriteFile(filepath.Join(to, ".git"), content, 0o600)
	} else {
		err = os.CopyFS(filepath.Join(to, ".git"), os.DirFS(filepath.Join(root, ".git")))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// releaseOf makes a release of a clone.
func releaseOf(t *testing.T, root string) (dir string) {
	t.Helper()
	t.Chdir(root)
	dir = filepath.Join(t.TempDir(), "dist")
	r := release{dir: dir, version: "v1.2.3", image: "registry.example.com/portcullis", url: "https://example.com/v1.2.3"}
	began := time.Now()
	if err := start(t.Context(), r, "linux/"+runtime.GOARCH, runtime.GOOS+"/"+runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	t.Logf("made in %v", time.Since(began).Round(time.Second))
	return dir
}

// holdsAll holds which files there are, each with its checksum.
func holdsAll(t *testing.T, dir string) {
	t.Helper()
	var names []string
	for line := range strings.Lines(text(t, dir, "checksums.txt")) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if want := fmt.Sprintf("%x", sha256.Sum256([]byte(text(t, dir, name)))); sum != want {
			t.Errorf("%s has the checksum %s, want %s", name, sum, want)
		}
		names = append(names, name)
	}
	here := runtime.GOOS + "-" + runtime.GOARCH
	want := []string{
		"crds.yaml", "install-standalone.yaml", "install.yaml", "krew-portcullis.yaml", "kubectl-portcullis-v1.2.3-" + here + ".cdx.json",
		"kubectl-portcullis-v1.2.3-" + here + ".tar.gz", "licenses-v1.2.3.tar.gz", "portcullis-1.2.3.tgz", "portcullis-v1.2.3-image.tar",
		"portcullis-v1.2.3-linux-" + runtime.GOARCH + ".cdx.json", "release-notes.md",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the release has %v, want %v", names, want)
	}
}

// namesTheImage holds that manifests and chart name the image in the archive.
func namesTheImage(t *testing.T, dir string) {
	t.Helper()
	digest := digestOf(t, dir)
	for _, name := range []string{"install.yaml", "install-standalone.yaml"} {
		if image := "image: registry.example.com/portcullis@" + digest; !strings.Contains(text(t, dir, name), image) {
			t.Errorf("%s does not have %s", name, image)
		}
	}
	if values := unpacked(t, dir, "portcullis-1.2.3.tgz")["portcullis/values.yaml"]; !bytes.Contains(values, []byte("digest: "+digest)) {
		t.Errorf("the chart does not have the digest %s:\n%s", digest, values)
	}
}

// billsAreComplete holds that each module that the programs say they have is in their bills, with its version, and that its license is
// there.
func billsAreComplete(t *testing.T, dir string) {
	t.Helper()
	licenses := slices.Collect(maps.Keys(unpacked(t, dir, "licenses-v1.2.3.tar.gz")))
	for name, program := range map[string][]byte{
		"portcullis-v1.2.3-linux-" + runtime.GOARCH:                        programIn(t, dir),
		"kubectl-portcullis-v1.2.3-" + runtime.GOOS + "-" + runtime.GOARCH: pluginIn(t, dir),
	} {
		info, err := buildinfo.Read(bytes.NewReader(program))
		if err != nil || len(info.Deps) < 10 {
			t.Fatalf("%s: %v, %v", name, info, err)
		}
		bill := componentsIn(t, dir, name+".cdx.json")
		for _, m := range info.Deps {
			if bill[m.Path] != m.Version {
				t.Errorf("%s has %s %q, want %s", name, m.Path, bill[m.Path], m.Version)
			}
			if !slices.ContainsFunc(licenses, func(file string) bool { return strings.HasPrefix(file, "licenses/"+m.Path+"/") }) {
				t.Errorf("there is no license of %s", m.Path)
			}
		}
		if len(bill) != len(info.Deps)+1 || bill["std"] != info.GoVersion {
			t.Errorf("%s has %d modules and std %s, want %d and %s", name, len(bill), bill["std"], len(info.Deps)+1, info.GoVersion)
		}
	}
	for _, name := range []string{"jeffthecoder.xyz/portcullis", "std", "golang.org/x/crypto/x509roots/fallback"} {
		if !slices.Contains(licenses, "licenses/"+name+"/LICENSE") {
			t.Errorf("there is no license of %s", name)
		}
	}
}

// krewInstalls has krew install the plugin from its archive, as those do who have only the files of a release, and runs it.
func krewInstalls(t *testing.T, dir string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		return
	}
	root := t.TempDir()
	if _, err := tool(t.Context(), []string{"KREW_ROOT=" + root}, "release", "krew", "install", "--manifest="+filepath.Join(dir, "krew-portcullis.yaml"),
		"--archive="+filepath.Join(dir, "kubectl-portcullis-v1.2.3-"+runtime.GOOS+"-"+runtime.GOARCH+".tar.gz")); err != nil {
		t.Fatal(err)
	}
	said, err := output(t.Context(), nil, filepath.Join(root, "bin", "kubectl-portcullis"), "--version")
	if err != nil || !strings.Contains(said, "v1.2.3") {
		t.Errorf("the plugin says %q, %v", said, err)
	}
	uri := "uri: https://example.com/v1.2.3/kubectl-portcullis-v1.2.3-" + runtime.GOOS + "-" + runtime.GOARCH + ".tar.gz\n"
	if manifest := text(t, dir, "krew-portcullis.yaml"); !strings.Contains(manifest, uri) {
		t.Errorf("%s is not in\n%s", uri, manifest)
	}
}

// programIn is the program in the image.
func programIn(t *testing.T, dir string) []byte {
	t.Helper()
	for name, blob := range filesIn(t, strings.NewReader(text(t, dir, "portcullis-v1.2.3-image.tar"))) {
		if !strings.HasPrefix(name, "blobs/") {
			continue
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(blob))
		if err != nil { // no layer
			continue
		}
		if program := filesIn(t, unzipped)["portcullis"]; program != nil {
			return program
		}
	}
	t.Fatal("there is no program in the image")
	return nil
}

// pluginIn is the program in the archive of the plugin.
func pluginIn(t *testing.T, dir string) []byte {
	t.Helper()
	return unpacked(t, dir, "kubectl-portcullis-v1.2.3-"+runtime.GOOS+"-"+runtime.GOARCH+".tar.gz")["kubectl-portcullis"]
}

func text(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// digestOf is the digest of the image in its archive.
func digestOf(t *testing.T, dir string) string {
	t.Helper()
	var index struct{ Manifests []struct{ Digest string } }
	if err := json.Unmarshal(filesIn(t, strings.NewReader(text(t, dir, "portcullis-v1.2.3-image.tar")))["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	return index.Manifests[0].Digest
}

func unpacked(t *testing.T, dir, name string) map[string][]byte {
	t.Helper()
	unzipped, err := gzip.NewReader(strings.NewReader(text(t, dir, name)))
	if err != nil {
		t.Fatal(err)
	}
	return filesIn(t, unzipped)
}

func filesIn(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	archive := tar.NewReader(from)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// componentsIn are the modules of a bill, with their versions.
func componentsIn(t *testing.T, dir, name string) map[string]string {
	t.Helper()
	var bill struct {
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal([]byte(text(t, dir, name)), &bill); err != nil {
		t.Fatal(err)
	}
	if bill.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("%s is of version %s", name, bill.Metadata.Component.Version)
	}
	versions := map[string]string{}
	for _, c := range bill.Components {
		versions[c.Name] = c.Version
	}
	return versions
}

// TestWithoutALicense holds that a release ends where something in a bill has no license.
func TestWithoutALicense(t *testing.T) {
	t.Parallel()
	r := &release{dir: t.TempDir()}
	files := map[string][]byte{"example.com/a/LICENSE": nil}
	if err := r.licensed(files); err == nil {
		t.Error("no bill is enough")
	}
	for bill, says := range map[string]string{
		`{"components": [{"name": "example.com/a"}]}`:                             "",
		`{"components": [{"name": "example.com/a"}, {"name": "example.com/ab"}]}`: "no license of example.com/ab, which is in x.cdx.json",
	} {
		if err := r.write("x.cdx.json", bill); err != nil {
			t.Fatal(err)
		}
		if err := r.licensed(files); says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// TestNotes holds that the notes have what the changelog says of the version, and else what it says of the next one.
func TestNotes(t *testing.T) {
	t.Parallel()
	const changelog = "# Changelog\n\n## Unreleased\n\n- Next.\n\n## v1.2.3-rc.1\n\n- Candidate.\n\n## 1.2.3 (2026-11-28)\n\n- This.\n\n## 1.2.2\n\n- Before.\n"
	for version, want := range map[string]string{"v1.2.3": "- This.", "v1.2.2": "- Before.", "v1.3.0": "- Next.", "v1.2.3-rc.1": "- Candidate."} {
		got := notes(version, changelog, "v1.1.0", "- A commit (0123)\n- Another (4567)")
		if !strings.HasPrefix(got, "# Portcullis "+version+"\n\n"+want+"\n\n<details>\n<summary>Commits since v1.1.0: 2</summary>\n\n- A commit") {
			t.Errorf("%s: %s", version, got)
		}
	}
}

// TestArchivesForWindows holds that a program for Windows is in a zip.
func TestArchivesForWindows(t *testing.T) {
	t.Parallel()
	r := &release{}
	name, packed, err := r.pack("plugin", "windows", []entry{{"plugin.exe", 0o755, []byte("program")}})
	if err != nil || name != "plugin.zip" {
		t.Fatal(name, err)
	}
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil || len(archive.File) != 1 || archive.File[0].Name != "plugin.exe" {
		t.Errorf("%v, %v", archive, err)
	}
}

// TestArguments holds what a release has to be told.
func TestArguments(t *testing.T) {
	t.Parallel()
	whole := release{version: "v1.2.3", image: "registry.example.com/portcullis", url: "https://example.com"}
	for says, change := range map[string]func(*release){
		"VERSION=1.2.3":               func(r *release) { r.version = "1.2.3" },
		"VERSION=v1.2":                func(r *release) { r.version = "v1.2" },
		"IMG= is no name":             func(r *release) { r.image = "" },
		"IMG=portcullis:v1 is no":     func(r *release) { r.image = "portcullis:v1" },
		"URL=example.com is no place": func(r *release) { r.url = "example.com" },
		"is no platform like linux/":  func(*release) {},
	} {
		r := whole
		change(&r)
		if err := start(t.Context(), r, "linux/amd64", "linux"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
}
