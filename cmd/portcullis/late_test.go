package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// late holds up what a cache tells of AddressPools to those who follow it, until it is let. That is how it is at any start, for as
// long as it takes to tell of all pools after the last was read; nothing outside of the process can make that longer.
type late struct {
	manager.Manager
	let chan struct{}
}

func (m late) GetCache() cache.Cache { return lateCache{m.Manager.GetCache(), m.let} }

type lateCache struct {
	cache.Cache
	let chan struct{}
}

func (c lateCache) GetInformer(ctx context.Context, obj client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, obj, options...)
	if _, pools := obj.(*v1beta1.AddressPool); pools && err == nil {
		informer = lateInformer{informer, c.let}
	}
	return informer, err
}

type lateInformer struct {
	cache.Informer
	let chan struct{}
}

func (i lateInformer) AddEventHandler(told toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(lateHandler{told, i.let})
}

type lateHandler struct {
	toolscache.ResourceEventHandler
	let chan struct{}
}

func (h lateHandler) OnAdd(obj any, initial bool) {
	<-h.let
	h.ResourceEventHandler.OnAdd(obj, initial)
}

// TestPoolsThatAreReadLate starts anew where a Service is served from a pool, and holds up what is told of pools: without
// them, no address is anybody's. The Service keeps its address, and all goes on when the pools are there.
func TestPoolsThatAreReadLate(t *testing.T) {
	h, err := harness.Start(t.Context(), harness.Options{Replicas: 1, WebhookTimeout: 30, Flags: longLease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(); err != nil {
			t.Error(err)
		}
	})
	pool := &v1beta1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
	pool.Spec.Addresses = []string{"192.0.2.0/28"}
	served, next := balanced("served"), balanced("next")
	for _, obj := range []client.Object{pool, served} {
		if err := h.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	had := awaitAddress(t, h.Client, served)
	if err := h.Replicas[0].Retire(t.Context()); err != nil {
		t.Fatal(err)
	}

	let := make(chan struct{})
	mgr, health := startLate(t, h, let)
	<-mgr.Elected()
	// There is nothing to wait for where nothing is to happen: without the guard, the address goes within a fraction of a second.
	if err := harness.Pause(t.Context(), 3*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := address(t, h.Client, served); got != had {
		t.Errorf("before the pools are read, the Service is listed at %q, before it was at %s", got, had)
	}
	if isReady(t, health) {
		t.Error("it is ready before the pools are read")
	}
	close(let)
	if err := h.Client.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if got := awaitAddress(t, h.Client, next); got == had {
		t.Errorf("another Service got %s", had)
	}
	if got := address(t, h.Client, served); got != had {
		t.Errorf("the Service is listed at %q, before it was at %s", got, had)
	}
}

// longLease is for machines that do other things: who leads ends when it can't renew its lease in time, and nobody starts it again.
var longLease = []string{"--leader-elect-lease-duration=75s", "--leader-elect-renew-deadline=60s"}

// startLate runs in this process what the replicas of a harness run in theirs, late. It returns the manager, and where it says how
// it is.
func startLate(t *testing.T, h *harness.Harness, let chan struct{}) (mgr manager.Manager, health string) {
	ports, err := controlplane.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	health = fmt.Sprintf("127.0.0.1:%d", ports[1])
	o, err := parseOptions("portcullis", append([]string{
		"--cert-dir=" + t.TempDir(), "--self-signed-certs", "--webhook-dns-names=localhost",
		"--webhook-host=127.0.0.1", fmt.Sprintf("--webhook-port=%d", ports[0]),
		"--health-probe-bind-address=" + health, "--metrics-bind-address=0",
	}, longLease...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	serving, err := newServing(o)
	if err != nil {
		t.Fatal(err)
	}
	if mgr, err = newManager(h.Config(), o, serving); err != nil {
		t.Fatal(err)
	}
	if err := setup(t.Context(), late{mgr, let}, o, serving); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	return mgr, health
}

// isReady says whether a process says that it is ready.
func isReady(t *testing.T, health string) bool {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+health+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// balanced is a Service that Portcullis gives an address.
func balanced(name string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	svc.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	return svc
}

// address is where a Service is listed, empty for nowhere.
func address(t *testing.T, c client.Reader, svc *corev1.Service) string {
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(svc), svc); err != nil {
		t.Fatal(err)
	}
	if listed := svc.Status.LoadBalancer.Ingress; len(listed) > 0 {
		return listed[0].IP
	}
	return ""
}

func awaitAddress(t *testing.T, c client.Reader, svc *corev1.Service) (listed string) {
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) {
		listed = address(t, c, svc)
		return listed != "", nil
	})
	if err != nil {
		t.Fatalf("Service %s gets no address: %v", svc.Name, err)
	}
	return listed
}
