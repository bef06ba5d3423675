package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// TestNobodyFillsTheMemory writes as much as goes onto objects of every kind that is cached: a quarter of a MiB of
// annotations, another of labels, and what follows from them in the managed fields. A replica keeps next to nothing of it.
func TestNobodyFillsTheMemory(t *testing.T) {
	t.Parallel()
	ports, err := controlplane.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	profiles := "127.0.0.1:" + strconv.Itoa(ports[0])
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--pprof-bind-address=" + profiles}}))
	e := w.newEdge("memory")
	w.create(namespace("memory", podToIPLabel), addressPool("memory", []string{"192.0.2.0/24"}))
	const few, many, balancers, each = 1, 20, 4, 7 + 4
	seen := func(n int32) {
		t.Helper()
		name := fmt.Sprintf("memory/last-%d", n)
		last := balancer(name, from("memory"))
		w.create(ingressFor(name, fmt.Sprintf("last-%d.example.com", n)), last, sti(name, of("memory"), tcp(n), to(last.Name, 80)))
		w.programmed(sti(name))
		w.eventually(name+" to be served", func() error {
			w.get(last)
			return is(statusOf(last) != "", true)
		})
	}
	write := func(begin, end int) {
		t.Helper()
		for i := begin; i < end; i++ {
			w.create(
				heavy(configMap(fmt.Sprintf("memory/config-%d", i), nil)),
				heavy(service(fmt.Sprintf("memory/service-%d", i), port("http", 80))),
				heavy(ingressFor(fmt.Sprintf("memory/ingress-%d", i), fmt.Sprintf("ingress-%d.example.com", i))),
				heavy(sti(fmt.Sprintf("memory/stream-%d", i), of("memory"), tcp(int32(100+i)), to("service-0", 80))),
				heavy(pod(fmt.Sprintf("memory/pod-%d", i))),
				heavy(grant(fmt.Sprintf("memory/grant-%d", i), "elsewhere")),
				heavy(endpointSlice(fmt.Sprintf("memory/slice-%d", i))),
			)
			for j := range balancers { // of which some labels are kept
				w.create(heavy(balancer(fmt.Sprintf("memory/balancer-%d-%d", i, j))))
			}
		}
		seen(int32(end))
	}
	// The first ones make the buffers of all watches as large as they get.
	write(0, few)
	before := w.heap(profiles)
	write(few, many)
	const bound = 8 << 20
	w.eventually("the memory to be as it was, but for next to nothing", func() error {
		if grown := w.heap(profiles) - before; grown > bound {
			return fmt.Errorf("%d objects with half a MiB each take %.1f MiB", each*(many-few), float64(grown)/(1<<20))
		}
		return nil
	})
	t.Logf("%d objects take %.1f MiB", each*(many-few), float64(w.heap(profiles)-before)/(1<<20))
	e.leads(TCP, 100, "memory/service-0:80")
}

// TestNobodyFillsTheMemoryByWhatItServes writes Ingresses with paths that are too long for a point, with more hosts than have
// claims, and with TLS for nothing, nearly as large as they may be. A replica keeps next to nothing of the first and the last, and
// no more of the others than they take in etcd.
func TestNobodyFillsTheMemoryByWhatItServes(t *testing.T) {
	t.Parallel()
	ports, err := controlplane.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	profiles := "127.0.0.1:" + strconv.Itoa(ports[0])
	w := newFixture(t, start(t, harness.Options{
		Replicas: 1, Flags: []string{"--audit-interval=0", "--pprof-bind-address=" + profiles}, Env: tight,
	}))
	w.create(namespace("serves"))
	const few, many, hosts, entries = 2, 40, 50000, 350000
	write := func(begin, end int) {
		t.Helper()
		for i := begin; i < end; i++ {
			w.create(foreignIngress(fmt.Sprintf("serves/long-%d", i), "long.example.com", fmt.Sprintf("/%d%s", i, strings.Repeat("x", 1400<<10))))
		}
		// Half of them is what their digests take.
		for i := begin; i < end; i += 4 {
			w.create(manyHosts(fmt.Sprintf("serves/many-%d", i), hosts, fmt.Sprintf("n%d.example.com", i)))
			secured := foreignIngress(fmt.Sprintf("serves/tls-%d", i), "long.example.com", "/"+strings.Repeat("x", 600))
			secured.Annotations = map[string]string{v1beta1.AnnotationMadeFor: "me"}
			secured.Spec.TLS = make([]networkingv1.IngressTLS, entries)
			w.create(secured)
		}
		last := fmt.Sprintf("last-%d.example.com", end)
		w.create(ingressFor(fmt.Sprintf("serves/last-%d", end), last))
		w.pathHeldBy(last, "/", fmt.Sprintf("Ingress serves/last-%d", end))
	}
	write(0, few)
	before := w.heap(profiles)
	write(few, many)
	const bound = 24 << 20
	w.eventually("the memory to be as it was, but for next to nothing", func() error {
		if grown := w.heap(profiles) - before; grown > bound {
			return fmt.Errorf("%d Ingresses with a long path, and a fourth as many each with %d hosts, and with TLS for %d times nothing, take %.1f MiB",
				many-few, hosts, entries, float64(grown)/(1<<20))
		}
		return nil
	})
	t.Logf("they take %.1f MiB", float64(w.heap(profiles)-before)/(1<<20))
	if n := w.claimsOf("serves"); n != 2 {
		t.Errorf("they have %d claims", n)
	}
}

// heap is how much of the heap of the first replica is in use when its garbage has been collected, in bytes.
func (w *fixture) heap(profiles string) int64 {
	w.t.Helper()
	if _, err := controlplane.Get(w.t.Context(), http.DefaultClient, "http://"+profiles+"/debug/pprof/heap?gc=1"); err != nil {
		w.t.Fatal(err)
	}
	return int64(metrics(w, w.Replicas[0].Metrics+"/metrics", http.DefaultClient)["go_memstats_heap_alloc_bytes"])
}

// heavy writes onto an object what a tenant can write, and that nobody asks for.
func heavy[T client.Object](obj T) T {
	labels := map[string]string{v1beta1.LabelClass: "memory", discoveryv1.LabelManagedBy: "portcullis." + v1beta1.GroupName}
	for i := range 2000 {
		labels[fmt.Sprintf("example.com/%050d", i)] = strings.Repeat("x", 63)
	}
	obj.SetLabels(labels)
	obj.SetAnnotations(map[string]string{"example.com/junk": strings.Repeat("x", 250<<10)})
	return obj
}

// ingressFor is an Ingress for all of a host.
func ingressFor(key, host string) *networkingv1.Ingress {
	i := &networkingv1.Ingress{}
	i.Namespace, i.Name, _ = strings.Cut(key, "/")
	i.Spec.Rules = []networkingv1.IngressRule{{Host: host}}
	return i
}

// endpointSlice is an EndpointSlice without endpoints.
func endpointSlice(key string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	s.Namespace, s.Name, _ = strings.Cut(key, "/")
	return s
}

// TestALabelWakesNobody touches Services that bear the label of a class which does not name them: no stream and no class is
// looked at again.
func TestALabelWakesNobody(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1}))
	w.newEdge("label")
	w.create(namespace("label"))
	const streams, touches = 60, 100
	for i := range streams {
		w.create(sti(fmt.Sprintf("label/stream-%d", i), of("label"), tcp(int32(1000+i))))
	}
	for i := range streams {
		w.programmed(sti(fmt.Sprintf("label/stream-%d", i)))
	}
	label := map[string]string{v1beta1.LabelClass: "label"}
	external, served := service("label/external"), service("label/served", port("http", 80))
	external.Spec.Type, external.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	external.Labels, served.Labels = label, label
	w.create(external, served)
	w.idle(w.looks)
	before := w.looks()
	for i := range touches {
		edit(w, external, func(s *corev1.Service) { s.Annotations = map[string]string{"example.com/touched": strconv.Itoa(i)} })
		edit(w, served, func(s *corev1.Service) { s.Annotations = map[string]string{"example.com/touched": strconv.Itoa(i)} })
	}
	w.delete(external, served)
	// What comes after them is seen after them.
	last := sti("label/last", of("label"), tcp(2000), to("last", 80))
	w.create(service("label/last", port("http", 80)), last)
	w.has(last, v1beta1.ConditionResolvedRefs, "True ResolvedRefs")
	w.programmed(last)
	// The last stream and its Service take a few looks. A single touch that wakes the streams takes one at each of them.
	n := w.looks() - before
	t.Logf("%d touches, %v looks", 2*touches, n)
	if n >= streams {
		t.Errorf("%d touches of Services that bear the label of a class have streams and classes looked at %v times", 2*touches, n)
	}
}

// looks is how often the first replica has looked at a stream or a class.
func (w *fixture) looks() (n float64) {
	values := metrics(w, w.Replicas[0].Metrics+"/metrics", http.DefaultClient)
	for _, controller := range []string{"streamingress", "streamingressclass"} {
		for _, result := range []string{"success", "requeue", "requeue_after", "error"} {
			n += values[fmt.Sprintf("controller_runtime_reconcile_total{controller=%q,result=%q}", controller, result)]
		}
	}
	return n
}

// idle waits until nothing has been counted for longer than a reconciler puts a look off that may not be needed.
func (w *fixture) idle(count func() float64) {
	w.t.Helper()
	last, since := -1.0, time.Now()
	w.eventually("the reconcilers to have nothing to do", func() error {
		if n := count(); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) < silence {
			return errors.New("they still have")
		}
		return nil
	})
}
