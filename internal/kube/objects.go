package kube

import (
	"context"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// objects reads single objects from a cache, and past it. Every feature reads through it.
type objects struct {
	// Reader reads from the cache.
	Reader client.Reader
	live   client.Reader
	// tenants is live, a few objects at a time: each may have 1.5 MiB, and any number of requests may ask for one.
	tenants   client.Reader
	informers cache.Informers
	stores    stores
	written   *claim.Written
}

// get reads one object into obj; found is false when there is none.
func (o *objects) get(ctx context.Context, key types.NamespacedName, obj client.Object) (found bool, err error) {
	err = o.Reader.Get(ctx, key, obj)
	return err == nil, client.IgnoreNotFound(err)
}

// Known says whether the cache has an object of obj's kind and name.
func (o *objects) Known(ctx context.Context, obj client.Object) (bool, error) {
	if kept, known, err := o.stores.find(reflect.TypeOf(obj), client.ObjectKeyFromObject(obj)); known {
		return kept != nil, err
	}
	return o.get(ctx, client.ObjectKeyFromObject(obj), emptyOf(obj))
}

// Exists says whether an object of obj's kind and name is stored, past the cache.
func (o *objects) Exists(ctx context.Context, obj client.Object) (bool, error) {
	err := o.tenants.Get(ctx, client.ObjectKeyFromObject(obj), emptyOf(obj))
	return err == nil, client.IgnoreNotFound(err)
}

func emptyOf(obj client.Object) client.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
}

// Class reads a class, nil for none.
func (o *objects) Class(ctx context.Context, name string) (*v1beta1.StreamIngressClass, error) {
	return read[v1beta1.StreamIngressClass](ctx, o, types.NamespacedName{Name: name})
}

// Classes lists all classes, by name.
func (o *objects) Classes(ctx context.Context) ([]v1beta1.StreamIngressClass, error) {
	return ClassesOf(ctx, o.Reader)
}

// ClassesOnNodes lists the classes without a Service, whose proxies are on the network of the nodes.
func (o *objects) ClassesOnNodes(ctx context.Context) ([]v1beta1.StreamIngressClass, error) {
	classes, err := o.Classes(ctx)
	return slices.DeleteFunc(classes, func(c v1beta1.StreamIngressClass) bool { return !c.OnNodes() }), err
}

// Fronts lists the Services that classes name.
func (o *objects) Fronts(ctx context.Context) ([]types.NamespacedName, error) {
	if kept, known := o.stores.list(reflect.TypeFor[*v1beta1.StreamIngressClass]()); known {
		var fronts []types.NamespacedName
		for _, obj := range kept {
			if ref := obj.(*v1beta1.StreamIngressClass).Spec.Service; ref != nil {
				fronts = append(fronts, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
			}
		}
		return fronts, nil
	}
	classes, err := o.Classes(ctx)
	return frontsOf(classes), err
}

// frontsOf are the Services that some classes name.
func frontsOf(classes []v1beta1.StreamIngressClass) (fronts []types.NamespacedName) {
	for i := range classes {
		if ref := classes[i].Spec.Service; ref != nil {
			fronts = append(fronts, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return fronts
}

// ClassesOf lists all classes by a reader, by name.
func ClassesOf(ctx context.Context, reader client.Reader) ([]v1beta1.StreamIngressClass, error) {
	var list v1beta1.StreamIngressClassList
	if err := reader.List(ctx, &list); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b v1beta1.StreamIngressClass) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// NamespaceLabels reads the labels of a namespace.
func (o *objects) NamespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	labels, _, err := o.namespace(ctx, name)
	return labels, err
}

// namespace finds the labels of a namespace.
func (o *objects) namespace(ctx context.Context, name string) (_ labels.Set, found bool, err error) {
	key := types.NamespacedName{Name: name}
	if kept, known, err := o.stores.find(namespaceType, key); known {
		ns, found := kept.(*metav1.PartialObjectMetadata)
		if !found {
			return nil, false, err
		}
		return ns.Labels, true, nil
	}
	ns := NamespaceObject()
	found, err = o.get(ctx, key, ns)
	return ns.Labels, found, err
}

// NamespaceObject is what is cached of namespaces: their metadata.
func NamespaceObject() *metav1.PartialObjectMetadata { return metadataOf("Namespace") }

// ConfigMapObject is what is cached of the ConfigMaps that bear the label of a class: their metadata.
func ConfigMapObject() *metav1.PartialObjectMetadata { return metadataOf(configMapKind) }

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return obj
}

// Service reads a Service, nil for none.
func (o *objects) Service(ctx context.Context, key types.NamespacedName) (*corev1.Service, error) {
	return read[corev1.Service](ctx, o, key)
}

// servicesUnder lists the Services that an index of the cache has under a key.
func (o *objects) servicesUnder(ctx context.Context, index, key string) ([]*corev1.Service, error) {
	if kept, known := keptUnder[*corev1.Service](o.stores, index, key); known {
		return kept, nil
	}
	var list corev1.ServiceList
	err := o.Reader.List(ctx, &list, client.MatchingFields{index: key})
	return pointersTo(list.Items), err
}

// ServiceNow reads a Service as it is now, as far as the cache knows.
func (o *objects) ServiceNow(ctx context.Context, key types.NamespacedName) (*corev1.Service, error) {
	return o.Service(ctx, key)
}

// AddressPool reads a pool, accepted or not, nil when there is none.
func (o *objects) AddressPool(ctx context.Context, name string) (*v1beta1.AddressPool, error) {
	return read[v1beta1.AddressPool](ctx, o, types.NamespacedName{Name: name})
}
