package certs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// dataLink is the symlink that all files of a certificate directory go through, as in the volumes that kubelet writes.
const dataLink = "..data"

// publish makes the files of dir say what contents says (file name to bytes), and reports whether that was a change. All
// of them change at once, by the rename of one symlink. Processes that share dir publish one after the other. kubelet's
// AtomicWriter does the former only, and is in k8s.io/kubernetes, which is not for import.
func publish(dir string, contents map[string][]byte) (bool, error) {
	if published(dir, contents) {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return false, fmt.Errorf("locking %s: %w", dir, err)
	}
	defer unlock()
	if published(dir, contents) {
		return false, nil
	}
	version, err := os.MkdirTemp(dir, "..version-")
	if err != nil {
		return false, err
	}
	if err := fill(dir, version, contents); err != nil {
		return false, fmt.Errorf("publishing the certificate: %w", err)
	}
	return true, nil
}

// lock waits until no other process publishes in dir, as each removes the version before its own, in which another may
// still be writing. The lock is the open directory's, so that it ends with its process, whatever becomes of that.
func lock(dir string) (unlock func(), err error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}

// published says whether dir has those contents already, without regard to who wrote them.
func published(dir string, contents map[string][]byte) bool {
	for name, want := range contents {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			return false
		}
	}
	return true
}

// fill writes the contents into the new directory version, and makes the files of dir lead there.
func fill(dir, version string, contents map[string][]byte) error {
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(version, name), content, 0o600); err != nil {
			_ = os.RemoveAll(version)
			return err
		}
	}
	previous, _ := os.Readlink(filepath.Join(dir, dataLink))
	if err := link(filepath.Base(version), dir, dataLink, version); err != nil {
		_ = os.RemoveAll(version)
		return err
	}
	for name := range contents {
		target := filepath.Join(dataLink, name)
		if now, err := os.Readlink(filepath.Join(dir, name)); err == nil && now == target {
			continue
		}
		if err := link(target, dir, name, version); err != nil {
			return err
		}
	}
	if previous != "" && filepath.IsLocal(previous) {
		return os.RemoveAll(filepath.Join(dir, previous))
	}
	return nil
}

// link makes dir/name a symlink to target, in place of whatever file is there; scratch is a directory of the caller's own
// on the same file system.
func link(target, dir, name, scratch string) error {
	temporary := filepath.Join(scratch, "..link")
	if err := os.Symlink(target, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, name))
}
