package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// module is that of Portcullis.
const module = "jeffthecoder.xyz/portcullis"

// makeLicenses packs the licenses of everything that is compiled in, on any platform, and of what else is in the image. What has none that
// is known is an error.
func (r *release) makeLicenses(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "portcullis-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	goLicenses, err := compiled(ctx, dir, "github.com/google/go-licenses/v2")
	if err != nil {
		return err
	}
	goroot, err := output(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, p := range r.systems() {
		saved := filepath.Join(dir, p.os)
		args := []string{"save", "--save_path=" + saved, "--ignore=" + module, "./" + plugin}
		if p.os == r.images[0].os {
			args = append(args, "./"+controller)
		}
		// By GOROOT it knows what is of the standard library.
		if _, err := output(ctx, append(p.environment(), "GOROOT="+goroot), goLicenses, args...); err != nil {
			return err
		}
		if err := collect(files, saved); err != nil {
			return err
		}
	}
	if err := addOthers(ctx, goroot, files); err != nil {
		return err
	}
	if err := r.licensed(files); err != nil {
		return err
	}
	var entries []entry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entries = append(entries, entry{"licenses/" + name, 0o644, files[name]})
	}
	packed, err := r.tarball(entries)
	if err != nil {
		return err
	}
	return r.write("licenses-"+r.version+".tar.gz", string(packed))
}

// systems has a platform of each operating system: what is compiled in differs by these.
func (r *release) systems() (one []platform) {
	for _, p := range slices.Concat(r.images, r.plugins) {
		if !slices.ContainsFunc(one, func(other platform) bool { return other.os == p.os }) {
			one = append(one, p)
		}
	}
	return one
}

// collect adds the files below a directory, by their paths there.
func collect(files map[string][]byte, dir string) error {
	return filepath.WalkDir(dir, func(path string, file fs.DirEntry, err error) error {
		if err != nil || !file.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = os.ReadFile(path) //nolint:gosec // just made
		return err
	})
}

// addOthers adds the licenses of Portcullis itself, of Go, whose standard library is in each program, and of the certificates in the image.
func addOthers(ctx context.Context, goroot string, files map[string][]byte) error {
	const roots = "golang.org/x/crypto/x509roots/fallback"
	bundle, err := output(ctx, nil, "go", "-C", "tools", "list", "-m", "-f={{.Dir}}", roots)
	if err != nil {
		return err
	}
	for name, dir := range map[string]string{module: ".", "std": goroot, roots: strings.TrimSpace(bundle)} {
		if files[name+"/LICENSE"], err = os.ReadFile(filepath.Join(dir, "LICENSE")); err != nil {
			return err
		}
	}
	return nil
}

// licensed is an error where a bill has something without a license among the files.
func (r *release) licensed(files map[string][]byte) error {
	bills, err := filepath.Glob(r.file("*.cdx.json"))
	if err != nil {
		return err
	}
	if len(bills) == 0 {
		return errors.New("there is no bill to compare them with")
	}
	names := slices.Collect(maps.Keys(files))
	for _, path := range bills {
		text, err := os.ReadFile(path) //nolint:gosec // just made
		if err != nil {
			return err
		}
		var bill struct{ Components []struct{ Name string } }
		if err := json.Unmarshal(text, &bill); err != nil {
			return err
		}
		for _, c := range bill.Components {
			if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, c.Name+"/") }) {
				return fmt.Errorf("there is no license of %s, which is in %s", c.Name, filepath.Base(path))
			}
		}
	}
	return nil
}
