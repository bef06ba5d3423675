package pods

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// sweeper deletes all PodToIPs, once.
type sweeper struct {
	live   client.Reader
	writer client.Client
}

// sweepPage is how many PodToIPs are read at once at most, sweepWorkers how many are deleted at a time.
const (
	sweepPage    = 500
	sweepWorkers = 16
)

// run deletes all PodToIPs, and tries again until none is left or ctx is done.
func (s sweeper) run(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("pods")
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: .1, Steps: 6, Cap: retryLongest}
	for {
		deleted, err := s.sweep(ctx)
		if deleted > 0 {
			logger.Info("deleted PodToIPs, as --pod-to-ip=off", "count", deleted)
		}
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // nobody waits for it any more
		}
		logger.Error(err, "could not delete all PodToIPs, trying again")
		select {
		case <-ctx.Done():
		case <-time.After(backoff.Step()):
		}
	}
}

// sweep deletes all PodToIPs and returns how many there were.
func (s sweeper) sweep(ctx context.Context) (deleted int, err error) {
	for page, err := range kube.Pages[v1beta1.PodToIPList](ctx, s.live, sweepPage) {
		switch {
		case meta.IsNoMatchError(err):
			return deleted, nil // their kind is not installed
		case err != nil:
			return deleted, err
		}
		workers, workersCtx := errgroup.WithContext(ctx)
		workers.SetLimit(sweepWorkers)
		for i := range page.Items {
			workers.Go(func() error { return removePodToIP(workersCtx, s.writer, &page.Items[i]) })
		}
		if err := workers.Wait(); err != nil {
			return deleted, err
		}
		deleted += len(page.Items)
	}
	return deleted, nil
}
