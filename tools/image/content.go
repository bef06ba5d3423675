package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/pem"
	"io"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

var (
	// passwd and group name the one user, "nonroot". The Dockerfile copies them, too.
	//go:embed etc/passwd
	passwd []byte
	//go:embed etc/group
	group []byte
)

// file is a file of the image. Its owner is root, so that the program can't change what it is.
type file struct {
	path    string // without the leading slash
	mode    int64
	content []byte
}

// base are the files beside the program.
func base() []file {
	return []file{
		{path: "etc/group", mode: 0o644, content: group},
		{path: "etc/passwd", mode: 0o644, content: passwd},
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: authorities()},
	}
}

// authorities returns Mozilla's certificate authorities, PEM encoded. One that is trusted only for certificates from
// before a day is left out, as PEM has no words for that.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// newLayer packs files and the directories above them. Every time is 1970, so that the same files make the same layer in
// every version, which registries and nodes then have already.
func newLayer(files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	out := tar.NewWriter(&packed)
	made := map[string]bool{}
	for _, f := range files {
		for _, dir := range above(f.path) {
			if made[dir] {
				continue
			}
			made[dir] = true
			header := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
			if err := out.WriteHeader(header); err != nil {
				return nil, err
			}
		}
		if err := addFile(out, f); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
}

// addFile writes a regular file of root's, from 1970.
func addFile(out *tar.Writer, f file) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content)),
		ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err := out.Write(f.content)
	return err
}

// above returns the directories above name, the outermost first.
func above(name string) []string {
	var dirs []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}
