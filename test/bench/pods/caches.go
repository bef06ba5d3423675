package pods

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// CachedBytes is the memory that one Pod takes in the cache of the manager, and in a plain one. All Pods are read into
// both.
func (p *Population) CachedBytes(ctx context.Context, config *rest.Config) (slim, plain float64, err error) {
	options := kube.CacheOptions()
	if slim, err = p.fill(ctx, config, options); err != nil {
		return 0, 0, err
	}
	options.DefaultTransform = nil
	plain, err = p.fill(ctx, config, options)
	return slim, plain, err
}

// fill fills a cache with all Pods, and returns what one of them takes.
func (p *Population) fill(ctx context.Context, config *rest.Config, options cache.Options) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options.Scheme = harness.Scheme()
	before := liveHeap()
	c, err := cache.New(config, options)
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		return 0, errors.New("the cache does not start")
	}
	informer, err := c.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return 0, err
	}
	if n := len(informer.(toolscache.SharedIndexInformer).GetStore().ListKeys()); n != p.Size {
		return 0, fmt.Errorf("%d Pods are cached, want %d", n, p.Size)
	}
	each := (liveHeap() - before) / float64(p.Size)
	runtime.KeepAlive(c)
	cancel()
	return each, <-done
}

// liveHeap is what this process has in use.
func liveHeap() float64 {
	runtime.GC()
	debug.FreeOSMemory() // collects once more, and waits until what was found is swept
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}
