// Command server is cert-manager for a test cluster, in one pod: its real controllers and its real cainjector, with the
// rights of the pod's ServiceAccount. deploy.yaml beside it runs it.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"jeffthecoder.xyz/portcullis/test/certmanager"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		ctrl.Log.Error(err, "cert-manager ended")
		os.Exit(1)
	}
}

// run runs both until it is told to stop, or one of them fails.
func run() error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- certmanager.Run(ctx, "") }()
	go func() { ended <- certmanager.Inject(ctx, config) }()
	first := <-ended
	stop()
	return errors.Join(first, <-ended)
}
