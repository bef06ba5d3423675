package controlplane

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// beginWith copies what another control plane has left to where this one keeps its data.
func (cp *ControlPlane) beginWith(dir string) error {
	from := os.DirFS(filepath.Join(dir, etcdDir))
	return fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(cp.etcdData(), filepath.FromSlash(name))
		if entry.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		file, err := from.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(copySparsely(to, file), file.Close())
	})
}

// hole is how many bytes may be left out of a file at once.
const hole = 64 << 10

// copySparsely writes a file, and leaves out what is zero: etcd takes 64 MiB for what it is about to write down.
func copySparsely(name string, content io.Reader) (err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	block, zero := make([]byte, hole), make([]byte, hole)
	size := int64(0)
	for {
		n, err := io.ReadFull(content, block)
		if !bytes.Equal(block[:n], zero[:n]) {
			if _, err := file.WriteAt(block[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return file.Truncate(size)
		case err != nil:
			return err
		}
	}
}
