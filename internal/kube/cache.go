package kube

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// The indexes of the cache.
const (
	// FieldHolder is the field by which the API server finds EdgeClaims by their holder in one line. The cache has indexHolder for that.
	FieldHolder = "spec.heldBy"
	// indexHolder finds EdgeClaims by the neighborhood of their holder: see holderKey.
	indexHolder = "holder"
	// IndexHeir finds EdgeClaims by their heir in one line.
	IndexHeir = "heir"
	// IndexServed finds the EdgeClaims that Services have for proxies: by the scope of the ports of the proxy's class, and by the
	// name of the claim on that port there.
	IndexServed = "served"
	// IndexScope finds EdgeClaims by their scope.
	IndexScope = "spec.scope"
	// IndexClass finds StreamIngresses by the class that they name, or that serves them, "" for those with neither; and by the one
	// that they move from.
	IndexClass = "class"
	// IndexUpstream finds StreamIngresses by the namespace/name of their upstream Service, and by its namespace/.
	IndexUpstream = "upstream"
	// IndexOutside finds StreamIngresses whose upstream is outside the cluster by the name of the Service that they have for it.
	IndexOutside = "outside"
	// IndexListen finds StreamIngresses by the protocol and the neighborhood of the port that they ask for or have been
	// given. It is read by Streams.At.
	IndexListen = "listen"
)

// EndpointSliceManager is the value of the label endpointslice.kubernetes.io/managed-by on EndpointSlices of ours.
const EndpointSliceManager = "portcullis." + v1beta1.GroupName

// MirrorManager is the value of the label endpointslice.kubernetes.io/managed-by on EndpointSlices that Portcullis mirrors for streams.
const MirrorManager = "portcullis-mirror." + v1beta1.GroupName

// IsOwnSlice says whether an EndpointSlice is one that Portcullis has made. Tenants can't write its labels.
func IsOwnSlice(slice client.Object) bool {
	return slice.GetLabels()[discoveryv1.LabelManagedBy] == EndpointSliceManager
}

// CacheOptions say what is cached of each kind: what is read, and no more of it than can mean something, as metadata.go
// explains. What classes name is not held here, but by targets; of ConfigMaps, only the metadata of those that bear the label
// of a class is. Cached objects are shared and must not be changed. Nor may one be written back whole: what was left out would
// be lost.
func CacheOptions() cache.Options {
	shared := true
	labeled, err := labels.NewRequirement(v1beta1.LabelClass, selection.Exists, nil)
	if err != nil {
		panic(err) // the label is a constant
	}
	return cache.Options{
		DefaultUnsafeDisableDeepCopy: &shared,
		DefaultTransform:             slim,
		NewInformer:                  newInformer,
		ByObject:                     map[client.Object]cache.ByObject{ConfigMapObject(): {Label: labels.NewSelector().Add(*labeled)}},
	}
}

// AddIndexes adds the indexes to a cache.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	indexes := append(forwardingIndexes(),
		indexOf(&v1beta1.StreamIngress{}, IndexClass, classesOf),
		indexOf(&v1beta1.StreamIngress{}, IndexUpstream, func(s *v1beta1.StreamIngress) []string {
			return []string{s.UpstreamNamespace() + "/" + s.UpstreamService(), s.UpstreamNamespace() + "/"}
		}),
		indexOf(&v1beta1.StreamIngress{}, IndexOutside, func(s *v1beta1.StreamIngress) []string {
			if !s.Outside() {
				return nil
			}
			return []string{v1beta1.OutsideServiceName(s.Name)}
		}),
		indexOf(&v1beta1.StreamIngress{}, IndexListen, listenKeys),
		indexOf(&corev1.Service{}, indexListed, listedKeys),
	)
	for name, keys := range claimIndexes {
		indexes = append(indexes, indexOf(&v1beta1.EdgeClaim{}, name, keys))
	}
	return addIndexes(ctx, indexer, indexes...)
}

// index finds objects of the kind of an empty one by keys.
type index struct {
	of   client.Object
	name string
	keys client.IndexerFunc
}

func indexOf[T client.Object](of T, name string, keys func(T) []string) index {
	return index{of, name, func(obj client.Object) []string { return keys(obj.(T)) }}
}

func addIndexes(ctx context.Context, indexer client.FieldIndexer, indexes ...index) error {
	for _, i := range indexes {
		if err := indexer.IndexField(ctx, i.of, i.name, i.keys); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", i.of, i.name, err)
		}
	}
	return nil
}

// fill starts to cache everything that decisions are made from, so that the first request finds it there: on replicas
// that do not lead, nothing else would ask for it before. It returns where that is kept; synced says whether all of it is there.
func fill(ctx context.Context, c cache.Cache) (kept stores, synced func() bool, err error) {
	var informers []cache.Informer
	kept = stores{}
	for _, obj := range []client.Object{
		&v1beta1.StreamIngress{}, &v1beta1.StreamIngressClass{}, &v1beta1.EdgeClaim{},
		&corev1.Service{}, NamespaceObject(), &discoveryv1.EndpointSlice{}, &networkingv1.Ingress{}, &networkingv1.IngressClass{},
		&v1beta1.AddressPool{}, &v1beta1.HostPolicy{},
	} {
		informer, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, nil, fmt.Errorf("caching %T: %w", obj, err)
		}
		informers = append(informers, informer)
		if indexed, ok := informer.(toolscache.SharedIndexInformer); ok && indexed.GetStore() != nil { // fakes have none
			if kept[reflect.TypeOf(obj)] != nil {
				return nil, nil, fmt.Errorf("two kinds are cached as %T", obj)
			}
			kept[reflect.TypeOf(obj)] = indexed
		}
	}
	return kept, func() bool {
		return !slices.ContainsFunc(informers, func(i cache.Informer) bool { return !i.HasSynced() })
	}, nil
}

// ClassName is the class that a stream names, or that serves it; empty for a new stream of the default class.
func ClassName(s *v1beta1.StreamIngress) string {
	if s.Spec.ClassName != "" {
		return s.Spec.ClassName
	}
	return s.Status.ClassName
}

// classesOf are the classes of a stream for IndexClass.
func classesOf(s *v1beta1.StreamIngress) []string {
	classes := []string{ClassName(s)}
	if p := s.Status.Previous; p != nil && p.ClassName != classes[0] {
		classes = append(classes, p.ClassName)
	}
	return classes
}

// neighbors is how many ports have one key in IndexListen. A key takes some 290 bytes, and controller-runtime makes one more for each
// namespace that has a stream there: with 16 ports to a key, 10,000 streams of 32 namespaces had 10,000 of them, 3 MB.
const neighbors = 64

func listenKey(protocol v1beta1.Protocol, port int32) string {
	if port == 0 {
		return string(protocol) // waits to be given one
	}
	return fmt.Sprintf("%s/%d", protocol, port/neighbors)
}

// listens are the ports that a stream asks for or has been given; 0 says that it waits to be given one.
func listens(s *v1beta1.StreamIngress) []int32 {
	if s.Spec.Listen == nil {
		return []int32{s.Status.Listen}
	}
	ports := []int32{*s.Spec.Listen}
	if had := s.Status.Listen; had != 0 && had != *s.Spec.Listen {
		ports = append(ports, had)
	}
	return ports
}

func listenKeys(s *v1beta1.StreamIngress) []string {
	var keys []string
	for _, port := range listens(s) {
		keys = append(keys, listenKey(s.ProtocolOrDefault(), port))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
