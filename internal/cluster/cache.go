package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// The indexes of the cache.
const (
	// IndexHolder finds EdgeClaims by their holder in one line.
	IndexHolder = "spec.heldBy"
	// IndexScope finds EdgeClaims by their scope.
	IndexScope = "spec.scope"
	// IndexClass finds StreamIngresses by the class that they name, or that serves them; "" for those with neither.
	IndexClass = "class"
	// IndexUpstream finds StreamIngresses by the namespace/name of their upstream Service, and by its namespace/.
	IndexUpstream = "upstream"
	// IndexListen finds StreamIngresses by the protocol and the neighborhood of the port that they ask for or have been
	// given. It is read by StreamsAt.
	IndexListen = "listen"
)

// EndpointSliceManager is the value of the label endpointslice.kubernetes.io/managed-by on EndpointSlices of ours.
const EndpointSliceManager = "portcullis." + v1beta1.GroupName

// CacheOptions say what is cached: ConfigMaps only where a class has labeled them, namespaces as metadata, and
// Services without what nobody reads. Of Pods, PodToIPs, nodes and EndpointSlices only what is used is kept. Cached
// objects are shared and must not be changed.
func CacheOptions() cache.Options {
	shared := true
	labeled, err := labels.NewRequirement(v1beta1.LabelClass, selection.Exists, nil)
	if err != nil {
		panic(err) // the label is a constant
	}
	return cache.Options{
		DefaultUnsafeDisableDeepCopy: &shared,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}:          {Label: labels.NewSelector().Add(*labeled), Transform: slimConfigMap},
			&corev1.Service{}:            {Transform: slimService},
			&discoveryv1.EndpointSlice{}: {Transform: slimEndpointSlice},
			&corev1.Node{}:               {Transform: slimNode},
			NamespaceObject():            {Transform: cache.TransformStripManagedFields()},
			&v1beta1.StreamIngress{}:     {Transform: slimStream},
			&v1beta1.EdgeClaim{}:         {Transform: slimClaim},
			&v1beta1.AddressPool{}:       {Transform: cache.TransformStripManagedFields()},
			&corev1.Pod{}:                {Transform: slimPod},
			&v1beta1.PodToIP{}:           {Transform: slimPodToIP},
			&networkingv1.Ingress{}:      {Transform: cache.TransformStripManagedFields()},
			&networkingv1.IngressClass{}: {Transform: cache.TransformStripManagedFields()},
		},
	}
}

// slimConfigMap drops the data of ConfigMaps that bear the label but that Portcullis has not written to: anybody may set
// a label, on as many and as large ConfigMaps as they like.
func slimConfigMap(obj any) (any, error) {
	if cm, ok := obj.(*corev1.ConfigMap); ok && !Applied(cm) {
		cm.Data, cm.BinaryData, cm.ManagedFields = nil, nil, nil
		delete(cm.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	return obj, nil
}

// Applied says whether Portcullis has applied anything to an object.
func Applied(obj metav1.Object) bool {
	return slices.ContainsFunc(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == stream.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply
	})
}

// slimService drops the managed fields of Services that no class writes to; those of the others tell who owns a port. Of
// Services that ask for nothing, which most do, it drops labels
// and selector, too.
func slimService(obj any) (any, error) {
	svc, ok := obj.(*corev1.Service)
	if !ok || svc.Labels[v1beta1.LabelClass] != "" {
		return obj, nil
	}
	svc.ManagedFields = nil
	delete(svc.Annotations, corev1.LastAppliedConfigAnnotation)
	// What has an owner may be the Service of an outside upstream, which is set right field by field.
	if _, asked := exposure.Asked(svc); !asked && svc.Spec.Type != corev1.ServiceTypeLoadBalancer && len(svc.OwnerReferences) == 0 {
		svc.Labels, svc.Spec.Selector = nil, nil
	}
	share(&svc.Namespace)
	share(&svc.Spec.Type)
	share(&svc.Spec.SessionAffinity)
	for i := range svc.Spec.IPFamilies {
		share(&svc.Spec.IPFamilies[i])
	}
	for i := range svc.Spec.Ports {
		share(&svc.Spec.Ports[i].Name)
		share(&svc.Spec.Ports[i].Protocol)
	}
	return svc, nil
}

// slimStream drops what nobody reads of a StreamIngress, and shares what many of them have in common.
func slimStream(obj any) (any, error) {
	s, ok := obj.(*v1beta1.StreamIngress)
	if !ok {
		return obj, nil
	}
	s.ManagedFields = nil
	delete(s.Annotations, corev1.LastAppliedConfigAnnotation)
	shareMeta(&s.TypeMeta, &s.ObjectMeta)
	share(&s.Spec.ClassName)
	share(&s.Spec.Protocol)
	share(&s.Spec.Upstream.Namespace)
	share(&s.Spec.Upstream.Service)
	share(&s.Status.ClassName)
	for i := range s.Status.Addresses {
		share(&s.Status.Addresses[i])
	}
	for i := range s.Status.Conditions {
		c := &s.Status.Conditions[i]
		share(&c.Type)
		share(&c.Status)
		share(&c.Reason)
	}
	return s, nil
}

// slimClaim drops what nobody reads of an EdgeClaim, and shares what many of them have in common.
func slimClaim(obj any) (any, error) {
	c, ok := obj.(*v1beta1.EdgeClaim)
	if !ok {
		return obj, nil
	}
	c.ManagedFields = nil
	shareMeta(&c.TypeMeta, &c.ObjectMeta)
	share(&c.Spec.Scope)
	share(&c.Spec.Holder.Group)
	share(&c.Spec.Holder.Kind)
	share(&c.Spec.Holder.Namespace)
	return c, nil
}

// AddIndexes adds the indexes to a cache.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	type index struct {
		of    client.Object
		name  string
		value client.IndexerFunc
	}
	for _, i := range []index{
		{&v1beta1.EdgeClaim{}, IndexHolder, func(o client.Object) []string {
			return []string{claim.HolderOf(o.(*v1beta1.EdgeClaim)).String()}
		}},
		{&v1beta1.EdgeClaim{}, IndexScope, func(o client.Object) []string { return []string{o.(*v1beta1.EdgeClaim).Spec.Scope} }},
		{&v1beta1.StreamIngress{}, IndexClass, func(o client.Object) []string { return []string{ClassName(o.(*v1beta1.StreamIngress))} }},
		{&v1beta1.StreamIngress{}, IndexUpstream, func(o client.Object) []string {
			s := o.(*v1beta1.StreamIngress)
			return []string{s.UpstreamNamespace() + "/" + s.UpstreamService(), s.UpstreamNamespace() + "/"}
		}},
		{&v1beta1.StreamIngress{}, IndexListen, func(o client.Object) []string { return listenKeys(o.(*v1beta1.StreamIngress)) }},
	} {
		if err := indexer.IndexField(ctx, i.of, i.name, i.value); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", i.of, i.name, err)
		}
	}
	return nil
}

// Warm starts to cache everything that decisions are made from, so that the first request finds it there: on replicas
// that do not lead, nothing else would ask for it before. synced says whether all of it is there.
func Warm(ctx context.Context, c cache.Cache) (synced func() bool, err error) {
	var informers []cache.Informer
	for _, obj := range []client.Object{
		&v1beta1.StreamIngress{}, &v1beta1.StreamIngressClass{}, &v1beta1.EdgeClaim{},
		&corev1.ConfigMap{}, &corev1.Service{}, NamespaceObject(), &networkingv1.Ingress{}, &networkingv1.IngressClass{},
		&v1beta1.AddressPool{},
	} {
		informer, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("caching %T: %w", obj, err)
		}
		informers = append(informers, informer)
	}
	return func() bool {
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

// neighbors is how many ports have one key in IndexListen: a key of its own for each port takes more memory than the
// streams there do.
const neighbors = 16

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

// StreamsAt lists the streams of any class that ask for a port or have been given it; port 0 stands for those that wait to
// be given one.
func (v *View) StreamsAt(ctx context.Context, protocol v1beta1.Protocol, port int32) ([]v1beta1.StreamIngress, error) {
	var list v1beta1.StreamIngressList
	err := v.Reader.List(ctx, &list, client.MatchingFields{IndexListen: listenKey(protocol, port)})
	return slices.DeleteFunc(list.Items, func(s v1beta1.StreamIngress) bool { return !slices.Contains(listens(&s), port) }), err
}
