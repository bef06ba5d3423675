// Command chart writes the Helm chart of Portcullis. Its templates are computed from the kustomize tree in config, which stays the one
// source: what a component adds there is conditional here. What only a chart has is in static. It is run in the root of the repository.
package main

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

//go:embed all:static
var static embed.FS

func main() {
	config := flag.String("config", "config", "root of the kustomize tree")
	dir := flag.String("dir", filepath.FromSlash("charts/portcullis"), "directory of the chart; what is in its templates goes")
	flag.Parse()
	if err := run(*config, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// run writes the chart of a kustomize tree to a directory.
func run(config, dir string) error {
	templates, err := templates(config)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for name, text := range templates {
		if err := write(filepath.Join(dir, "templates", name), text); err != nil {
			return err
		}
	}
	return fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("static", filepath.FromSlash(name))
		return cmp.Or(err, write(filepath.Join(dir, rel), text))
	})
}

func write(path string, text []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644)) //nolint:gosec // for everybody to read
}

// templates are the templates by the names of their files: one for what is always there, one for each feature's own objects, and one for
// the CRDs.
func templates(config string) (map[string][]byte, error) {
	base, err := render(config, nil)
	if err != nil {
		return nil, err
	}
	all, err := merge(config, base)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, o := range all {
		if o.kind() == "Namespace" { // Helm's own: --create-namespace
			continue
		}
		text, err := o.template()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.id, err)
		}
		name := path.Base(o.file()) + ".yaml"
		files[name] = bytes.Join([][]byte{files[name], []byte("---\n"), text}, nil)
	}
	return files, nil
}
