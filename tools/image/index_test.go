package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// sample is where the images of the tests come from.
var sample = origin{version: "v1.2.3", revision: "0123456789abcdef", created: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}

// newSample returns the sample's image for both platforms, and the programs in it.
func newSample(t *testing.T, o origin) (v1.ImageIndex, map[string][]byte) {
	t.Helper()
	programs := map[string][]byte{}
	for _, p := range both {
		programs[p.Architecture] = []byte("a program for " + p.String())
	}
	index, err := newIndex(o, both, programs)
	if err != nil {
		t.Fatal(err)
	}
	return index, programs
}

// checkIndex fails the test unless the image has what Portcullis' has, for both platforms.
func checkIndex(t *testing.T, index v1.ImageIndex, o origin, programs map[string][]byte) {
	t.Helper()
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	checkLabels(t, "the index", list.Annotations, o)
	var platforms []v1.Platform
	for _, m := range list.Manifests {
		platforms = append(platforms, *m.Platform)
		if m.ArtifactType != "" {
			t.Errorf("the index says artifact type %s", m.ArtifactType)
		}
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, *m.Platform, o, programs[m.Platform.Architecture])
	}
	if join(platforms) != join(both) {
		t.Errorf("the index is for %s", join(platforms))
	}
}

func checkImage(t *testing.T, image v1.Image, p v1.Platform, o origin, program []byte) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	checkLabels(t, p.String(), manifest.Annotations, o)
	checkLabels(t, p.String(), config.Config.Labels, o)
	if config.OS != p.OS || config.Architecture != p.Architecture || !config.Created.Equal(o.created) {
		t.Errorf("%s: the configuration is for %s/%s, from %s", p, config.OS, config.Architecture, config.Created)
	}
	c := config.Config
	got := fmt.Sprintf("%s %v %v %v %s", c.User, c.Entrypoint, c.Cmd, c.Env, c.WorkingDir)
	if want := "65532:65532 [/portcullis] [] [PATH=" + searchPath + "] /"; got != want {
		t.Errorf("%s: user, entrypoint, arguments, environment and directory are %s, want %s", p, got, want)
	}
	files, contents := content(t, image)
	want := []string{
		"etc/ 755", "etc/group 644", "etc/passwd 644", "etc/ssl/ 755", "etc/ssl/certs/ 755", "etc/ssl/certs/ca-certificates.crt 644",
		"portcullis 755",
	}
	if !slices.Equal(files, want) {
		t.Errorf("%s: the files are %q, want %q", p, files, want)
	}
	if !bytes.Equal(contents["portcullis"], program) {
		t.Errorf("%s: the program is another", p)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(contents["etc/ssl/certs/ca-certificates.crt"]) {
		t.Errorf("%s: there is no authority", p)
	}
	if !bytes.HasPrefix(contents["etc/passwd"], []byte("nonroot:x:65532:65532:")) || string(contents["etc/group"]) != "nonroot:x:65532:\n" {
		t.Errorf("%s: user and group are %q and %q", p, contents["etc/passwd"], contents["etc/group"])
	}
}

func checkLabels(t *testing.T, where string, labels map[string]string, o origin) {
	t.Helper()
	for key, want := range map[string]string{
		"title": "Portcullis", "version": o.version, "revision": o.revision, "licenses": "Apache-2.0",
		"source": "https://jeffthecoder.xyz/portcullis", "created": o.created.Format(time.RFC3339),
	} {
		if got := labels["org.opencontainers.image."+key]; got != want {
			t.Errorf("%s: %s is %q, want %q", where, key, got, want)
		}
	}
}

// content returns the names of an image's files with their modes, in order, and what is in them. All have to be root's.
func content(t *testing.T, image v1.Image) (files []string, contents map[string][]byte) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	contents = map[string][]byte{}
	for _, layer := range layers {
		packed, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for in := tar.NewReader(packed); ; {
			header, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 0 {
				t.Errorf("%s belongs to %d:%d and is from %s", header.Name, header.Uid, header.Gid, header.ModTime)
			}
			files = append(files, fmt.Sprintf("%s %o", header.Name, header.Mode))
			if contents[header.Name], err = io.ReadAll(in); err != nil {
				t.Fatal(err)
			}
		}
		if err := packed.Close(); err != nil {
			t.Error(err)
		}
	}
	return files, contents
}

func TestIndex(t *testing.T) {
	index, programs := newSample(t, sample)
	checkIndex(t, index, sample, programs)
}

// TestVersionsShareLayers holds that registries and nodes keep what does not change between versions.
func TestVersionsShareLayers(t *testing.T) {
	next := origin{version: "v1.2.4", revision: "fedcba9876543210", created: sample.created.Add(time.Hour)}
	layers := func(o origin) (digest string, layers []string) {
		index, _ := newSample(t, o)
		sum, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		list, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list.Manifests {
			image, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			manifest, err := image.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			for _, layer := range manifest.Layers {
				layers = append(layers, layer.Digest.String())
			}
		}
		return sum.String(), layers
	}
	older, olderLayers := layers(sample)
	newer, newerLayers := layers(next)
	if older == newer || !slices.Equal(olderLayers, newerLayers) || olderLayers[0] != olderLayers[2] {
		t.Errorf("layers of %s: %v\nlayers of %s: %v", older, olderLayers, newer, newerLayers)
	}
}

// TestSameCommitSameBytes compiles and packs twice, at different paths, and compares all.
func TestSameCommitSameBytes(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	var archives [2][]byte
	for i := range archives {
		o := asked(t, "example.com/portcullis:v1")
		if err := run(t.Context(), o, compileTo(t.TempDir()), io.Discard); err != nil {
			t.Fatal(err)
		}
		var err error
		if archives[i], err = os.ReadFile(o.archive); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the second archive is another")
	}
}

// TestTheDockerfileMakesTheSameImage holds what both ways to the image have in common.
func TestTheDockerfileMakesTheSameImage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	_, last, _ := strings.Cut(string(text), "\nFROM scratch\n")
	for _, line := range []string{
		"USER " + user,
		fmt.Sprintf("ENTRYPOINT [%q]", entrypoint),
		"COPY --from=build /portcullis " + entrypoint,
		"COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/",
		"COPY tools/image/etc/ /etc/",
	} {
		if !strings.Contains(last, line+"\n") {
			t.Errorf("the Dockerfile has no %q in its last stage", line)
		}
	}
}

// asked are the options of someone who wants an image of this name, for both platforms.
func asked(t *testing.T, image string, more ...string) options {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "bin", "portcullis-image.tar")
	o, err := parseOptions(append([]string{"--image=" + image, "--version=v1.2.3", "--archive=" + archive}, more...))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// noCompiler fails the test where it is asked.
func noCompiler(t *testing.T) compiler {
	return func(context.Context, string, v1.Platform) (string, error) {
		t.Error("it was compiled for nothing")
		return "", context.Canceled
	}
}
