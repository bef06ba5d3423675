package kube

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/memory"
)

// cached is a cache of what is in a client, with informers whose events a test makes.
type cached struct {
	*informertest.FakeInformers
	client client.Client
}

var _ cache.Cache = cached{}

func (c cached) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := obj.(*metav1.PartialObjectMetadata); ok {
		obj = &corev1.Namespace{} // the fake knows typed objects only
	}
	return c.FakeInformers.GetInformer(ctx, obj, opts...)
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.client.Get(ctx, key, obj, opts...)
}

func (c cached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.client.List(ctx, list, opts...)
}

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, v1beta1.AddToScheme, gatewayv1beta1.Install,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// clientOf is a client of an API server with these objects, and the indexes of the cache.
func clientOf(t testing.TB, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	b := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).WithReturnManagedFields()
	add := indexer(func(obj client.Object, name string, value client.IndexerFunc) { b.WithIndex(obj, name, value) })
	if err := errors.Join(AddIndexes(t.Context(), add), memory.Select(t.Context(), add)); err != nil {
		t.Fatal(err)
	}
	return b
}

// viewOf is a view of a cache with these objects.
func viewOf(t testing.TB, objects ...client.Object) *View {
	t.Helper()
	c := clientOf(t, objects...).Build()
	v, err := NewView(t.Context(), cached{&informertest.FakeInformers{Scheme: c.Scheme()}, c}, c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// indexer is told of every index.
type indexer func(obj client.Object, name string, value client.IndexerFunc)

func (i indexer) IndexField(_ context.Context, obj client.Object, name string, value client.IndexerFunc) error {
	i(obj, name, value)
	return nil
}

// TestIndexes looks up each index for an object, and notices an index without a row.
func TestIndexes(t *testing.T) {
	indexes := map[string]client.IndexerFunc{}
	if err := AddIndexes(t.Context(), indexer(func(obj client.Object, name string, value client.IndexerFunc) {
		indexes[fmt.Sprintf("%T %s", obj, name)] = value
	})); err != nil {
		t.Fatal(err)
	}
	stream := func(change func(*v1beta1.StreamIngress)) *v1beta1.StreamIngress {
		s := &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "postgres"}}
		s.Spec.Upstream.Service = "db"
		change(s)
		return s
	}
	held := claim.New(claim.Stream("public", v1beta1.TCP, 80), claim.Claimant{Holder: claim.StreamHolder("shop", "postgres")})
	toInherit := held.DeepCopy()
	toInherit.Spec.Heir = &v1beta1.ClaimHeir{ClaimHolder: claim.StreamHolder("blog", "postgres").Spec("")}
	const streams, claims = "*v1beta1.StreamIngress ", "*v1beta1.EdgeClaim "
	used := map[string]bool{}
	for name, tc := range map[string]struct {
		index string
		obj   client.Object
		want  []string
	}{
		"the holder of a claim":                 {claims + indexHolder, held, []string{holderKey(claim.StreamHolder("shop", "postgres"))}},
		"the heir of a claim":                   {claims + IndexHeir, toInherit, []string{"StreamIngress blog/postgres"}},
		"the shares of one that is handed over": {claims + IndexShare, toInherit, []string{"stream/public shop", "stream/public blog"}},
		"no heir of a claim":                    {claims + IndexHeir, held, nil},
		"the share of a claim":                  {claims + IndexShare, held, []string{"stream/public shop"}},
		"the share of one on a port": {claims + IndexShare, claim.New(portAt("192.0.2.1", tcp80), claim.Claimant{Holder: claim.ServiceHolder("shop", "web")}),
			[]string{"addr shop"}},
		"no share of one on a path":     {claims + IndexShare, claim.New(claim.HTTP("example.com", "/"), claim.Claimant{Holder: claim.ServiceHolder("shop", "web")}), nil},
		"the scope of a claim":          {claims + IndexScope, held, []string{"stream/public"}},
		"the class that a stream names": {streams + IndexClass, stream(func(s *v1beta1.StreamIngress) { s.Spec.ClassName, s.Status.ClassName = "a", "b" }), []string{"a"}},
		"the class that serves it":      {streams + IndexClass, stream(func(s *v1beta1.StreamIngress) { s.Status.ClassName = "b" }), []string{"b"}},
		"the class that it moves from": {streams + IndexClass, stream(func(s *v1beta1.StreamIngress) {
			s.Spec.ClassName, s.Status.Previous = "b", &v1beta1.PreviousDoor{ClassName: "a"}
		}), []string{"b", "a"}},
		"no class":                    {streams + IndexClass, stream(func(*v1beta1.StreamIngress) {}), []string{""}},
		"its own namespace's Service": {streams + IndexUpstream, stream(func(*v1beta1.StreamIngress) {}), []string{"shop/db", "shop/"}},
		"another namespace's Service": {streams + IndexUpstream, stream(func(s *v1beta1.StreamIngress) { s.Spec.Upstream.Namespace = "data" }), []string{"data/db", "data/"}},
		"no Service of its own":       {streams + IndexOutside, stream(func(*v1beta1.StreamIngress) {}), nil},
		"the Service it has to lead out": {streams + IndexOutside, stream(func(s *v1beta1.StreamIngress) { s.Spec.IsService = new(false) }),
			[]string{"sti-postgres"}},
		"the port it names": {streams + IndexListen, stream(func(s *v1beta1.StreamIngress) { s.Spec.Listen = new(int32(80)) }), []string{"TCP/1"}},
		"the class that an address serves": {claims + IndexServed, claim.New(portAt("192.0.2.1", tcp80),
			claim.Claimant{Holder: claim.ServiceHolder("shop", "web"), ClassName: "public"}), []string{"stream/public", "stream.public.tcp.80"}},
		"no class that a port of one serves": {claims + IndexServed, held, nil},
		"the port it names and has": {streams + IndexListen, stream(func(s *v1beta1.StreamIngress) { s.Spec.Listen, s.Status.Listen = new(int32(80)), 80 }),
			[]string{"TCP/1"}},
		"the port it names and the one it had": {streams + IndexListen, stream(func(s *v1beta1.StreamIngress) { s.Spec.Listen, s.Status.Listen = new(int32(80)), 128 }),
			[]string{"TCP/1", "TCP/2"}},
		"the port it names beside the one it had": {streams + IndexListen, stream(func(s *v1beta1.StreamIngress) { s.Spec.Listen, s.Status.Listen = new(int32(80)), 81 }),
			[]string{"TCP/1"}},
		"the UDP port it was given":                   {streams + IndexListen, stream(func(s *v1beta1.StreamIngress) { s.Spec.Protocol, s.Status.Listen = v1beta1.UDP, 53 }), []string{"UDP/0"}},
		"the class of a Service that forwards a port": {"*v1.Service " + IndexForwarded, forwarding(v1beta1.StreamLoadBalancerClass), []string{"public"}},
		"no port of a Service of another kind":        {"*v1.Service " + IndexForwarded, forwarding(v1beta1.LoadBalancerClass), nil},
		"where that is open": {"*v1.Service " + IndexOpenAt, forwarding(v1beta1.StreamLoadBalancerClass, "192.0.2.1"),
			[]string{claim.Address(netip.MustParseAddr("192.0.2.1")).Name(), portAt("192.0.2.1", tcp80).Name(), "stream.public.tcp.80"}},
		"the addresses where a Service is served": {"*v1.Service " + indexListed, forwarding(v1beta1.LoadBalancerClass, "192.0.2.1", "::ffff:192.0.2.2", "2001:db8::1"),
			[]string{"2001:db8::1", "node.tcp.80"}},
		"nowhere without an address":              {"*v1.Service " + IndexOpenAt, forwarding(v1beta1.StreamLoadBalancerClass), nil},
		"no address of a Service of another kind": {"*v1.Service " + IndexOpenAt, forwarding(v1beta1.LoadBalancerClass, "192.0.2.1"), nil},
		"the Service of a mirror":                 {"*v1.EndpointSlice " + IndexMirrored, sliceBy(MirrorManager), []string{"public-tcp-80"}},
		"no Service of somebody else's slice":     {"*v1.EndpointSlice " + IndexMirrored, sliceBy("somebody"), nil},
		"what is behind the dots of a host name": {"*v1beta1.EdgeClaim " + IndexBelow,
			claim.New(claim.Hostname("a.b.example.com"), claim.Claimant{Holder: claim.NamespaceHolder("shop")}), []string{"b.example.com", "example.com", "com"}},
		"nothing of a host that an Ingress serves": {"*v1beta1.EdgeClaim " + IndexBelow,
			claim.New(claim.Host("a.example.com"), claim.Claimant{Holder: claim.IngressHolder("shop", "web")}), nil},
		"the port that it waits for": {streams + IndexListen, stream(func(*v1beta1.StreamIngress) {}), []string{"TCP"}},
	} {
		t.Run(name, func(t *testing.T) {
			used[tc.index] = true
			value, ok := indexes[tc.index]
			if !ok {
				t.Fatalf("no index %s", tc.index)
			}
			if diff := cmp.Diff(tc.want, value(tc.obj)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for index := range indexes {
		if !used[index] {
			t.Errorf("no row for index %s", index)
		}
	}
}

// forwarding is a Service with the label of a class, of a loadBalancerClass, open at addresses.
func forwarding(by string, addresses ...string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1beta1.LabelClass: "public"}}}
	svc.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: stream.FieldManager, Operation: metav1.ManagedFieldsOperationApply}}
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &by
	svc.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}
	for _, ip := range addresses {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return svc
}

// sliceBy is an EndpointSlice that somebody manages.
func sliceBy(manager string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		discoveryv1.LabelManagedBy: manager, discoveryv1.LabelServiceName: "public-tcp-80",
	}}}
}

// TestMirrorsTakeNoMemory caches what anybody may have labeled as a mirror: a hash of what it says is kept, however much that is, and in
// no case what somebody has written in its place.
func TestMirrorsTakeNoMemory(t *testing.T) {
	large := sliceBy(MirrorManager)
	large.CreationTimestamp = metav1.Now()
	large.Annotations = map[string]string{digestKey: "what somebody has written there"}
	for range 1000 {
		large.Endpoints = append(large.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, Zone: new(strings.Repeat("x", 1000))})
	}
	want := stream.SliceDigest(large)
	kept := slimmed(t, large).(*discoveryv1.EndpointSlice)
	if MirrorDigest(kept) != want || want == "" || len(kept.Endpoints)+len(kept.Ports) > 0 {
		t.Errorf("it keeps %+v, want the digest %q", kept, want)
	}
}

func TestCacheOptionsLeaveOutWhatNobodyReads(t *testing.T) {
	options := CacheOptions()
	if options.DefaultUnsafeDisableDeepCopy == nil || !*options.DefaultUnsafeDisableDeepCopy {
		t.Error("every read copies")
	}
	for obj, by := range options.ByObject {
		if obj.GetObjectKind().GroupVersionKind().Kind != configMapKind {
			continue
		}
		if by.Label == nil || !by.Label.Matches(labels.Set{v1beta1.LabelClass: "public"}) || by.Label.Matches(labels.Set(nil)) {
			t.Errorf("%T: caches %s", obj, by.Label)
		}
		return
	}
	t.Error("all ConfigMaps are cached")
}
