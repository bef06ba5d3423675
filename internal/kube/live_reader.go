package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// LiveReader is a view for admission: what the cache does not have, and a stream would be refused for, it looks for live. A
// manifest may hold a namespace, a class or a consent, and right behind it the stream that needs it; the cache learns of
// them a moment later.
type LiveReader struct {
	*View
}

// Class reads a class, live if the cache has none.
func (r LiveReader) Class(ctx context.Context, name string) (*v1beta1.StreamIngressClass, error) {
	class, err := r.View.Class(ctx, name)
	if class != nil || err != nil || !isName(name) {
		return class, err
	}
	return readBy[v1beta1.StreamIngressClass](ctx, r.live, types.NamespacedName{Name: name})
}

// isName says whether an object of no namespace can have a name. Users write it: one that none can have is not asked for live, as
// the client takes some of those for a mistake of ours.
func isName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// Classes lists all classes. It looks live while there is no default class.
func (r LiveReader) Classes(ctx context.Context) ([]v1beta1.StreamIngressClass, error) {
	classes, err := r.View.Classes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range classes {
		if classes[i].IsDefault() {
			return classes, nil
		}
	}
	return ClassesOf(ctx, r.live)
}

// NamespaceLabels reads the labels of a namespace, live if the cache has none.
func (r LiveReader) NamespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	labels, found, err := r.namespace(ctx, name)
	if found || err != nil || !isName(name) {
		return labels, err
	}
	return labelsBy(ctx, r.live, name)
}

// labelsBy reads the labels of a namespace by a reader, none where there is none.
func labelsBy(ctx context.Context, reader client.Reader, namespace string) (labels.Set, error) {
	ns := NamespaceObject()
	err := client.IgnoreNotFound(reader.Get(ctx, types.NamespacedName{Name: namespace}, ns))
	return ns.Labels, err
}

// Granted looks live for a ReferenceGrant that the cache does not have.
func (r LiveReader) Granted(ctx context.Context, from string, service types.NamespacedName) (bool, error) {
	granted, err := r.View.Granted(ctx, from, service)
	if granted || err != nil {
		return granted, err
	}
	return r.grants.granted(ctx, r.live, from, service)
}

// AddressPool reads a pool, live if the cache has none.
func (r LiveReader) AddressPool(ctx context.Context, name string) (*v1beta1.AddressPool, error) {
	pool, err := r.View.AddressPool(ctx, name)
	if pool != nil || err != nil || !isName(name) {
		return pool, err
	}
	return readBy[v1beta1.AddressPool](ctx, r.live, types.NamespacedName{Name: name})
}

// ServiceNow reads a Service past the cache, in any case.
func (r LiveReader) ServiceNow(ctx context.Context, key types.NamespacedName) (*corev1.Service, error) {
	return readBy[corev1.Service](ctx, r.tenants, key)
}
