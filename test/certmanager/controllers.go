// Package certmanager runs cert-manager's own controllers against a control plane, so that tests see real certificates.
// It is a module of its own: the product needs cert-manager's types, and nothing of its controllers.
package certmanager

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	// Each of them registers its controllers.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"

	"github.com/cert-manager/cert-manager/pkg/controller"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// Namespace is where the Secrets of ClusterIssuers are.
const Namespace = "cert-manager"

// workers is how many objects each controller works on at a time.
const workers = 2

// Install applies cert-manager's CustomResourceDefinitions.
func Install(ctx context.Context, cp *controlplane.ControlPlane) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		return fmt.Errorf("finding the module of cert-manager: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "deploy", "crds", "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		objects, err := controlplane.ReadFile(file)
		if err != nil {
			return err
		}
		if err := controlplane.Apply(ctx, cp.Config(), "cert-manager", objects...); err != nil {
			return err
		}
	}
	return nil
}

// Run runs every controller until ctx is done, as the user of a kubeconfig file, or without one as the ServiceAccount of
// the pod that this is. It returns when all have ended.
func Run(ctx context.Context, kubeconfig string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:    kubeconfig,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: Namespace},
	})
	if err != nil {
		return fmt.Errorf("cert-manager: %w", err)
	}
	shared, err := factory.Build()
	if err != nil {
		return fmt.Errorf("cert-manager: %w", err)
	}
	controllers := map[string]controller.Interface{}
	for name, construct := range controller.Known() {
		if controllers[name], err = construct(factory); err != nil {
			return fmt.Errorf("cert-manager's %s: %w", name, err)
		}
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	var all sync.WaitGroup
	failed := make(chan error, len(controllers))
	for name, c := range controllers {
		all.Go(func() {
			if err := c.Run(workers, ctx); err != nil && ctx.Err() == nil {
				failed <- fmt.Errorf("cert-manager's %s: %w", name, err)
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}
