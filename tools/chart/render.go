package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// render builds the base of a kustomize tree with components of it, by their directories.
func render(config string, components []string) (resmap.ResMap, error) {
	dir, err := os.MkdirTemp("", "portcullis-chart-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // as kustomize looks at it
		return nil, err
	}
	if config, err = filepath.Abs(config); err != nil {
		return nil, err
	}
	if config, err = filepath.Rel(dir, config); err != nil { // kustomize knows relative paths only
		return nil, err
	}
	k := types.Kustomization{TypeMeta: types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind}}
	k.Resources = []string{filepath.Join(config, "base")}
	for _, c := range components {
		k.Components = append(k.Components, filepath.Join(config, c))
	}
	text, err := yaml.Marshal(k)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), text, 0o600); err != nil {
		return nil, err
	}
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize with %v: %w", components, err)
	}
	return objects, nil
}
