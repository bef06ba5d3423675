package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// complete returns a directory with links to the programs in given, and to the controller manager in cache, where it is
// compiled when this is the first run. What the user chose is used like this, and left as it is.
func complete(ctx context.Context, given, cache string, pins pins) (string, error) {
	given, err := filepath.Abs(given)
	if err != nil {
		return "", err
	}
	if err := fill(ctx, cache, pins, []string{controllerManager}); err != nil {
		return "", err
	}
	hash := sha256.Sum256([]byte(given))
	dir := fmt.Sprintf("%s-beside-%x", cache, hash[:8]) // a directory of its own for every one that is given
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, filepath.Join(dir, lockName))
	if err != nil {
		return "", err
	}
	defer unlock()
	for _, name := range lacking(dir, programs()) {
		from := given
		if name == controllerManager {
			from = cache
		}
		link := filepath.Join(dir, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := os.Symlink(filepath.Join(from, name), link); err != nil {
			return "", err
		}
	}
	return dir, nil
}
