package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// bench is one run.
type bench struct {
	*harness.Harness
	settings
	out  io.Writer
	pods []types.NamespacedName
	// manager is the one that runs now, baseline what it took without Pods.
	manager  *harness.Replica
	baseline usage
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, "   "+format+"\n", args...) }

// isLabeled says whether the i-th Pod is in a labeled namespace.
func (b *bench) isLabeled(i int) bool { return i < b.labeled }

// labeledPrefix begins the names of the labeled namespaces.
const labeledPrefix = "labeled-team-"

// create creates all Pods. They have a node, and no IP yet.
func (b *bench) create(ctx context.Context) error {
	for i := 0; i < b.settings.pods; i += b.perNamespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace(i)}}
		if b.isLabeled(i) {
			ns.Labels = map[string]string{v1beta1.LabelPodToIP: v1beta1.PodToIPEnabled}
		}
		if err := b.Client.Create(ctx, ns); err != nil {
			return err
		}
	}
	b.pods = make([]types.NamespacedName, b.settings.pods)
	return b.each(ctx, func(ctx context.Context, i int) error {
		pod := typical(b.namespace(i), i)
		b.pods[i] = client.ObjectKeyFromObject(pod)
		return b.Client.Create(ctx, pod)
	})
}

func (b *bench) namespace(i int) string {
	if b.isLabeled(i) {
		return fmt.Sprintf("%s%03d", labeledPrefix, i/b.perNamespace)
	}
	return fmt.Sprintf("team-%03d", i/b.perNamespace)
}

// each does something for every Pod, several at a time.
func (b *bench) each(ctx context.Context, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.writers)
	for i := range b.settings.pods {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// assign gives every Pod its IP and makes it ready, and measures when its PodToIP is there.
func (b *bench) assign(ctx context.Context) error {
	w, err := client.NewWithWatch(b.Config(), client.Options{Scheme: harness.Scheme()})
	if err != nil {
		return err
	}
	events, err := w.Watch(ctx, &v1beta1.PodToIPList{})
	if err != nil {
		return err
	}
	defer events.Stop()
	times := &stopwatch{given: map[types.NamespacedName]time.Time{}, took: make(chan []time.Duration, 1)}
	go times.follow(events, b.labeled)
	err = b.each(ctx, func(ctx context.Context, i int) error {
		pod := &corev1.Pod{}
		if err := b.Client.Get(ctx, b.pods[i], pod); err != nil {
			return err
		}
		running(pod, i)
		if b.isLabeled(i) {
			times.begin(b.pods[i])
		}
		return b.Client.Status().Update(ctx, pod)
	})
	if err != nil {
		return err
	}
	select {
	case took := <-times.took:
		slices.Sort(took)
		at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(time.Millisecond) }
		b.say("from the request that sets a Pod's IP to the arrival of its PodToIP: p50 %s, p90 %s, p99 %s, worst %s (%d PodToIPs)",
			at(.5), at(.9), at(.99), at(1), len(took))
		return nil
	case <-time.After(5 * time.Minute):
		return fmt.Errorf("not all of %d PodToIPs came", b.labeled)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopwatch measures the time from a Pod's IP to its PodToIP.
type stopwatch struct {
	mu    sync.Mutex
	given map[types.NamespacedName]time.Time
	took  chan []time.Duration
}

func (s *stopwatch) begin(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given[key] = time.Now()
}

// follow takes the time of each new PodToIP, and hands them over when all are there.
func (s *stopwatch) follow(events watch.Interface, want int) {
	var took []time.Duration
	for e := range events.ResultChan() {
		p, ok := e.Object.(*v1beta1.PodToIP)
		if !ok || e.Type != watch.Added {
			continue
		}
		s.mu.Lock()
		took = append(took, time.Since(s.given[client.ObjectKeyFromObject(p)]))
		s.mu.Unlock()
		if len(took) == want {
			s.took <- took
			return
		}
	}
}

// end deletes all Pods: each is told to end first, as most are, and is gone then.
func (b *bench) end(ctx context.Context) error {
	err := b.each(ctx, func(ctx context.Context, i int) error {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = b.pods[i].Namespace, b.pods[i].Name
		if err := b.Client.Delete(ctx, pod); err != nil {
			return err
		}
		return b.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
	})
	if err != nil {
		return err
	}
	return b.await(ctx, `portcullis_pod_events_total{event="gone"}`, float64(b.settings.pods))
}

// countWrites tells what the API server has written for the manager.
func (b *bench) countWrites(context.Context) error {
	writes, err := b.Writes()
	if err != nil {
		return err
	}
	perPod, verbs, foreign := map[string]int{}, map[string]int{}, 0
	for _, w := range writes {
		if w.User != harness.User || w.Resource != "podtoips."+v1beta1.GroupName {
			continue
		}
		perPod[w.Namespace+"/"+w.Name]++
		verbs[fmt.Sprintf("%s %d", w.Verb, w.Code)]++
		if !strings.HasPrefix(w.Namespace, labeledPrefix) {
			foreign++
		}
	}
	most := 0
	for _, n := range perPod {
		most = max(most, n)
	}
	b.say("writes of PodToIPs: %v, for %d Pods, at most %d each; for Pods of unlabeled namespaces: %d", verbs, len(perPod), most, foreign)
	if most > 2 || foreign > 0 || len(perPod) != b.labeled {
		return fmt.Errorf("want at most 2 writes for each of %d Pods, and none for others", b.labeled)
	}
	return nil
}
