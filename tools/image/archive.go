package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeArchive writes the image as an OCI archive, from which containerd, Podman and newer Dockers take it under its tag.
// A manifest.json beside the OCI layout says to the Docker without containerd's image store, which knows one platform at
// a time, where this machine's is. The file appears only when it is complete.
//
// byDigest names the image by its digest, too. A node into which the archive is imported then runs what manifests name so, without a
// registry.
func writeArchive(path string, tag name.Tag, byDigest bool, index v1.ImageIndex) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "image-*.tmp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	blobs := filepath.Join(dir, "layout")
	store, err := layout.Write(blobs, empty.Index)
	if err != nil {
		return err
	}
	names := map[string]string{
		// containerd, and who has learned it from there, takes the full name from here ...
		"io.containerd.image.name": canonical(tag),
		// ... and the specification wants the tag alone here.
		"org.opencontainers.image.ref.name": tag.TagStr(),
	}
	if err := store.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	if byDigest {
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		names := map[string]string{"io.containerd.image.name": repository(tag) + "@" + digest.String()}
		if err := store.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
			return err
		}
	}
	manifest, err := dockerManifest(tag, index)
	if err != nil {
		return err
	}
	if err := store.WriteFile("manifest.json", manifest, 0o644); err != nil {
		return err
	}
	packed := filepath.Join(dir, "packed")
	if err := pack(packed, blobs); err != nil {
		return err
	}
	return os.Rename(packed, path)
}

// canonical returns the name that container engines know the tag by.
func canonical(tag name.Tag) string { return repository(tag) + ":" + tag.TagStr() }

// repository returns the name of the tag's repository. Container engines say "docker.io" where the library says "index.docker.io".
func repository(tag name.Tag) string {
	registry := tag.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io"
	}
	return registry + "/" + tag.RepositoryStr()
}

// dockerManifest returns the manifest.json for the platform of this machine, or for the first that the index has.
func dockerManifest(tag name.Tag, index v1.ImageIndex) ([]byte, error) {
	list, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	chosen := list.Manifests[0]
	for _, m := range list.Manifests {
		if m.Platform.Architecture == runtime.GOARCH {
			chosen = m
		}
	}
	image, err := index.Image(chosen.Digest)
	if err != nil {
		return nil, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	blob := func(d v1.Descriptor) string { return "blobs/" + d.Digest.Algorithm + "/" + d.Digest.Hex }
	entry := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{Config: blob(manifest.Config), RepoTags: []string{canonical(tag)}}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(layer))
	}
	return json.Marshal([]any{entry})
}

// pack writes the files below dir to the tar file at path, in the order of their names and all from 1970.
func pack(path, dir string) (err error) {
	archive, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	out := tar.NewWriter(archive)
	files := os.DirFS(dir)
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return addFile(out, file{path: name, mode: 0o644, content: content})
	})
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	return out.Close()
}
