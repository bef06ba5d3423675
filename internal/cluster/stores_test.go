package cluster

import (
	"context"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
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
	c, err := memory.Cache(scheme(t), CacheOptions(), objects...)
	if err != nil {
		t.Fatal(err)
	}
	if err := AddIndexes(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	v, err := NewView(t.Context(), c, c)
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range kinds {
		if _, known, err := v.stores.find(reflect.TypeOf(kind.obj), client.ObjectKeyFromObject(kind.obj)); known || err != nil {
			t.Errorf("%s: known %v, error %v, before anything has been read", name, known, err)
		}
	}
	if err := memory.Fill(t.Context(), c, v.Synced); err != nil {
		t.Fatal(err)
	}
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

// reading is read with what it finds as any, nil for nothing.
func reading[T any, P interface {
	*T
	client.Object
}](ctx context.Context, v *View, key types.NamespacedName) (any, error) {
	obj, err := read[T, P](ctx, v, key)
	if obj == nil {
		return nil, err
	}
	return obj, err
}
