// Package snapshot is what kubectl-portcullis has read of a cluster, once: plain lists of objects, and which of them could not be read.
// It also finds which proxies read which ConfigMaps, as far as that can be told from outside.
//
// It knows no cluster: whoever reads one fills a Snapshot, and the rules of internal/findings and internal/doors look at it.
package snapshot

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Snapshot is what was read of a cluster. The zero value is a cluster of which nothing was read.
type Snapshot struct {
	ConfigMaps     []*corev1.ConfigMap
	Services       []*corev1.Service
	Nodes          []*corev1.Node
	Workloads      []Workload
	Ingresses      []*networkingv1.Ingress
	IngressClasses []*networkingv1.IngressClass
	Gateways       []*gatewayv1.Gateway
	ListenerSets   []*gatewayv1.ListenerSet
	// Routes are those of all kinds of the Gateway API.
	Routes  []metav1.Object
	Classes []*v1beta1.StreamIngressClass
	Claims  []*v1beta1.EdgeClaim
	// HostPolicies say which namespaces share host names.
	HostPolicies []*v1beta1.HostPolicy
	// NodePorts is the range from which the API server gives ports of the nodes.
	NodePorts Range

	// namespaces are the labels of namespaces, by name.
	namespaces map[string]labels.Set
	// ready counts the ready endpoints of Services, by the family of their addresses.
	ready map[types.NamespacedName]map[discoveryv1.AddressType]int
	// only says of kinds that were read of which namespace they were, empty for all.
	only map[string]string
	// unread are the ConfigMaps that are named and could not be read.
	unread map[types.NamespacedName]bool
}

// Range is a range of ports, both ends included.
type Range struct{ From, To int32 }

// Size is how many ports are in the range.
func (r Range) Size() int { return int(r.To) - int(r.From) + 1 }

// Has says whether a port is in the range.
func (r Range) Has(port int32) bool { return r.From <= port && port <= r.To }

// DefaultNodePorts is the range that an API server has unless it is told otherwise.
var DefaultNodePorts = Range{From: 30000, To: 32767}

// MarkRead says that a kind was read: of one namespace, or of all if that is empty.
func (s *Snapshot) MarkRead(kind, namespace string) {
	if s.only == nil {
		s.only = map[string]string{}
	}
	s.only[kind] = namespace
}

// Knows says whether all objects of a kind in a namespace were read; for an empty namespace, whether those of all namespaces were. Of
// ConfigMaps, those of streams count, wherever they are.
func (s *Snapshot) Knows(kind, namespace string) bool {
	only, read := s.only[kind]
	return read && (only == "" || only == namespace) && (kind != "ConfigMap" || len(s.unread) == 0)
}

// MarkUnread says that a ConfigMap could not be read, whether it is there or not.
func (s *Snapshot) MarkUnread(configMap types.NamespacedName) {
	if s.unread == nil {
		s.unread = map[types.NamespacedName]bool{}
	}
	s.unread[configMap] = true
}

// IsUnread says whether a ConfigMap could not be read.
func (s *Snapshot) IsUnread(configMap types.NamespacedName) bool { return s.unread[configMap] }

// AddNamespace adds the labels of a namespace.
func (s *Snapshot) AddNamespace(ns *corev1.Namespace) {
	if s.namespaces == nil {
		s.namespaces = map[string]labels.Set{}
	}
	s.namespaces[ns.Name] = ns.Labels
}

// NamespaceLabels are the labels of a namespace, nil where it is not known.
func (s *Snapshot) NamespaceLabels(name string) labels.Set { return s.namespaces[name] }

// HasNamespace says whether a namespace is known to be there.
func (s *Snapshot) HasNamespace(name string) bool {
	_, has := s.namespaces[name]
	return has
}

// Namespaces are the names of the namespaces that are known, in ascending order.
func (s *Snapshot) Namespaces() []string { return slices.Sorted(maps.Keys(s.namespaces)) }

// AddEndpointSlice counts the ready endpoints of a slice for its Service.
func (s *Snapshot) AddEndpointSlice(slice *discoveryv1.EndpointSlice) {
	key := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
	if s.ready == nil {
		s.ready = map[types.NamespacedName]map[discoveryv1.AddressType]int{}
	}
	if s.ready[key] == nil {
		s.ready[key] = map[discoveryv1.AddressType]int{}
	}
	for i := range slice.Endpoints {
		if ready := slice.Endpoints[i].Conditions.Ready; ready == nil || *ready {
			s.ready[key][slice.AddressType]++
		}
	}
}

// Ready is how many ready endpoints a Service has, in the family of addresses in which it has the most.
func (s *Snapshot) Ready(service types.NamespacedName) int {
	most := 0
	for _, n := range s.ready[service] {
		most = max(most, n)
	}
	return most
}

// Key is the namespace and name of an object.
func Key(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Index has objects by namespace and name.
func Index[T metav1.Object](objects []T) map[types.NamespacedName]T {
	index := make(map[types.NamespacedName]T, len(objects))
	for _, o := range objects {
		index[Key(o)] = o
	}
	return index
}
