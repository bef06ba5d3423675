package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// patch changes a stored object by a JSON merge patch.
func (w *fixture) patch(object client.Object, text string) {
	w.t.Helper()
	must(w, w.Client.Patch(w.t.Context(), object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(text))))
}

// awaitStatus waits until writes of the status of a Service are held back.
func (h *holding) awaitStatus(w *fixture, svc *corev1.Service) {
	w.t.Helper()
	config, err := w.ConfigFor(harness.User, "system:masters")
	must(w, err)
	portcullis, err := client.New(config, client.Options{Scheme: harness.Scheme(), Mapper: w.Client.RESTMapper()})
	must(w, err)
	w.eventually("writes to be held back", func() error {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		_ = portcullis.Status().Patch(ctx, svc.DeepCopy(), client.RawPatch(types.MergePatchType, []byte("{}")), client.DryRunAll)
		if arrived, _ := h.last(); arrived == 0 {
			return errors.New("they are not")
		}
		return nil
	})
}

// TestALateStatusForwardsNothing holds the write back that takes one of two nodes out of the status of a Service. Meanwhile
// the Service becomes another controller's, which loses it its status, and gets a port that the nodes need: nobody judges
// that. The write comes too late, and lists nothing there. As the API server waits for half a minute only, there are some
// attempts.
func TestALateStatusForwardsNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	w.create(namespace("late"))
	w.unguarded(source("late-nodes", v1beta1.SourceNodeIP))
	w.node("late-1", "10.0.0.1")
	w.node("late-2", "10.0.0.2")
	var doors []*corev1.Service
	var slices []*discoveryv1.EndpointSlice
	for i := range int32(4) {
		key := fmt.Sprintf("late/door-%d", i)
		door := balancer(key, from("late-nodes"), ports(port("http", 8080+i)))
		door.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		doors, slices = append(doors, door), append(slices, endpoints(key, door.Name, "late-1", "late-2"))
		w.create(slices[i], door)
	}
	for i, door := range doors {
		w.balances(door, fmt.Sprintf("10.0.0.1 VIP TCP/%[1]d\n10.0.0.2 VIP TCP/%[1]d", 8080+i))
	}
	events := w.followServices("late")

	held := w.hold("late", "services/status")
	held.awaitStatus(w, doors[0])
	for i, door := range doors {
		before, _ := held.last()
		edit(w, slices[i], func(s *discoveryv1.EndpointSlice) { s.Endpoints = s.Endpoints[:1] })
		var number int
		w.eventually("the write of the status to be held back", func() error {
			var waiting bool
			number, waiting = held.last()
			return is(number > before && waiting, true)
		})
		w.patch(door, `{"spec":{"type":"ClusterIP","loadBalancerClass":null,"externalTrafficPolicy":null}}`)
		w.patch(door, `{"spec":{"type":"LoadBalancer","loadBalancerClass":"example.com/other","ports":[{"name":"http","port":10250}]}}`)
		if held.isWaiting(number) {
			break
		}
		t.Logf("attempt %d was too slow", i)
		if i == len(doors)-1 {
			t.Error("no write was held back for long enough")
		}
	}
	held.let()
	w.eventually("the write to have come to its end", func() error {
		const workers = `controller_runtime_active_workers{controller="loadbalancer"}`
		return is(metrics(w, w.Replicas[0].Metrics+"/metrics", http.DefaultClient)[workers], 0)
	})
	w.patch(doors[0], `{"metadata":{"annotations":{"end":""}}}`)
	for svc := range events {
		if listed := loadbalancer.Listed(svc.Status.LoadBalancer.Ingress); len(listed) > 0 && svc.Spec.Ports[0].Port == 10250 {
			t.Errorf("%s forwards port 10250 of %s", svc.Name, listed)
		}
		if _, ended := svc.Annotations["end"]; ended {
			break
		}
	}
}

// followServices are the Services of a namespace at each of their changes from now on.
func (w *fixture) followServices(namespace string) func(yield func(*corev1.Service) bool) {
	w.t.Helper()
	watcher, err := client.NewWithWatch(w.Config(), client.Options{Scheme: harness.Scheme()})
	must(w, err)
	list := &corev1.ServiceList{}
	must(w, watcher.List(w.t.Context(), list, client.InNamespace(namespace)))
	seen, err := harness.Follow(w.t.Context(), watcher, list, client.InNamespace(namespace))
	must(w, err)
	w.t.Cleanup(seen.Stop)
	return func(yield func(*corev1.Service) bool) {
		for e := range seen.ResultChan() {
			svc, ok := e.Object.(*corev1.Service)
			if !ok {
				w.t.Fatalf("the watch ended with %v", e.Object)
			}
			if !yield(svc) {
				return
			}
		}
	}
}
