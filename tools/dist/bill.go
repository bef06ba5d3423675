package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
)

// controller and plugin are the main packages of a release.
const (
	controller = "cmd/portcullis"
	plugin     = "cmd/kubectl-portcullis"
)

// makeBills writes what each program is made of, on each platform, in the format of CycloneDX.
func (r *release) makeBills(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "portcullis-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cyclonedx, err := compiled(ctx, dir, "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod")
	if err != nil {
		return err
	}
	for program, on := range map[string][]platform{controller: r.images, plugin: r.plugins} {
		for _, p := range on {
			text, err := output(ctx, p.environment(), cyclonedx, "app", "-json", "-std", "-licenses", "-noserial", "-notimestamp",
				"-main="+program, ".")
			if err != nil {
				return err
			}
			text, err = r.bill(text)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", program, p, err)
			}
			if err := r.write(path.Base(program)+"-"+r.version+"-"+p.String()+".cdx.json", text); err != nil {
				return err
			}
		}
	}
	return nil
}

// bill is one with the version of the release, which git need not know yet, and without the checksums of the tool, which are others on each
// machine that compiles it.
func (r *release) bill(text string) (string, error) {
	var bill map[string]any
	if err := json.Unmarshal([]byte(text), &bill); err != nil {
		return "", err
	}
	var known struct {
		Metadata struct {
			Component struct{ Name, Version string }
		}
	}
	if err := json.Unmarshal([]byte(text), &known); err != nil {
		return "", err
	}
	metadata, _ := bill["metadata"].(map[string]any)
	tools, _ := metadata["tools"].([]any)
	for _, t := range tools {
		if t, is := t.(map[string]any); is {
			delete(t, "hashes")
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(bill); err != nil {
		return "", err
	}
	component := known.Metadata.Component
	if component.Version == "" {
		return "", fmt.Errorf("%s has no version", component.Name)
	}
	return strings.NewReplacer(
		component.Name+"@"+component.Version, component.Name+"@"+r.version, `"version": "`+component.Version+`"`, `"version": "`+r.version+`"`,
	).Replace(out.String()), nil
}
