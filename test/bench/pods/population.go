// Package pods makes many Pods, as objects of an API server without kubelets: what a kubelet would write, it writes.
package pods

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/bench/sample"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// Population is a number of Pods, the first of which are in namespaces that are labeled to have PodToIPs.
type Population struct {
	Client        client.WithWatch
	Size, Labeled int
	// Writers is how many requests are made at a time.
	Writers int
}

// perNamespace is how many Pods a namespace has.
const perNamespace = 100

func (p *Population) namespace(i int) string {
	if i < p.Labeled {
		return fmt.Sprintf("pods-labeled-%03d", i/perNamespace)
	}
	return fmt.Sprintf("pods-%03d", i/perNamespace)
}

// Create creates all Pods. They have a node, and no IP yet.
func (p *Population) Create(ctx context.Context) error {
	for i := 0; i < p.Size; i += perNamespace {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace(i)}}
		if i < p.Labeled {
			ns.Labels = map[string]string{v1beta1.LabelPodToIP: v1beta1.PodToIPEnabled}
		}
		if err := p.Client.Create(ctx, ns); err != nil {
			return err
		}
	}
	return new(sample.Sample).Measure(p.Writers, p.Size, func(_, i int) error {
		return p.Client.Create(ctx, typical(p.namespace(i), i))
	})
}

// Run gives every Pod its IP and makes it ready. It returns how long it took from each request that did so for a Pod of a
// labeled namespace until its PodToIP was there.
func (p *Population) Run(ctx context.Context) (*sample.Sample, error) {
	known := &v1beta1.PodToIPList{}
	if err := p.Client.List(ctx, known); err != nil {
		return nil, err
	}
	events, err := harness.Follow(ctx, p.Client, known)
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	w := &stopwatch{given: map[types.NamespacedName]time.Time{}, done: make(chan struct{})}
	go w.follow(events, p.Labeled)
	err = new(sample.Sample).Measure(p.Writers, p.Size, func(_, i int) error {
		before := typical(p.namespace(i), i)
		pod := before.DeepCopy()
		running(pod, i)
		if i < p.Labeled {
			w.begin(client.ObjectKeyFromObject(pod))
		}
		return p.Client.Status().Patch(ctx, pod, client.MergeFrom(before))
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-w.done:
		return &w.took, nil
	case <-time.After(5 * time.Minute):
		return nil, errors.New("not all PodToIPs came within five minutes")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stopwatch measures the time from a Pod's IP to its PodToIP.
type stopwatch struct {
	mu    sync.Mutex
	given map[types.NamespacedName]time.Time
	took  sample.Sample
	done  chan struct{}
}

func (w *stopwatch) begin(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.given[key] = time.Now()
}

// follow takes the time of each new PodToIP until all are there.
func (w *stopwatch) follow(events watch.Interface, want int) {
	for e := range events.ResultChan() {
		p, ok := e.Object.(*v1beta1.PodToIP)
		if !ok || e.Type != watch.Added {
			continue
		}
		w.mu.Lock()
		w.took.Add(time.Since(w.given[client.ObjectKeyFromObject(p)]))
		w.mu.Unlock()
		if w.took.Len() == want {
			close(w.done)
			return
		}
	}
}
