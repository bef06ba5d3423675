package kube

import (
	"context"

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
	if class != nil || err != nil {
		return class, err
	}
	class = &v1beta1.StreamIngressClass{}
	if found, err := r.getLive(ctx, name, class); !found {
		return nil, err
	}
	return class, nil
}

// getLive reads an object of no namespace past the cache into obj; found is false when there is none. Users write the name:
// one that no object can have is not asked for, as the client takes some of those for a mistake of ours.
func (r LiveReader) getLive(ctx context.Context, name string, obj client.Object) (found bool, err error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return false, nil
	}
	err = r.live.Get(ctx, types.NamespacedName{Name: name}, obj)
	return err == nil, client.IgnoreNotFound(err)
}

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
	if found || err != nil {
		return labels, err
	}
	ns := NamespaceObject()
	if found, err := r.getLive(ctx, name, ns); !found {
		return nil, err
	}
	return ns.Labels, nil
}

// Granted looks live for a ReferenceGrant that the cache does not have.
func (r LiveReader) Granted(ctx context.Context, from string, service types.NamespacedName) (bool, error) {
	granted, err := r.View.Granted(ctx, from, service)
	if granted || err != nil {
		return granted, err
	}
	return r.grants.granted(ctx, r.live, from, service)
}
