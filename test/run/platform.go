package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

const (
	// owner is the field manager of everything that a run applies.
	owner = "make-run"
	// overlay is what a run applies: all of it but the workload, which is this machine's process.
	overlay = "config/overlays/standalone"
	samples = "config/samples"
	// samplesTimeout bounds how long the samples may be refused while webhooks come up.
	samplesTimeout = 2 * time.Minute
)

// workload are the kinds of the overlay that make no sense without nodes.
var workload = []string{"Deployment", "PodDisruptionBudget", "Service", "NetworkPolicy"}

// applyPlatform applies what a cluster has before Portcullis starts: its CRDs, roles and webhooks, and the one CRD of the
// Gateway API that it reads.
func (s *session) applyPlatform(ctx context.Context) error {
	objects, err := controlplane.Render(ctx, overlay)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return slices.Contains(workload, o.GetKind())
	})
	if err := controlplane.PointWebhooks(objects, net.JoinHostPort("localhost", strconv.Itoa(s.webhookPort))); err != nil {
		return err
	}
	grants, err := referenceGrants(ctx)
	if err != nil {
		return err
	}
	return controlplane.Apply(ctx, s.cp.Config(), owner, append(grants, objects...)...)
}

// referenceGrants returns the CRD of ReferenceGrant, of the version of the Gateway API that Portcullis is built with.
func referenceGrants(ctx context.Context) ([]*unstructured.Unstructured, error) {
	const module = "sigs.k8s.io/gateway-api"
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	dir, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find the module %s: %w\n%s", module, err, stderr.String())
	}
	return controlplane.ReadFile(filepath.Join(strings.TrimSpace(string(dir)),
		"config", "crd", "standard", "gateway.networking.k8s.io_referencegrants.yaml"))
}

// applySamples applies the samples at the first run on this data; later, they are the user's to change and delete.
func (s *session) applySamples(ctx context.Context) error {
	marker := filepath.Join(s.dir, "samples-applied")
	if _, err := os.Stat(marker); err == nil {
		s.say("  not again: they are yours since the first run")
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	objects, err := controlplane.Render(ctx, samples)
	if err != nil {
		return err
	}
	if err := s.applyPatiently(ctx, objects); err != nil {
		return err
	}
	return os.WriteFile(marker, nil, 0o600)
}

// applyPatiently applies objects that pass through webhooks. The API server may need a moment to learn that these serve
// now, and with which certificate.
func (s *session) applyPatiently(ctx context.Context, objects []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, samplesTimeout)
	defer cancel()
	for {
		err := controlplane.Apply(ctx, s.cp.Config(), owner, objects...)
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(500 * time.Millisecond):
		}
	}
}
