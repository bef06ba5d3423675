package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Assets returns the directory of etcd, kube-apiserver, kubectl and kube-controller-manager. Unless KUBEBUILDER_ASSETS
// names it, the program in tools/assets looks for it, and compiles what it does not find; that takes minutes the first
// time, with progress on standard error.
func Assets(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(root, "tools"), "./assets")
	cmd.Env = buildEnv()
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find or build the programs of a control plane (tools/assets): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// buildEnv is one setting for all clones, as the Makefile has it, so that the build cache is shared.
func buildEnv() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-trimpath -buildvcs=false")
}

// Root returns the root directory of the repository that the working directory is in.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "tools", "assets")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New(start + " is not inside the repository: no tools/assets above it")
		}
	}
}
