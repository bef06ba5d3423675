package lint

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// caches are those of a manager, with its options, that follow objects in memory: a change is known before the call that makes it returns.
// What they hand out is shared and must not be changed, as a manager's.
type caches struct {
	objects *objects
	options cache.Options
	kinds   map[cacheKey]*kindCache
}

var _ cache.Cache = &caches{}

// cacheKey is a kind, or the metadata of one.
type cacheKey struct {
	schema.GroupKind
	isMetadata bool
}

func newCaches(o *objects, options cache.Options) *caches {
	c := &caches{objects: o, options: options, kinds: map[cacheKey]*kindCache{}}
	o.changed = append(o.changed, func(kind schema.GroupKind, before, after client.Object) {
		for _, isMetadata := range []bool{false, true} {
			if k := c.kinds[cacheKey{kind, isMetadata}]; k != nil {
				k.set(before, after)
			}
		}
	})
	return c
}

// of is the cache of the kind of an object or a list.
func (c *caches) of(obj runtime.Object) (*kindCache, error) {
	key := cacheKey{}
	var err error
	if key.GroupKind, err = c.objects.kindOf(obj); err != nil {
		return nil, err
	}
	switch obj.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		key.isMetadata = true
	}
	if k := c.kinds[key]; k != nil {
		return k, nil
	}
	k := &kindCache{
		key: key, options: c.optionsOf(key), objects: map[types.NamespacedName]client.Object{}, indexes: map[string]*fieldIndex{},
	}
	c.kinds[key] = k
	for _, obj := range c.objects.stored[key.GroupKind] {
		k.set(nil, obj)
	}
	return k, nil
}

// optionsOf says what is cached of a kind.
func (c *caches) optionsOf(key cacheKey) cache.ByObject {
	for obj, options := range c.options.ByObject {
		_, isMetadata := obj.(*metav1.PartialObjectMetadata)
		if kind, err := c.objects.kindOf(obj); err == nil && kind == key.GroupKind && isMetadata == key.isMetadata {
			if options.Transform == nil {
				options.Transform = c.options.DefaultTransform
			}
			return options
		}
	}
	return cache.ByObject{Transform: c.options.DefaultTransform}
}

// Get implements client.Reader.
func (c *caches) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	k, err := c.of(into)
	if err != nil {
		return err
	}
	found, there := k.objects[key]
	if !there {
		return apierrors.NewNotFound(schema.GroupResource{Group: k.key.Group, Resource: k.key.Kind}, key.Name)
	}
	return fill(into, found)
}

// List implements client.Reader.
func (c *caches) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	k, err := c.of(into)
	if err != nil {
		return err
	}
	asked := (&client.ListOptions{}).ApplyOptions(options)
	from := k.objects
	if asked.FieldSelector != nil {
		required := asked.FieldSelector.Requirements()
		if len(required) != 1 || k.indexes[required[0].Field] == nil {
			return errNoIndex
		}
		from = k.indexes[required[0].Field].objects[required[0].Value]
	}
	var items []client.Object
	for _, obj := range from {
		if isIn(asked, obj) {
			items = append(items, obj)
		}
	}
	return fillList(into, items)
}

// errNoIndex is what a cache says of a field that nobody has indexed.
var errNoIndex = errors.New("no index of that field")

// IndexField implements client.FieldIndexer.
func (c *caches) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	k, err := c.of(obj)
	if err != nil {
		return err
	}
	index := &fieldIndex{values: values, objects: map[string]map[types.NamespacedName]client.Object{}}
	k.indexes[field] = index
	for key, obj := range k.objects {
		index.set(key, nil, obj)
	}
	return nil
}

// GetInformer implements cache.Informers.
func (c *caches) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return c.of(obj)
}

// GetInformerForKind implements cache.Informers.
func (c *caches) GetInformerForKind(
	_ context.Context, kind schema.GroupVersionKind, _ ...cache.InformerGetOption,
) (cache.Informer, error) {
	obj, err := c.objects.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	return c.of(obj)
}

// RemoveInformer implements cache.Informers.
func (*caches) RemoveInformer(context.Context, client.Object) error { return nil }

// Start implements cache.Informers.
func (*caches) Start(context.Context) error { return nil }

// WaitForCacheSync implements cache.Informers.
func (*caches) WaitForCacheSync(context.Context) bool { return true }

// selectsField says whether the fields by which the API server selects claims are what a list asks for.
func selectsField(asked *client.ListOptions, obj client.Object) (bool, error) {
	if asked.FieldSelector == nil {
		return true, nil
	}
	c, is := obj.(*v1beta1.EdgeClaim)
	if !is {
		return false, errNoIndex
	}
	return asked.FieldSelector.Matches(fields.Set{kube.IndexScope: c.Spec.Scope, kube.FieldHolder: c.Spec.HeldBy}), nil
}
