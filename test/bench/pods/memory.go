package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"jeffthecoder.xyz/portcullis/internal/cluster"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// usage is what a manager takes, in bytes.
type usage struct {
	// resident is what the kernel counts, live what Go's garbage collector has found in use.
	resident, live float64
}

// measureOff measures the manager without Pods.
func (b *bench) measureOff(ctx context.Context) error {
	if err := b.start(ctx, "--pod-to-ip=off"); err != nil {
		return err
	}
	var err error
	b.baseline, err = b.usage(ctx)
	b.say("resident %.1f MB, live heap %.1f MB", b.baseline.resident/1e6, b.baseline.live/1e6)
	return err
}

// watchPods starts the manager that watches the Pods.
func (b *bench) watchPods(ctx context.Context) error { return b.start(ctx) }

// measureAgain measures a new manager that has nothing to write.
func (b *bench) measureAgain(ctx context.Context) error {
	start := time.Now()
	if err := b.start(ctx); err != nil {
		return err
	}
	if err := b.await(ctx, "portcullis_pod_to_ips", float64(b.labeled)); err != nil {
		return err
	}
	b.say("everything read within %s of the process's start", time.Since(start).Round(10*time.Millisecond))
	return b.compare(ctx)
}

// start starts a manager in the place of the one before, and waits until it has read all Pods.
func (b *bench) start(ctx context.Context, flags ...string) error {
	if b.manager != nil {
		if err := b.manager.Kill(); err != nil {
			return err
		}
	}
	var err error
	if b.manager, err = b.StartReplica(ctx, flags...); err != nil {
		return err
	}
	if len(flags) > 0 {
		return nil
	}
	return b.await(ctx, `portcullis_pod_events_total{event="found"}`, float64(b.settings.pods))
}

// compare says what the manager takes more than without Pods.
func (b *bench) compare(ctx context.Context) error {
	now, err := b.usage(ctx)
	if err != nil {
		return err
	}
	each := func(now, before float64) float64 { return (now - before) / float64(b.settings.pods) }
	b.say("resident %.1f MB, live heap %.1f MB; for each of %d Pods: resident %.0f B, live %.0f B", now.resident/1e6, now.live/1e6,
		b.settings.pods, each(now.resident, b.baseline.resident), each(now.live, b.baseline.live))
	return nil
}

// quiet is how long a manager is left alone before it is measured: Go collects garbage at least every two minutes.
const quiet = 130 * time.Second

// usage measures the manager when it has come to rest. Half of the heap size at which Go will collect next is what it
// has found in use.
func (b *bench) usage(ctx context.Context) (usage, error) {
	select {
	case <-time.After(quiet):
	case <-ctx.Done():
		return usage{}, ctx.Err()
	}
	resident, err := b.metric(ctx, "process_resident_memory_bytes")
	if err != nil {
		return usage{}, err
	}
	next, err := b.metric(ctx, "go_memstats_next_gc_bytes")
	return usage{resident: resident, live: next / 2}, err
}

// await waits until a metric of the manager has a value.
func (b *bench) await(ctx context.Context, name string, want float64) error {
	var last float64
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (done bool, err error) {
		last, err = b.metric(ctx, name)
		return last == want, err
	})
	if err != nil {
		return fmt.Errorf("%s is %v, want %v: %w", name, last, want, err)
	}
	return nil
}

// metric reads a metric of the manager; name has the labels, as in the text format.
func (b *bench) metric(ctx context.Context, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.manager.Metrics+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			var number float64
			_, err := fmt.Sscan(value, &number)
			return number, err
		}
	}
	return 0, fmt.Errorf("the manager has no metric %s", name)
}

// compareCaches fills a plain cache with all Pods, and the manager's own, in this process.
func (b *bench) compareCaches(ctx context.Context) error {
	slimOptions := cluster.CacheOptions()
	plainOptions := cluster.CacheOptions()
	for obj := range plainOptions.ByObject {
		if _, ok := obj.(*corev1.Pod); ok {
			delete(plainOptions.ByObject, obj)
		}
	}
	stripped := plainOptions
	stripped.DefaultTransform = cache.TransformStripManagedFields()
	var plain float64
	for _, c := range []struct {
		name    string
		options cache.Options
	}{{"plain", plainOptions}, {"without managed fields", stripped}, {"slim", slimOptions}} {
		each, err := b.fill(ctx, c.options)
		if err != nil {
			return err
		}
		if plain == 0 {
			plain = each
		}
		b.say("%-23s %6.0f B of live heap for each Pod, 1/%.1f", c.name, each, plain/each)
	}
	return nil
}

// fill fills a cache with all Pods, and returns what one of them takes.
func (b *bench) fill(ctx context.Context, options cache.Options) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options.Scheme = harness.Scheme()
	before := liveHeap()
	c, err := cache.New(b.Config(), options)
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		return 0, errors.New("the cache does not start")
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods); err != nil {
		return 0, err
	}
	if len(pods.Items) != b.settings.pods {
		return 0, fmt.Errorf("%d Pods are cached, want %d", len(pods.Items), b.settings.pods)
	}
	pods.Items = nil
	each := (liveHeap() - before) / float64(b.settings.pods)
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
