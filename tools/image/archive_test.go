package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// unpack unpacks the archive at path and returns the directory.
func unpack(t *testing.T, path string) string {
	t.Helper()
	archive, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	dir := t.TempDir()
	for in := tar.NewReader(archive); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchiveIsAnOCILayout(t *testing.T) {
	o := asked(t, "registry.example.com/team/portcullis:v1")
	index, programs := newSample(t, sample)
	if err := writeArchive(o.archive, o.tag, false, index); err != nil {
		t.Fatal(err)
	}
	root, err := layout.ImageIndexFromPath(unpack(t, o.archive))
	if err != nil {
		t.Fatal(err)
	}
	list, err := root.IndexManifest()
	if err != nil || len(list.Manifests) != 1 {
		t.Fatalf("there are %d images: %v", len(list.Manifests), err)
	}
	names := list.Manifests[0].Annotations
	if full, tag := names["io.containerd.image.name"], names["org.opencontainers.image.ref.name"]; full != o.given || tag != "v1" {
		t.Errorf("the image is named %q and %q", full, tag)
	}
	found, err := root.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(found); err != nil {
		t.Error(err)
	}
	checkIndex(t, found, sample, programs)
}

// TestArchiveNamesTheImageByDigest holds that an archive can have both names of one image, without having it twice.
func TestArchiveNamesTheImageByDigest(t *testing.T) {
	o := asked(t, "portcullis:v1")
	index, _ := newSample(t, sample)
	if err := writeArchive(o.archive, o.tag, true, index); err != nil {
		t.Fatal(err)
	}
	root, err := layout.ImageIndexFromPath(unpack(t, o.archive))
	if err != nil {
		t.Fatal(err)
	}
	list, err := root.IndexManifest()
	if err != nil || len(list.Manifests) != 2 || list.Manifests[0].Digest != list.Manifests[1].Digest {
		t.Fatalf("%+v, %v", list, err)
	}
	want := "docker.io/library/portcullis@" + list.Manifests[0].Digest.String()
	if got := list.Manifests[1].Annotations["io.containerd.image.name"]; got != want {
		t.Errorf("the image is named %q, want %q", got, want)
	}
}

func TestArchiveIsADockerArchive(t *testing.T) {
	o := asked(t, "portcullis:v1")
	index, programs := newSample(t, sample)
	if err := writeArchive(o.archive, o.tag, false, index); err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(o.archive, &o.tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := "amd64" // the first, where this machine is neither
	if runtime.GOARCH == "arm64" {
		want = "arm64"
	}
	_, contents := content(t, image)
	if config.Architecture != want || !bytes.Equal(contents["portcullis"], programs[want]) {
		t.Errorf("it is for %s, with %q", config.Architecture, contents["portcullis"])
	}
}

func TestAFailedArchiveLeavesNothing(t *testing.T) {
	o := asked(t, "portcullis:v1")
	index, _ := newSample(t, sample)
	if err := os.MkdirAll(filepath.Join(o.archive, "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeArchive(o.archive, o.tag, false, index); err == nil {
		t.Error("writeArchive() wrote to a directory")
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(o.archive), "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
}

func TestCanonical(t *testing.T) {
	for given, want := range map[string]string{
		"portcullis":                         "docker.io/library/portcullis:latest",
		"team/portcullis:v1":                 "docker.io/team/portcullis:v1",
		"localhost/portcullis:e2e-1":         "localhost/portcullis:e2e-1",
		"registry.example.com:5000/a/b/c:v1": "registry.example.com:5000/a/b/c:v1",
	} {
		tag, err := name.NewTag(given)
		if err != nil {
			t.Fatal(err)
		}
		if got := canonical(tag); got != want {
			t.Errorf("canonical(%s) = %s, want %s", given, got, want)
		}
	}
}

func TestRunSaysWhatItWrote(t *testing.T) {
	o := asked(t, "registry.example.com/portcullis:v1")
	var out strings.Builder
	if err := run(t.Context(), o, standIn, &out); err != nil {
		t.Fatal(err)
	}
	if want := o.archive + " holds registry.example.com/portcullis:v1 for linux/amd64 and linux/arm64, sha256:"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("it says %q", out.String())
	}
}
