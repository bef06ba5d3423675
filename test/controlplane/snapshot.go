package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/discovery"
)

// SaveSnapshot writes all that etcd holds to file, by the tool with which clusters are backed up.
func (cp *ControlPlane) SaveSnapshot(ctx context.Context, file string) error {
	return cp.etcdTool(ctx, "etcdctl", "--endpoints=unix://"+cp.etcdSocket(), "snapshot", "save", file)
}

// RestoreSnapshot stops the API server and etcd, and starts them again on the same ports with what SaveSnapshot wrote to file. What
// was written since is gone. Nothing that watched the API server before should go on: it has seen what never was. As the manual of
// Kubernetes wants it, revisions go on from far above those that somebody may remember:
// https://kubernetes.io/docs/tasks/administer-cluster/configure-upgrade-etcd/#restoring-an-etcd-cluster
func (cp *ControlPlane) RestoreSnapshot(ctx context.Context, file string) error {
	restored := filepath.Join(cp.opts.Dir, "restored")
	err := cp.etcdTool(ctx, "etcdutl", "snapshot", "restore", file, "--data-dir="+restored, "--bump-revision=1000000000", "--mark-compacted")
	if err != nil {
		return err
	}
	if err := errors.Join(cp.apiServer.Stop(stopTimeout), cp.etcd.Stop(stopTimeout)); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(cp.etcdData()), os.Rename(restored, cp.etcdData())); err != nil {
		return err
	}
	if err := cp.startEtcd(ctx); err != nil {
		return err
	}
	return cp.startAPIServer(ctx)
}

// etcdTool runs a tool of the etcd that belongs to this Kubernetes. It is compiled when it was not yet; most of it is what etcd itself
// is made of.
func (cp *ControlPlane) etcdTool(ctx context.Context, args ...string) error {
	module, err := cp.pinnedBy()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"-C", module, "tool"}, args...)...)
	cmd.Env = buildEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// pinnedBy returns the directory of the module that pins the programs of this minor version of Kubernetes: see tools/assets.
func (cp *ControlPlane) pinnedBy() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	client, err := discovery.NewDiscoveryClientForConfig(cp.config)
	if err != nil {
		return "", err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return "", err
	}
	newest := filepath.Join(root, "tools", "kubernetes")
	older := filepath.Join(newest, version.Major+"."+version.Minor)
	switch _, err := os.Stat(older); {
	case errors.Is(err, fs.ErrNotExist):
		return newest, nil
	default:
		return older, err
	}
}
