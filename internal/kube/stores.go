package kube

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stores are the informers of what decisions are made from, by the type of the objects that they keep. An object that is read
// from one by its name is the cached one itself. The client of the cache copies it, and makes an error of each one that is not
// there: a decision reads some ten objects, of which half are not.
type stores map[reflect.Type]toolscache.SharedIndexInformer

// namespaceType is the type of namespaces there: of nothing else, mere metadata are in a store, and fill lets no two kinds have
// one type.
var namespaceType = reflect.TypeFor[*metav1.PartialObjectMetadata]()

// find looks an object of a type up; known is false for types that have no store, and while all of the store has not been read.
func (s stores) find(kind reflect.Type, key types.NamespacedName) (obj any, known bool, err error) {
	store, kept := s[kind]
	if !kept || !store.HasSynced() {
		return nil, false, nil
	}
	obj, _, err = store.GetStore().GetByKey(toolscache.ObjectName(key).String())
	return obj, true, err
}

// under lists the objects of a type that an index of the cache has under a value, as the client of the cache does for
// client.MatchingFields; known is false as for find, and where there is no such index. The client's own way builds selectors and
// lists around what is mostly nothing.
func (s stores) under(kind reflect.Type, index, value string) (objs []any, known bool) {
	store, kept := s[kind]
	if !kept || !store.HasSynced() {
		return nil, false
	}
	objs, err := store.GetIndexer().ByIndex(fieldIndex+index, allNamespaces+value)
	return objs, err == nil
}

// keptUnder lists the objects that an index has under a value, as they are in their store; known is false as for under.
func keptUnder[P client.Object](s stores, index, value string) (kept []P, known bool) {
	found, known := s.under(reflect.TypeFor[P](), index, value)
	kept = make([]P, 0, len(found))
	for _, obj := range found {
		kept = append(kept, obj.(P))
	}
	return kept, known
}

// pointersTo are pointers to the items of a list.
func pointersTo[T any](items []T) []*T {
	pointers := make([]*T, 0, len(items))
	for i := range items {
		pointers = append(pointers, &items[i])
	}
	return pointers
}

// list lists all objects of a type; known is false as for find.
func (s stores) list(kind reflect.Type) (objs []any, known bool) {
	store, kept := s[kind]
	if !kept || !store.HasSynced() {
		return nil, false
	}
	return store.GetStore().List(), true
}

// What controller-runtime calls an index of a field, and a value there for the objects of all namespaces. TestStoresUnder holds it
// to that.
const (
	fieldIndex    = "field:"
	allNamespaces = "__all_namespaces/"
)

// read reads one object, nil when there is none: from its store, or like all others while there is no store.
func read[T any, P interface {
	*T
	client.Object
}](ctx context.Context, o *objects, key types.NamespacedName) (P, error) {
	if kept, known, err := o.stores.find(reflect.TypeFor[P](), key); known {
		obj, _ := kept.(P)
		return obj, err
	}
	return readBy[T, P](ctx, o.Reader, key)
}

// readBy reads one object by a reader, nil when there is none.
func readBy[T any, P interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, key types.NamespacedName) (P, error) {
	obj := P(new(T))
	if err := reader.Get(ctx, key, obj); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return obj, nil
}
