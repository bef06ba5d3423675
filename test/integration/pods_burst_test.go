package integration

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestPodBurst lets 2,000 Pods of labeled namespaces and 200 others live their whole lives at once, and counts what
// that costs the API server.
func TestPodBurst(t *testing.T) {
	t.Parallel()
	const labeled, others, namespaces = 2000, 200, 10
	w := newFixture(t, start(t, harness.Options{
		Replicas: 1, Flags: []string{"--leader-elect=false"}, ControlPlane: controlplane.Options{Audit: true},
	}))
	w.create(namespace("others"))
	for i := range namespaces {
		w.create(namespace(fmt.Sprintf("labeled-%d", i), podToIPLabel))
	}
	pods := make([]*corev1.Pod, 0, labeled+others)
	for i := range labeled {
		pods = append(pods, pod(fmt.Sprintf("labeled-%d/p%d", i%namespaces, i)))
	}
	for i := range others {
		pods = append(pods, pod(fmt.Sprintf("others/p%d", i)))
	}
	each := func(do func(i int, p *corev1.Pod) error) {
		t.Helper()
		group := errgroup.Group{}
		group.SetLimit(16)
		for i, p := range pods {
			group.Go(func() error { return do(i, p) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	count := func(want float64) {
		t.Helper()
		w.eventually(fmt.Sprintf("%v PodToIPs", want), func() error { return is(w.metric("portcullis_pod_to_ips"), want) })
	}
	each(func(i int, p *corev1.Pod) error {
		if err := w.Client.Create(t.Context(), p); err != nil {
			return err
		}
		setRunning(&p.Status, fmt.Sprintf("10.%d.%d.%d", 3+i/40000, i/200%200, 1+i%200))
		return w.Client.Status().Update(t.Context(), p)
	})
	count(labeled)
	each(func(i int, p *corev1.Pod) error {
		if i%2 == 0 { // told to end, as most are, before it is gone
			if err := w.Client.Delete(t.Context(), p); err != nil {
				return err
			}
		}
		return w.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0))
	})
	count(0)
	w.eventually("all ends to be told", func() error {
		return is(w.metric(`portcullis_pod_events_total{event="gone"}`), labeled+others)
	})
	ended := 0
	for _, line := range podLines(w, w.Replicas[0]) {
		if line.Event == "gone" {
			ended++
		}
	}
	if ended != labeled+others {
		t.Errorf("the log tells the end of %d Pods, want %d", ended, labeled+others)
	}
	checkPodWrites(t, w, labeled)
}

// checkPodWrites fails the test when the life of a Pod took more than two writes, or that of an unlabeled one any.
func checkPodWrites(t *testing.T, w *fixture, labeled int) {
	t.Helper()
	writes, err := w.Writes()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	for _, write := range writes {
		if write.User != harness.User || !strings.HasPrefix(write.Resource, "podtoips") {
			continue
		}
		key := write.Namespace + "/" + write.Name
		of[key]++
		if write.Code >= 400 || of[key] > 2 || write.Namespace == "others" {
			t.Errorf("write %d for %s: %s, answered with %d", of[key], key, write.Verb, write.Code)
		}
	}
	if len(of) != labeled {
		t.Errorf("PodToIPs of %d Pods were written, want %d", len(of), labeled)
	}
}
