package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// entry is a file of an archive.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// makePlugin compiles the plugin for each platform, packs it with the license, and writes its manifest for krew.
func (r *release) makePlugin(ctx context.Context) error {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "portcullis-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	manifest := &strings.Builder{}
	fmt.Fprintf(manifest, krewHead, r.version)
	for _, p := range r.plugins {
		name := "kubectl-portcullis"
		if p.os == "windows" {
			name += ".exe"
		}
		path := filepath.Join(dir, p.String(), name)
		flags := "-ldflags=-s -w -X main.version=" + r.version
		if _, err := output(ctx, p.environment(), "go", "build", flags, "-o", path, "./"+plugin); err != nil {
			return err
		}
		program, err := os.ReadFile(path) //nolint:gosec // just made
		if err != nil {
			return err
		}
		entries := []entry{{name, 0o755, program}, {"LICENSE", 0o644, license}}
		archive, packed, err := r.pack("kubectl-portcullis-"+r.version+"-"+p.String(), p.os, entries)
		if err != nil {
			return err
		}
		if err := r.write(archive, string(packed)); err != nil {
			return err
		}
		fmt.Fprintf(manifest, krewPlatform, r.url, archive, sha256.Sum256(packed), name, p.os, p.arch)
	}
	// krew's own judgment of it, which wants the file to be named like the plugin.
	checked := filepath.Join(dir, "portcullis.yaml")
	if err := os.WriteFile(checked, []byte(manifest.String()), 0o600); err != nil {
		return err
	}
	if _, err := tool(ctx, nil, "release", "validate-krew-manifest", "-manifest="+checked, "-skip-install"); err != nil {
		return err
	}
	return r.write("krew-portcullis.yaml", manifest.String())
}

// The manifest of krew (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/).
const (
	krewHead = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: portcullis
spec:
  version: %s
  homepage: https://jeffthecoder.xyz/portcullis
  shortDescription: See who has which door of a cluster
  description: |
    Says which conflicts of ports, hosts, paths and addresses a cluster has today, with Portcullis in it or without, who has which door,
    and what applying manifests would say.
  platforms:
`
	krewPlatform = `  - uri: %s/%s
    sha256: %x
    bin: %s
    selector: {matchLabels: {os: %s, arch: %s}}
`
)

// pack packs files as people of a system unpack them, and returns the name of the archive with it.
func (r *release) pack(name, system string, entries []entry) (string, []byte, error) {
	if system == "windows" {
		packed, err := r.zip(entries)
		return name + ".zip", packed, err
	}
	packed, err := r.tarball(entries)
	return name + ".tar.gz", packed, err
}

func (r *release) zip(entries []entry) ([]byte, error) {
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.created}
		header.SetMode(os.FileMode(e.mode)) //nolint:gosec // permissions
		file, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return packed.Bytes(), err
}

func (r *release) tarball(entries []entry) ([]byte, error) {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	archive := tar.NewWriter(compressed)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: r.created, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	err := compressed.Close()
	return packed.Bytes(), err
}
