package kube

import (
	"context"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/memory"
)

// TestStores reads an object of each kind that decisions are made from, and one that is not there, from a real cache: by way
// of its stores, and by way of its client.
func TestStores(t *testing.T) {
	in := metav1.ObjectMeta{Namespace: "shop", Name: "db", Labels: map[string]string{"a": "b"}}
	above := metav1.ObjectMeta{Name: "db", Labels: map[string]string{"a": "b"}}
	ns := NamespaceObject()
	ns.ObjectMeta = above
	kinds := map[string]struct {
		obj  client.Object
		read func(context.Context, *View, types.NamespacedName) (any, error)
	}{
		"StreamIngress":      {&v1beta1.StreamIngress{ObjectMeta: in}, reading[v1beta1.StreamIngress]},
		"StreamIngressClass": {&v1beta1.StreamIngressClass{ObjectMeta: above}, reading[v1beta1.StreamIngressClass]},
		"EdgeClaim":          {&v1beta1.EdgeClaim{ObjectMeta: above}, reading[v1beta1.EdgeClaim]},
		"AddressPool":        {&v1beta1.AddressPool{ObjectMeta: above}, reading[v1beta1.AddressPool]},
		"HostPolicy":         {&v1beta1.HostPolicy{ObjectMeta: above}, reading[v1beta1.HostPolicy]},
		"Service":            {&corev1.Service{ObjectMeta: in}, reading[corev1.Service]},
		"EndpointSlice":      {&discoveryv1.EndpointSlice{ObjectMeta: in}, reading[discoveryv1.EndpointSlice]},
		"Ingress":            {&networkingv1.Ingress{ObjectMeta: in}, reading[networkingv1.Ingress]},
		"IngressClass":       {&networkingv1.IngressClass{ObjectMeta: above}, reading[networkingv1.IngressClass]},
		"Namespace": {ns, func(ctx context.Context, v *View, key types.NamespacedName) (any, error) {
			labels, found, err := v.namespace(ctx, key.Name)
			if !found {
				return nil, err
			}
			ns := NamespaceObject()
			ns.Name, ns.Labels = key.Name, labels
			return ns, err
		}},
	}
	var objects []client.Object
	for _, kind := range kinds {
		objects = append(objects, kind.obj)
	}
	v, fill := storing(t, objects...)
	for name, kind := range kinds {
		if _, known, err := v.stores.find(reflect.TypeOf(kind.obj), client.ObjectKeyFromObject(kind.obj)); known || err != nil {
			t.Errorf("%s: known %v, error %v, before anything has been read", name, known, err)
		}
	}
	fill()
	if len(v.stores) != len(kinds) {
		t.Errorf("there are %d stores, and %d are tested", len(v.stores), len(kinds))
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			key := client.ObjectKeyFromObject(kind.obj)
			if _, known, _ := v.stores.find(reflect.TypeOf(kind.obj), key); !known {
				t.Error("it has no store")
			}
			for _, key := range []types.NamespacedName{key, {Namespace: key.Namespace, Name: "other"}} {
				got, err := kind.read(t.Context(), v, key)
				if err != nil {
					t.Fatal(err)
				}
				kept := v.stores
				v.stores = nil
				want, err := kind.read(t.Context(), v, key)
				v.stores = kept
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: it differs from what the client reads (-client +store):\n%s", key, diff)
				}
				if (got != nil) != (key.Name == "db") {
					t.Errorf("%s: read %v", key, got)
				}
			}
			missing := kind.obj.DeepCopyObject().(client.Object)
			missing.SetName("other")
			for obj, want := range map[client.Object]bool{kind.obj: true, missing: false} {
				fast, err := v.Known(t.Context(), obj)
				if fast != want || err != nil {
					t.Errorf("%s is known: %v, %v", obj.GetName(), fast, err)
				}
			}
		})
	}
}

// TestStoresUnder lists what an index has under a value, and what classes name, by way of the stores, and by way of the cache's client.
func TestStoresUnder(t *testing.T) {
	by := claim.ServiceHolder("shop", "web")
	db, path := claim.New(claim.Stream("public", v1beta1.TCP, 5432), claim.Claimant{Holder: claim.StreamHolder("shop", "db")}),
		claim.New(claim.HTTP("example.com", "/"), claim.Claimant{Holder: by})
	address := claim.New(claim.Address(netip.MustParseAddr("192.0.2.1")), claim.Claimant{Holder: by})
	web := serving("web", "example.com", 1, 0)
	class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}}
	class.Spec.Service = &v1beta1.ObjectReference{Namespace: "proxies", Name: "public"}
	v, fill := storing(t, db, path, address, web, class, &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "without"}})
	if _, known := v.stores.under(reflect.TypeOf(db), indexHolder, holderKey(by)); known {
		t.Error("known before anything has been read")
	}
	fill()
	if _, known := v.stores.under(reflect.TypeOf(db), "other", holderKey(by)); known {
		t.Error("an index is known that is not there")
	}
	for name, list := range map[string]struct {
		of          client.Object
		index, some string
		list        func(value string) ([]string, error)
		want        []string
	}{
		"claims of a holder": {of: db, index: indexHolder, some: holderKey(by), list: func(value string) ([]string, error) {
			claims, err := v.Claims.by(t.Context(), indexHolder, value)
			return namesOf(ofHolder(claims, by)...), err // another's may have that key, too
		}, want: namesOf(path, address)},
		"claims of a namespace": {of: db, index: IndexShare, some: ShareOf("shop", claim.StreamScope("public")), list: func(value string) ([]string, error) {
			claims, err := v.Claims.by(t.Context(), IndexShare, value)
			return namesOf(claims...), err
		}, want: namesOf(db)},
		"Ingresses at a point": {of: web, index: IndexPoint, some: claim.HTTP("example.com", "/0").Name(), list: func(value string) ([]string, error) {
			ingresses, err := v.Ingresses.ingressesUnder(t.Context(), value)
			var names []string
			for i := range ingresses {
				names = append(names, ingresses[i].Name)
			}
			return names, err
		}, want: namesOf(web)},
	} {
		if _, known := v.stores.under(reflect.TypeOf(list.of), list.index, list.some); !known {
			t.Errorf("%s: the index is not known", name)
		}
		kept := v.stores
		for way, stores := range map[string]stores{"stores": kept, "client": nil} {
			v.stores = stores
			for value, want := range map[string][]string{list.some: list.want, "other": nil} {
				got, err := list.list(value)
				slices.Sort(got)
				if !slices.Equal(got, want) || err != nil {
					t.Errorf("%s under %q, by way of the %s: %v, %v, not %v", name, value, way, got, err, want)
				}
			}
		}
		v.stores = kept
	}
	for range 2 {
		if fronts, err := v.Fronts(t.Context()); !slices.Equal(fronts, []types.NamespacedName{{Namespace: "proxies", Name: "public"}}) || err != nil {
			t.Errorf("classes name %v, %v", fronts, err)
		}
		v.stores = nil
	}
}

func namesOf[T client.Object](objects ...T) []string {
	var names []string
	for _, obj := range objects {
		names = append(names, obj.GetName())
	}
	slices.Sort(names)
	return names
}

// storing is a view of a real cache of some objects, which fill reads.
func storing(t *testing.T, objects ...client.Object) (v *View, fill func()) {
	t.Helper()
	c, err := memory.Cache(scheme(t), CacheOptions(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	if err := AddIndexes(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := AddExposureIndexes(t.Context(), c, Exposing{MaxHTTPPoints: 64}); err != nil {
		t.Fatal(err)
	}
	if v, err = NewView(t.Context(), c, c); err != nil {
		t.Fatal(err)
	}
	return v, func() {
		if err := memory.Fill(t.Context(), c, v.Synced); err != nil {
			t.Fatal(err)
		}
	}
}

// reading is read with what it finds as any, nil for nothing.
func reading[T any, P interface {
	*T
	client.Object
}](ctx context.Context, v *View, key types.NamespacedName) (any, error) {
	obj, err := read[T, P](ctx, v.objects, key)
	if obj == nil {
		return nil, err
	}
	return obj, err
}
