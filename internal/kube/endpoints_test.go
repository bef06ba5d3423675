package kube

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// sliceSource is an API server with EndpointSlices. It counts how often they are listed, and lists them when it is let.
type sliceSource struct {
	apiObject
	let <-chan struct{}

	mu     sync.Mutex
	listed int
}

func (s *sliceSource) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

func (s *sliceSource) ListWithContext(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	s.listed++
	s.mu.Unlock()
	if s.let != nil {
		<-s.let
	}
	return s.apiObject.List(options)
}

func (s *sliceSource) lists() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed
}

// heard are the Services that Endpoints have told of, "/" for all.
type heard struct {
	mu    sync.Mutex
	names []string
}

func (h *heard) hear(service types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names = append(h.names, service.String())
}

// lately is what was heard since it was last asked, when all has been told.
func (h *heard) lately() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	names := h.names
	h.names = nil
	return names
}

// sliceOf makes an EndpointSlice in the namespace shop, of a Service unless that is empty. Its endpoints are Pods, as namespace/name.
func sliceOf(name, service string, pods ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	slice.Namespace, slice.Name = "shop", name
	if service != "" {
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	}
	for _, pod := range pods {
		namespace, podName, _ := strings.Cut(pod, "/")
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{"10.0.0.1"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: podName},
		})
	}
	return slice
}

// startedEndpoints runs Endpoints of a source until the test ends, in a bubble of synctest.
func startedEndpoints(t *testing.T, source *sliceSource) (*Endpoints, *heard) {
	t.Helper()
	e, err := newEndpoints(source)
	if err != nil {
		t.Fatal(err)
	}
	h := &heard{}
	e.OnChange(h.hear)
	ended := make(chan error)
	ctx, end := context.WithCancel(t.Context())
	go func() { ended <- e.Start(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		source.Shutdown()
	})
	return e, h
}

func newSliceSource(there ...*discoveryv1.EndpointSlice) *sliceSource {
	source := &sliceSource{apiObject: apiObject{cachetesting.NewFakeControllerSource()}}
	for _, slice := range there {
		source.Add(slice)
	}
	return source
}

// slicesOf are the names of the EndpointSlices of a Service in the namespace shop.
func slicesOf(t *testing.T, e *Endpoints, service string) []string {
	t.Helper()
	found, known := e.Of(types.NamespacedName{Namespace: "shop", Name: service})
	if !known {
		t.Errorf("the EndpointSlices of %s are not known", service)
	}
	var names []string
	for _, slice := range found {
		names = append(names, slice.Name)
	}
	return names
}

// withPod are the names of the Services with a Pod, given as namespace/name.
func withPod(e *Endpoints, pod string) []string {
	namespace, name, _ := strings.Cut(pod, "/")
	var names []string
	for _, service := range e.WithPod(types.NamespacedName{Namespace: namespace, Name: name}) {
		names = append(names, service.String())
	}
	return names
}

// TestNothingIsReadBeforeItIsAskedFor starts Endpoints, asks for them, and lets the API server answer, one after the other.
func TestNothingIsReadBeforeItIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, let := newSliceSource(sliceOf("web-1", "web", "shop/a")), make(chan struct{})
		source.let = let
		e, h := startedEndpoints(t, source)
		web := types.NamespacedName{Namespace: "shop", Name: "web"}
		if told := h.lately(); source.lists() != 0 || told != nil {
			t.Errorf("before it is asked for, it is listed %d times, and told are %v", source.lists(), told)
		}
		if slices, known := e.Of(web); e.Synced() || known || slices != nil {
			t.Errorf("before it is asked for, it knows %v, %v", slices, known)
		}
		e.Ask()
		e.Ask()
		if told := h.lately(); source.lists() != 1 || told != nil {
			t.Errorf("asked for, it is listed %d times, and told are %v", source.lists(), told)
		}
		if slices, known := e.Of(web); e.Synced() || known || slices != nil {
			t.Errorf("while it is read, it knows %v, %v", slices, known)
		}
		close(let)
		if diff := cmp.Diff([]string{"shop/web", "/"}, h.lately()); diff != "" {
			t.Errorf("when all are read, told is\n%s", diff)
		}
		if diff := cmp.Diff([]string{"web-1"}, slicesOf(t, e, "web")); diff != "" || !e.Synced() {
			t.Errorf("when all are read, there is\n%s", diff)
		}
	})
}

// TestWhoAsksEarlyIsHeard asks before anything has started, and ends what nobody has asked.
func TestWhoAsksEarlyIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSliceSource()
		e, err := newEndpoints(source)
		if err != nil {
			t.Fatal(err)
		}
		e.Ask()
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Start(ctx) }()
		synctest.Wait()
		if !e.Synced() {
			t.Error("nothing is read")
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		source.Shutdown()
	})
	synctest.Test(t, func(t *testing.T) {
		source := newSliceSource()
		startedEndpoints(t, source)
		synctest.Wait() // the cleanup ends it
		if source.lists() != 0 {
			t.Error("it is read")
		}
	})
}

// TestWhatBecomesOfEndpoints changes EndpointSlices one way each.
func TestWhatBecomesOfEndpoints(t *testing.T) {
	changed := func(slice *discoveryv1.EndpointSlice, change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		change(slice)
		return slice
	}
	tests := map[string]struct {
		there []*discoveryv1.EndpointSlice
		// change is what happens next, if anything.
		change func(*sliceSource)
		told   []string
		// of are the EndpointSlices by Service, and with the Services by Pod.
		of, with map[string][]string
	}{
		"a Service has several": {
			there: []*discoveryv1.EndpointSlice{
				sliceOf("web-2", "web", "shop/b"), sliceOf("web-1", "web", "shop/a", "shop/b"), sliceOf("db-1", "db", "shop/b"),
			},
			of:   map[string][]string{"web": {"web-1", "web-2"}, "db": {"db-1"}, "other": nil},
			with: map[string][]string{"shop/a": {"shop/web"}, "shop/b": {"shop/db", "shop/web"}, "shop/c": nil},
		},
		"a Pod of another namespace is nobody's": {
			there: []*discoveryv1.EndpointSlice{sliceOf("web-1", "web", "data/a")},
			of:    map[string][]string{"web": {"web-1"}},
			with:  map[string][]string{"data/a": nil, "shop/a": nil},
		},
		"a Pod that is named without a namespace is of the same": {
			there: []*discoveryv1.EndpointSlice{sliceOf("web-1", "web", "/b")},
			of:    map[string][]string{"web": {"web-1"}},
			with:  map[string][]string{"shop/b": {"shop/web"}, "/b": nil},
		},
		"a target that is no Pod is none": {
			there: []*discoveryv1.EndpointSlice{changed(sliceOf("web-1", "web", "shop/a"), func(s *discoveryv1.EndpointSlice) {
				s.Endpoints[0].TargetRef.Kind = "Node"
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.0.0.2"}})
			})},
			of: map[string][]string{"web": {"web-1"}}, with: map[string][]string{"shop/a": nil},
		},
		"one without a label belongs to nobody": {
			change: func(s *sliceSource) { s.Add(sliceOf("web-1", "", "shop/a")) },
			of:     map[string][]string{"": nil, "web": nil}, with: map[string][]string{"shop/a": nil},
		},
		"one comes": {
			change: func(s *sliceSource) { s.Add(sliceOf("web-1", "web", "shop/a")) },
			told:   []string{"shop/web"},
			of:     map[string][]string{"web": {"web-1"}}, with: map[string][]string{"shop/a": {"shop/web"}},
		},
		"one goes": {
			there:  []*discoveryv1.EndpointSlice{sliceOf("web-1", "web", "shop/a")},
			change: func(s *sliceSource) { s.Delete(sliceOf("web-1", "web", "shop/a")) },
			told:   []string{"shop/web"},
			of:     map[string][]string{"web": nil}, with: map[string][]string{"shop/a": nil},
		},
		"one has another endpoint": {
			there:  []*discoveryv1.EndpointSlice{sliceOf("web-1", "web", "shop/a")},
			change: func(s *sliceSource) { s.Modify(sliceOf("web-1", "web", "shop/b")) },
			told:   []string{"shop/web"},
			of:     map[string][]string{"web": {"web-1"}}, with: map[string][]string{"shop/a": nil, "shop/b": {"shop/web"}},
		},
		"an endpoint is ready no longer": {
			there: []*discoveryv1.EndpointSlice{sliceOf("web-1", "web", "shop/a")},
			change: func(s *sliceSource) {
				s.Modify(changed(sliceOf("web-1", "web", "shop/a"), func(s *discoveryv1.EndpointSlice) {
					s.Endpoints[0].Conditions.Ready = new(false)
				}))
			},
			told: []string{"shop/web"},
		},
		"one has another port": {
			there: []*discoveryv1.EndpointSlice{sliceOf("web-1", "web", "shop/a")},
			change: func(s *sliceSource) {
				s.Modify(changed(sliceOf("web-1", "web", "shop/a"), func(s *discoveryv1.EndpointSlice) {
					s.Ports = []discoveryv1.EndpointPort{{Port: new(int32(80))}}
				}))
			},
			told: []string{"shop/web"},
		},
		"its label moves": {
			there:  []*discoveryv1.EndpointSlice{sliceOf("web-1", "web", "shop/a")},
			change: func(s *sliceSource) { s.Modify(sliceOf("web-1", "db", "shop/a")) },
			told:   []string{"shop/db", "shop/web"},
			of:     map[string][]string{"web": nil, "db": {"web-1"}}, with: map[string][]string{"shop/a": {"shop/db"}},
		},
		"its label goes": {
			there:  []*discoveryv1.EndpointSlice{sliceOf("web-1", "web", "shop/a")},
			change: func(s *sliceSource) { s.Modify(sliceOf("web-1", "", "shop/a")) },
			told:   []string{"shop/web"},
			of:     map[string][]string{"web": nil}, with: map[string][]string{"shop/a": nil},
		},
		"only what is not kept changes": {
			there: []*discoveryv1.EndpointSlice{sliceOf("web-1", "web", "shop/a")},
			change: func(s *sliceSource) {
				s.Modify(changed(sliceOf("web-1", "web", "shop/a"), func(s *discoveryv1.EndpointSlice) {
					s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-01-01T00:00:00Z"}
					s.Labels["team"], s.Endpoints[0].Hostname = "shop", new("a")
				}))
			},
			of: map[string][]string{"web": {"web-1"}}, with: map[string][]string{"shop/a": {"shop/web"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newSliceSource(test.there...)
				e, h := startedEndpoints(t, source)
				e.Ask()
				if first := h.lately(); len(first) != len(test.there)+1 || first[len(first)-1] != "/" {
					t.Errorf("at first, told are %v", first)
				}
				if test.change != nil {
					test.change(source)
				}
				if diff := cmp.Diff(test.told, h.lately()); diff != "" {
					t.Errorf("then, told are\n%s", diff)
				}
				for service, want := range test.of {
					if diff := cmp.Diff(want, slicesOf(t, e, service)); diff != "" {
						t.Errorf("%q has\n%s", service, diff)
					}
				}
				for pod, want := range test.with {
					if diff := cmp.Diff(want, withPod(e, pod)); diff != "" {
						t.Errorf("with %s are\n%s", pod, diff)
					}
				}
			})
		})
	}
}

// TestNoEndpointsKnowNothing asks nil, as a View without Endpoints does.
func TestNoEndpointsKnowNothing(t *testing.T) {
	var e *Endpoints
	e.Ask()
	e.OnChange(func(types.NamespacedName) { t.Error("it tells") })
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	if slices, known := e.Of(key); known || slices != nil || e.Synced() || e.WithPod(key) != nil {
		t.Errorf("it knows %v, %v", slices, known)
	}
}

// TestSlimWholeSlice has an EndpointSlice as its controller writes it, with more of everything.
func TestSlimWholeSlice(t *testing.T) {
	want := sliceOf("web-1", "web", "shop/a")
	want.UID, want.ResourceVersion = "one", "7"
	want.Ports = []discoveryv1.EndpointPort{{
		Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(80)), AppProtocol: new("kubernetes.io/h2c"),
	}, {}}
	ref := want.Endpoints[0].TargetRef
	ref.UID = "two"
	want.Endpoints[0] = discoveryv1.Endpoint{
		Addresses: []string{"10.0.0.1"}, TargetRef: ref, NodeName: new("node-1"), Zone: new("east"),
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Terminating: new(false)},
		Hints: &discoveryv1.EndpointHints{
			ForZones: []discoveryv1.ForZone{{Name: "east"}}, ForNodes: []discoveryv1.ForNode{{Name: "node-1"}},
		},
	}
	full := huge(want.DeepCopy())
	full.Name, full.UID = want.Name, want.UID
	full.Labels[discoveryv1.LabelServiceName], full.Labels[discoveryv1.LabelManagedBy] = "web", "endpointslice-controller.k8s.io"
	full.Endpoints[0].Hostname, full.Endpoints[0].DeprecatedTopology = new("a"), map[string]string{"example.com/rack": "1"}
	full.Endpoints[0].TargetRef.ResourceVersion, full.Endpoints[0].TargetRef.FieldPath = "9", "spec"
	full.Endpoints[0].Addresses = append(full.Endpoints[0].Addresses, "10.0.0.2")
	full.Endpoints[0].Hints.ForZones = append(full.Endpoints[0].Hints.ForZones, discoveryv1.ForZone{Name: strings.Repeat("x", 1<<20)})
	full.Endpoints = append(make([]discoveryv1.Endpoint, 0, 100), full.Endpoints...)
	for _, how := range []string{"once", "twice"} {
		got, err := slimWholeSlice(full)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(want), got); diff != "" {
			t.Errorf("%s, it keeps\n%s", how, diff)
		}
	}
	if cap(full.Endpoints) != 1 {
		t.Errorf("it keeps room for %d endpoints", cap(full.Endpoints))
	}
	long := sliceOf("web-1", "web", "shop/"+strings.Repeat("x", 1<<20))
	long.Endpoints[0].Zone = new(strings.Repeat("x", 1<<20))
	_, err := slimWholeSlice(long)
	if kept := len(long.Endpoints[0].TargetRef.Name); err != nil || kept != maxName+1 || long.Endpoints[0].Zone != nil {
		t.Errorf("of the long name of a target it keeps %d bytes, and the zone %v, %v", kept, long.Endpoints[0].Zone, err)
	}
	nobodys := sliceOf("web-1", "", "shop/a")
	if _, err := slimWholeSlice(nobodys); err != nil || len(nobodys.Endpoints) > 0 || nobodys.Labels != nil {
		t.Errorf("of a slice of no Service it keeps %v, %v", nobodys, err)
	}
	if got, err := slimWholeSlice("tombstone"); err != nil || got != "tombstone" {
		t.Errorf("it made %v, %v of another object", got, err)
	}
}

// managerOf has what Endpoints need of a manager.
type managerOf struct {
	manager.Manager
	config *rest.Config
	scheme *runtime.Scheme
}

func (m managerOf) GetConfig() *rest.Config    { return m.config }
func (m managerOf) GetScheme() *runtime.Scheme { return m.scheme }
func (managerOf) GetHTTPClient() *http.Client  { return http.DefaultClient }

// TestMirrorsAreNotRead looks at what the API server is asked for.
func TestMirrorsAreNotRead(t *testing.T) {
	asked := make(chan *http.Request, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r:
		default: // it is asked again and again
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	e, err := NewEndpoints(managerOf{config: &rest.Config{Host: server.URL}, scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if !e.NeedLeaderElection() {
		t.Error("all replicas read")
	}
	e.Ask()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Start(ctx) }()
	r := <-asked
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if want := "/apis/discovery.k8s.io/v1/endpointslices"; r.URL.Path != want {
		t.Errorf("%s is read, want %s", r.URL.Path, want)
	}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		t.Fatal(err)
	}
	selected := map[string]bool{}
	for _, manager := range []string{MirrorManager, EndpointSliceManager, "endpointslice-controller.k8s.io"} {
		selected[manager] = selector.Matches(labels.Set{discoveryv1.LabelManagedBy: manager})
	}
	selected["none"] = selector.Matches(labels.Set{})
	want := map[string]bool{MirrorManager: false, EndpointSliceManager: true, "endpointslice-controller.k8s.io": true, "none": true}
	if !maps.Equal(selected, want) {
		t.Errorf("selected are %v, want %v", selected, want)
	}
}
