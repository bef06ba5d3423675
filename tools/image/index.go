package main

import (
	"fmt"
	"maps"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// entrypoint and user are those of the Dockerfile; a test holds that.
	entrypoint = "/portcullis"
	// user is "nonroot" by number, which is what runAsNonRoot can check.
	user = "65532:65532"
	// searchPath is what container engines give to an image that says nothing.
	searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// labels are the annotations of the OCI image specification that say what an image is.
func (o origin) labels() map[string]string {
	labels := map[string]string{
		"title":       "Portcullis",
		"description": "Who may open which door of a Kubernetes cluster",
		"source":      "https://jeffthecoder.xyz/portcullis",
		"licenses":    "Apache-2.0",
		"version":     o.version,
		"created":     o.created.Format(time.RFC3339),
	}
	if o.revision != "" {
		labels["revision"] = o.revision
	}
	full := make(map[string]string, len(labels))
	for key, value := range labels {
		full["org.opencontainers.image."+key] = value
	}
	return full
}

// newIndex returns the image for all platforms; binaries has the program of each architecture. The same arguments give
// the same digest.
func newIndex(o origin, platforms []v1.Platform, binaries map[string][]byte) (v1.ImageIndex, error) {
	files, err := newLayer(base())
	if err != nil {
		return nil, fmt.Errorf("pack the certificates: %w", err)
	}
	index := mutate.Annotations(empty.Index, o.labels()).(v1.ImageIndex)
	for _, p := range platforms {
		program, err := newLayer([]file{{path: entrypoint[1:], mode: 0o755, content: binaries[p.Architecture]}})
		if err != nil {
			return nil, fmt.Errorf("pack the program: %w", err)
		}
		image, err := newImage(o, p, files, program)
		if err != nil {
			return nil, fmt.Errorf("assemble the image for %s: %w", p, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: untyped{image}, Descriptor: v1.Descriptor{Platform: &p}})
	}
	return index, nil
}

// untyped is an image of which an index says no artifact type: it says nothing of a plain image, and tools that are older than the field,
// as skopeo of 2022, write the index without it when they copy, under another digest than the manifests name.
type untyped struct{ v1.Image }

// ArtifactType is what an index says of the image beside its media type.
func (untyped) ArtifactType() (string, error) { return "", nil }

// newImage returns the image of one platform.
func newImage(o origin, platform v1.Platform, files, program v1.Layer) (v1.Image, error) {
	created := v1.Time{Time: o.created}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(image,
		mutate.Addendum{Layer: files, History: v1.History{Created: created, CreatedBy: "make image", Comment: "certificates and user"}},
		mutate.Addendum{Layer: program, History: v1.History{Created: created, CreatedBy: "make image", Comment: entrypoint}},
	)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, created
	config.Config = v1.Config{
		Entrypoint: []string{entrypoint},
		User:       user,
		WorkingDir: "/",
		Env:        []string{"PATH=" + searchPath},
		Labels:     maps.Clone(o.labels()),
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, o.labels()).(v1.Image), nil
}
