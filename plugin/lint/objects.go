package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// objects are those of a cluster in memory. As a client.Reader and client.Writer they are what an API server has stored; the caches of
// readers follow them at once. They are not safe for concurrent use.
type objects struct {
	scheme *runtime.Scheme
	stored map[schema.GroupKind]map[types.NamespacedName]client.Object
	// changed are called with what an object was and what it is, nil for nothing.
	changed []func(kind schema.GroupKind, before, after client.Object)
	version int64
}

var (
	_ client.Reader = &objects{}
	_ client.Writer = &objects{}
)

func newObjects(scheme *runtime.Scheme) *objects {
	return &objects{scheme: scheme, stored: map[schema.GroupKind]map[types.NamespacedName]client.Object{}}
}

// kindOf is the kind of an object, or of the items of a list.
func (o *objects) kindOf(obj runtime.Object) (schema.GroupKind, error) {
	gvk, err := apiutil.GVKForObject(obj, o.scheme)
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	return gvk.GroupKind(), err
}

// Get implements client.Reader.
func (o *objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind, err := o.kindOf(into)
	if err != nil {
		return err
	}
	found, there := o.stored[kind][key]
	if !there {
		return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}, key.Name)
	}
	return fill(into, found)
}

// fill makes one object what another is, or what its metadata are.
func fill(into, from client.Object) error {
	if partial, is := into.(*metav1.PartialObjectMetadata); is {
		metadataOf(from).DeepCopyInto(partial)
		return nil
	}
	a, b := reflect.ValueOf(into), reflect.ValueOf(from.DeepCopyObject())
	if a.Type() != b.Type() {
		return fmt.Errorf("a %T is no %T", from, into)
	}
	a.Elem().Set(b.Elem())
	return nil
}

// metadataOf is what an object has for those who read its metadata only.
func metadataOf(obj client.Object) *metav1.PartialObjectMetadata {
	if partial, is := obj.(*metav1.PartialObjectMetadata); is {
		return partial
	}
	partial := meta.AsPartialObjectMetadata(obj)
	partial.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	return partial
}

// List implements client.Reader. Of fields it knows those by which claims can be selected.
func (o *objects) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	kind, err := o.kindOf(into)
	if err != nil {
		return err
	}
	asked := (&client.ListOptions{}).ApplyOptions(options)
	var items []client.Object
	for _, obj := range o.stored[kind] {
		if selects, err := selectsField(asked, obj); err != nil {
			return err
		} else if selects && isIn(asked, obj) {
			items = append(items, obj.DeepCopyObject().(client.Object))
		}
	}
	return fillList(into, items)
}

// isIn says whether a list is to have an object, by its namespace and its labels.
func isIn(asked *client.ListOptions, obj client.Object) bool {
	return (asked.Namespace == "" || asked.Namespace == obj.GetNamespace()) &&
		(asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(obj.GetLabels())))
}

// fillList puts objects in a list, in the order of their names.
func fillList(into client.ObjectList, items []client.Object) error {
	slices.SortFunc(items, func(a, b client.Object) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	all := make([]runtime.Object, 0, len(items))
	for _, item := range items {
		if _, partial := into.(*metav1.PartialObjectMetadataList); partial {
			item = metadataOf(item)
		}
		all = append(all, item)
	}
	return meta.SetList(into, all)
}

// Create implements client.Writer.
func (o *objects) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	kind, err := o.kindOf(obj)
	if err != nil {
		return err
	}
	if _, there := o.stored[kind][client.ObjectKeyFromObject(obj)]; there {
		return apierrors.NewAlreadyExists(schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}, obj.GetName())
	}
	initialize(obj)
	return o.put(obj)
}

// initialize gives a new object what the API server gives one before anybody is asked about it.
func initialize(obj client.Object) {
	obj.SetUID(uuid.NewUUID())
	obj.SetCreationTimestamp(metav1.Now())
	obj.SetResourceVersion("")
	obj.SetGeneration(1)
	obj.SetManagedFields(nil)
	obj.SetDeletionTimestamp(nil)
}

// Update implements client.Writer.
func (o *objects) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return o.put(obj)
}

// put stores an object, as a new version.
func (o *objects) put(obj client.Object) error {
	o.version++
	obj.SetResourceVersion(strconv.FormatInt(o.version, 10))
	return o.add(obj)
}

// add stores an object in the version that it has: what comes later is newer.
func (o *objects) add(obj client.Object) error {
	kind, err := o.kindOf(obj)
	if err != nil {
		return err
	}
	if version, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64); err == nil {
		o.version = max(o.version, version)
	}
	after := obj.DeepCopyObject().(client.Object)
	gvk, err := apiutil.GVKForObject(obj, o.scheme)
	if err != nil {
		return err
	}
	after.GetObjectKind().SetGroupVersionKind(gvk)
	o.replace(kind, client.ObjectKeyFromObject(obj), after)
	return nil
}

// Delete implements client.Writer.
func (o *objects) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	kind, err := o.kindOf(obj)
	if err == nil {
		o.replace(kind, client.ObjectKeyFromObject(obj), nil)
	}
	return err
}

// replace stores an object, nil for none, and tells who follows.
func (o *objects) replace(kind schema.GroupKind, key types.NamespacedName, after client.Object) {
	before := o.stored[kind][key]
	if o.stored[kind] == nil {
		o.stored[kind] = map[types.NamespacedName]client.Object{}
	}
	if after == nil {
		delete(o.stored[kind], key)
	} else {
		o.stored[kind][key] = after
	}
	for _, changed := range o.changed {
		changed(kind, before, after)
	}
}

// errReadOnly is the answer to what no decision asks for.
var errReadOnly = errors.New("not in memory")

// Patch implements client.Writer.
func (*objects) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errReadOnly
}

// Apply implements client.Writer.
func (*objects) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errReadOnly
}

// DeleteAllOf implements client.Writer.
func (*objects) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errReadOnly
}
