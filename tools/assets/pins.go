package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kubernetesModule pins the sources of the default, seen from the directory of the tools module, where this program is
// run. The modules in directories of it pin other minor versions.
const kubernetesModule = "kubernetes"

// pins are the versions that the go.mod of a module asks for.
type pins struct {
	module           string // its directory
	kubernetes, etcd string
}

// choosePins returns what is pinned for the asked minor version of Kubernetes, "v1.35" or "1.35"; for "", the default.
func choosePins(ctx context.Context, asked string) (pins, error) {
	others, err := filepath.Glob(filepath.Join(kubernetesModule, "*", "go.mod"))
	if err != nil {
		return pins{}, err
	}
	slices.Sort(others)
	var known []string
	for _, file := range append([]string{filepath.Join(kubernetesModule, "go.mod")}, others...) {
		p, err := readPins(ctx, filepath.Dir(file))
		if err != nil {
			return pins{}, err
		}
		if asked == "" || strings.TrimPrefix(asked, "v") == minor(p.kubernetes) {
			return p, nil
		}
		known = append(known, "v"+minor(p.kubernetes))
	}
	return pins{}, fmt.Errorf("no Kubernetes %s is pinned; there are %s", asked, strings.Join(known, ", "))
}

// readPins reads the versions of a module without the network.
func readPins(ctx context.Context, module string) (pins, error) {
	out, err := exec.CommandContext(ctx, "go", "-C", module, "mod", "edit", "-json").Output()
	if err != nil {
		return pins{}, fmt.Errorf("read %s/go.mod: %w", module, withStderr(err))
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return pins{}, fmt.Errorf("read %s/go.mod: %w", module, err)
	}
	p := pins{module: module}
	for _, r := range mod.Require {
		switch r.Path {
		case "k8s.io/kubernetes":
			p.kubernetes = r.Version
		case "go.etcd.io/etcd/server/v3":
			p.etcd = r.Version
		}
	}
	if p.kubernetes == "" || p.etcd == "" {
		return pins{}, fmt.Errorf("%s/go.mod does not require both k8s.io/kubernetes and go.etcd.io/etcd/server/v3", module)
	}
	return p, nil
}

// checkVersion returns an error when the API server in dir is of another minor version than the pinned one.
func checkVersion(ctx context.Context, dir string, pins pins) error {
	said, err := output(ctx, time.Minute, filepath.Join(dir, "kube-apiserver"), "--version")
	if err != nil {
		return err
	}
	if got := minor(strings.TrimPrefix(said, "Kubernetes ")); got != minor(pins.kubernetes) {
		return fmt.Errorf("asked for Kubernetes v%s, but KUBEBUILDER_ASSETS=%s has %s: leave one of them out",
			minor(pins.kubernetes), dir, said)
	}
	return nil
}

// minor returns "1.35" of "v1.35.4".
func minor(version string) string {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	return strings.Join(parts[:min(2, len(parts))], ".")
}
