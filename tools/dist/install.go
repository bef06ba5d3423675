package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var aDigest = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// makeImage makes the image, and returns its digest.
func (r *release) makeImage(ctx context.Context) (digest string, err error) {
	builder := filepath.Join("bin", "image")
	if _, err := output(ctx, nil, "go", "build", "-C", "tools", "-o", filepath.Join("..", builder), "./image"); err != nil {
		return "", err
	}
	var list []string
	for _, p := range r.images {
		list = append(list, p.os+"/"+p.arch)
	}
	said, err := output(ctx, nil, "."+string(filepath.Separator)+builder, "--image="+r.image+":"+r.version, "--version="+r.version,
		"--platforms="+strings.Join(list, ","), "--by-digest", "--archive="+r.file("portcullis-"+r.version+"-image.tar"))
	if err != nil {
		return "", err
	}
	if digest = aDigest.FindString(said); digest == "" {
		return "", fmt.Errorf("no digest is in %q", said)
	}
	return digest, nil
}

// makeManifests renders what kubectl apply installs, and the CRDs alone.
func (r *release) makeManifests(ctx context.Context, digest string) error {
	for name, resource := range map[string]string{
		"install.yaml": "config/overlays/default", "install-standalone.yaml": "config/overlays/standalone", "crds.yaml": "config/crd",
	} {
		text, err := r.render(ctx, resource, digest)
		if err != nil {
			return err
		}
		if err := r.write(name, text+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// render builds a kustomization with the image by its digest.
func (r *release) render(ctx context.Context, resource, digest string) (_ string, err error) {
	dir, err := os.MkdirTemp(".", ".dist-") // kustomize knows relative paths only
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	text := fmt.Sprintf("resources: [../%s]\nimages: [{name: portcullis, newName: %q, digest: %q}]\n", resource, r.image, digest)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		return "", err
	}
	return tool(ctx, nil, ".", "kustomize", "build", dir)
}

// makeChart packs the chart with the image by its digest.
func (r *release) makeChart(ctx context.Context, digest string) error {
	dir, err := os.MkdirTemp("", "portcullis-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	chart := filepath.Join(dir, "portcullis")
	if err := os.CopyFS(chart, os.DirFS(filepath.Join("charts", "portcullis"))); err != nil {
		return err
	}
	values := filepath.Join(chart, "values.yaml")
	text, err := os.ReadFile(values) //nolint:gosec // a copy of our own
	if err != nil {
		return err
	}
	changed := strings.NewReplacer(
		"repository: portcullis\n", "repository: "+r.image+"\n", "tag: latest\n", "tag: "+r.version+"\n", `digest: ""`, "digest: "+digest,
	).Replace(string(text))
	for _, set := range []string{"repository: " + r.image, "tag: " + r.version, "digest: " + digest} {
		if !strings.Contains(changed, set) {
			return fmt.Errorf("the values have no place for %s", set)
		}
	}
	if err := os.WriteFile(values, []byte(changed), 0o600); err != nil {
		return err
	}
	epoch := fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.created.Unix())
	_, err = tool(ctx, []string{epoch}, "helm", "helm", "package", chart, "--destination="+r.dir,
		"--version="+strings.TrimPrefix(r.version, "v"), "--app-version="+r.version)
	return err
}
