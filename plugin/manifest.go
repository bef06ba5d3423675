package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
)

// manifest is an object that is given in a file.
type manifest struct {
	*unstructured.Unstructured
	// file is its path, - for standard input, and the directory of a kustomization.
	file string
	// at finds its lines, nil where it has none.
	at *position
}

// lineOf is the line of a field, or of what is nearest above it; 0 where there are none.
func (m *manifest) lineOf(field string) int {
	if m.at == nil {
		return 0
	}
	return m.at.lineOf(field)
}

// standardInput is its name among files.
const standardInput = "-"

// readManifests reads what files hold, in the order in which kubectl apply does. What can't be read is in the error; what can is returned
// beside it, unless a file is not there.
func (t *tool) readManifests(files resource.FilenameOptions) ([]*manifest, error) {
	if err := files.RequireFilenameOrKustomize(); err != nil {
		return nil, err
	}
	b := resource.NewBuilder(t.config).Local().Unstructured().ContinueOnError()
	texts := map[string][]byte{}
	for _, name := range files.Filenames {
		if name != standardInput && !isPipe(name) {
			b.FilenameParam(false, &resource.FilenameOptions{Filenames: []string{name}, Recursive: files.Recursive})
			continue
		}
		text, err := t.readOnce(name)
		if err != nil {
			return nil, err
		}
		texts[name] = text
		b.Stream(bytes.NewReader(text), name)
	}
	if files.Kustomize != "" {
		if len(files.Filenames) > 0 {
			return nil, errors.New("only one of --filename and --kustomize can be given")
		}
		b.FilenameParam(false, &resource.FilenameOptions{Kustomize: files.Kustomize})
		texts[files.Kustomize] = nil
	}
	var all []*manifest
	positions := map[string]*positions{}
	err := b.Do().Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		u, is := info.Object.(runtime.Unstructured)
		if !is {
			return fmt.Errorf("%s: no object", info.Source)
		}
		if positions[info.Source] == nil {
			positions[info.Source] = newPositions(textOf(texts, info.Source))
		}
		found, err := flatten(u, info.Source, positions[info.Source].next())
		all = append(all, found...)
		return err
	})
	return all, err
}

// isPipe says whether a file is one that can be read once only.
func isPipe(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// readOnce reads the standard input, or what is like it.
func (t *tool) readOnce(name string) ([]byte, error) {
	if name == standardInput {
		return io.ReadAll(t.In)
	}
	return os.ReadFile(name) //nolint:gosec // it was named
}

// textOf is the text of a file, nil where it can't be read a second time.
func textOf(texts map[string][]byte, file string) []byte {
	if text, known := texts[file]; known {
		return text
	}
	text, err := os.ReadFile(file) //nolint:gosec // it was named
	if err != nil {
		return nil
	}
	return text
}

// flatten is an object, or what a list has.
func flatten(u runtime.Unstructured, file string, at *position) (all []*manifest, err error) {
	one, is := u.(*unstructured.Unstructured)
	if is && !one.IsList() {
		return []*manifest{{one, file, at}}, nil
	}
	i := 0
	err = u.EachListItem(func(item runtime.Object) error {
		of, is := item.(runtime.Unstructured)
		if !is {
			return fmt.Errorf("%s: no object in a list", file)
		}
		found, err := flatten(of, file, at.item(i))
		all = append(all, found...)
		i++
		return err
	})
	return all, err
}
