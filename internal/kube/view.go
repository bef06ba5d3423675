// Package kube connects the pure packages to a cluster: it shows the rules what the caches hold, keeps claims in the
// API server, and knows which fields are indexed. Admission and reconciliation share it.
//
// Objects that it returns come from shared caches and must not be changed.
package kube

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// View shows the rules what a cache holds.
type View struct {
	// Reader reads from the cache.
	Reader client.Reader
	// Occupancy knows which ports have a claim.
	Occupancy *Occupancy
	// Addresses knows which addresses have a claim.
	Addresses *Addresses
	pools     *poolBook
	targets   *targets
	written   *claim.Written
	live      client.Reader
	// tenants is live, a few objects at a time: each may have 1.5 MiB, and any number of requests may ask for one.
	tenants   client.Reader
	consents  *consentBook
	grants    grantLooks
	informers cache.Informers
	stores    stores
	warm      func() bool
	entries   observations[stream.Current]
	ports     observations[stream.ServicePorts]

	departures *departures
	exposing
	loadBalancers LoadBalancerOptions
	domain        string
}

// tenantReads is how many objects of tenants are read past the cache at a time, for requests. Reconcilers have a limit of their
// own: whoever floods the one keeps nothing in the other waiting.
const tenantReads = 8

// NewView makes a view of a cache, and begins to fill it. What the cache leaves out is read live.
func NewView(ctx context.Context, cached cache.Cache, live client.Reader) (*View, error) {
	occupancy, err := NewOccupancy(ctx, cached)
	if err != nil {
		return nil, err
	}
	addresses, err := newAddresses(ctx, cached)
	if err != nil {
		return nil, err
	}
	pools, err := newPoolBook(ctx, cached)
	if err != nil {
		return nil, err
	}
	written, err := writtenTo(ctx, cached)
	if err != nil {
		return nil, err
	}
	kept, warm, err := fill(ctx, cached)
	if err != nil {
		return nil, err
	}
	departures, err := newDepartures(ctx, cached)
	if err != nil {
		return nil, err
	}
	return &View{
		Reader: cached, Occupancy: occupancy, Addresses: addresses, pools: pools, written: written, live: live, informers: cached,
		tenants: LimitInFlight(live, tenantReads), consents: newConsentBook(cached), grants: newGrantLooks(), stores: kept, warm: warm,
		departures: departures, targets: &targets{named: map[string][]Target{}, watched: map[Target]watchedTarget{}},
	}, nil
}

// Synced says whether everything that decisions are made from has been read. Before that, every port would look free.
func (v *View) Synced() bool {
	return v.warm() && v.Occupancy.Synced() && v.Addresses.Synced() && v.pools.synced()
}

// syncPoll is how often AwaitSync looks.
const syncPoll = 10 * time.Millisecond

// AwaitSync returns when Synced, or with the error of ctx when that is done before.
func (v *View) AwaitSync(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) { return v.Synced(), nil })
}

// get reads one object into obj; found is false when there is none.
func (v *View) get(ctx context.Context, key types.NamespacedName, obj client.Object) (found bool, err error) {
	err = v.Reader.Get(ctx, key, obj)
	return err == nil, client.IgnoreNotFound(err)
}

// Known says whether the cache has an object of obj's kind and name.
func (v *View) Known(ctx context.Context, obj client.Object) (bool, error) {
	if kept, known, err := v.stores.find(reflect.TypeOf(obj), client.ObjectKeyFromObject(obj)); known {
		return kept != nil, err
	}
	return v.get(ctx, client.ObjectKeyFromObject(obj), emptyOf(obj))
}

// Exists says whether an object of obj's kind and name is stored, past the cache.
func (v *View) Exists(ctx context.Context, obj client.Object) (bool, error) {
	err := v.tenants.Get(ctx, client.ObjectKeyFromObject(obj), emptyOf(obj))
	return err == nil, client.IgnoreNotFound(err)
}

func emptyOf(obj client.Object) client.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
}

// Class reads a class, nil for none.
func (v *View) Class(ctx context.Context, name string) (*v1beta1.StreamIngressClass, error) {
	return read[v1beta1.StreamIngressClass](ctx, v, types.NamespacedName{Name: name})
}

// Classes lists all classes, by name.
func (v *View) Classes(ctx context.Context) ([]v1beta1.StreamIngressClass, error) {
	return ClassesOf(ctx, v.Reader)
}

// ClassesOf lists all classes by a reader, by name.
func ClassesOf(ctx context.Context, reader client.Reader) ([]v1beta1.StreamIngressClass, error) {
	var list v1beta1.StreamIngressClassList
	if err := reader.List(ctx, &list); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b v1beta1.StreamIngressClass) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list.Items, nil
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

// NamespaceLabels reads the labels of a namespace.
func (v *View) NamespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	labels, _, err := v.namespace(ctx, name)
	return labels, err
}

// namespace finds the labels of a namespace.
func (v *View) namespace(ctx context.Context, name string) (_ labels.Set, found bool, err error) {
	key := types.NamespacedName{Name: name}
	if kept, known, err := v.stores.find(namespaceType, key); known {
		ns, found := kept.(*metav1.PartialObjectMetadata)
		if !found {
			return nil, false, err
		}
		return ns.Labels, true, nil
	}
	ns := NamespaceObject()
	found, err = v.get(ctx, key, ns)
	return ns.Labels, found, err
}

// Service reads a Service, nil for none.
func (v *View) Service(ctx context.Context, key types.NamespacedName) (*corev1.Service, error) {
	return read[corev1.Service](ctx, v, key)
}

// Stream reads a StreamIngress, nil for none.
func (v *View) Stream(ctx context.Context, key types.NamespacedName) (*v1beta1.StreamIngress, error) {
	return read[v1beta1.StreamIngress](ctx, v, key)
}

// StreamsOf lists the streams that name a class, or that it serves.
func (v *View) StreamsOf(ctx context.Context, class string) ([]v1beta1.StreamIngress, error) {
	var list v1beta1.StreamIngressList
	err := v.Reader.List(ctx, &list, client.MatchingFields{IndexClass: class})
	return list.Items, err
}

// Within tells the view the domain of the cluster.
func (v *View) Within(domain string) { v.domain = domain }

// IsOutside answers Facts.IsOutside. It asks for the cause, a stream, as what is made for that comes and goes later; and for the
// EndpointSlice that may outlive the stream. What the Service says of its owner is not asked for: tenants can write that.
func (v *View) IsOutside(ctx context.Context, service types.NamespacedName) (bool, error) {
	if !v1beta1.IsOutsideServiceName(service.Name) {
		return false, nil
	}
	slice, err := read[discoveryv1.EndpointSlice](ctx, v, service)
	if err != nil || slice != nil && IsOwnSlice(slice) {
		return err == nil, err
	}
	var list v1beta1.StreamIngressList
	err = v.Reader.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{IndexOutside: service.Name}, client.Limit(1))
	return len(list.Items) > 0, err
}

// ClusterDomain is the domain of the names of the cluster's own Services.
func (v *View) ClusterDomain() string { return cmp.Or(v.domain, "cluster.local") }

// Unclaimed takes the ports of a class that have a claim out of a set.
func (v *View) Unclaimed(ports *stream.PortSet, class string, protocol v1beta1.Protocol) {
	v.Occupancy.Subtract(ports, class, protocol)
}
