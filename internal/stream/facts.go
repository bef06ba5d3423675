package stream

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// Facts are what the rules for streams and their classes see of the cluster. What is not there is nil. Whoever answers for a
// cluster that can't be read answers with nothing, and drops what the rule makes of that.
type Facts interface {
	ClassFacts
	UpstreamFacts
	LimitFacts
	FrontFacts
	// NamespaceLabels are the labels of a namespace.
	NamespaceLabels(name string) labels.Set
	// Foreign is what is at a port on the class's proxy that was not made by Portcullis, ok is false for nothing.
	Foreign(class *v1beta1.StreamIngressClass, port PortKey) (f Foreign, ok bool)
}

// ClassFacts are what the rules see of classes.
type ClassFacts interface {
	// Class is a class by name.
	Class(name string) *v1beta1.StreamIngressClass
	// Classes are all classes, by name.
	Classes() []v1beta1.StreamIngressClass
}

// UpstreamFacts are what the rules see of where streams lead.
type UpstreamFacts interface {
	// Service is a Service.
	Service(key types.NamespacedName) *corev1.Service
	// IsOutside says whether a Service is the one of a stream that leads out of the cluster, made by Portcullis or yet to be made.
	IsOutside(service types.NamespacedName) bool
	// ClusterDomain is the domain of the names of the cluster's own Services.
	ClusterDomain() string
	// Granted says whether a ReferenceGrant in the Service's namespace lets StreamIngresses of a namespace point to it.
	Granted(from string, service types.NamespacedName) bool
}

// LimitFacts are what the rules see of how much the streams of a namespace have.
type LimitFacts interface {
	// ClaimsOfNamespace are the claims in a family of scopes that the objects of a namespace have; see claim.ScopeFamily.
	ClaimsOfNamespace(namespace, family string) []*v1beta1.EdgeClaim
	// Stream is a StreamIngress.
	Stream(key types.NamespacedName) *v1beta1.StreamIngress
}

// FrontFacts are what the rules see of the Service in front of a proxy, as a load balancer.
type FrontFacts interface {
	loadbalancer.NodeFacts
	// Classes are all classes, by name.
	Classes() []v1beta1.StreamIngressClass
	// Service is a Service.
	Service(key types.NamespacedName) *corev1.Service
	// IsOurs says whether a Service is a load balancer that is Portcullis' to serve.
	IsOurs(svc *corev1.Service) bool
	// Held are the points that a holder has claims on, in ascending order.
	Held(by claim.Holder) []claim.Coordinate
	// ClaimedPorts are the claims on ports of an address.
	ClaimedPorts(ip netip.Addr) []*v1beta1.EdgeClaim
	// Listing are the Services that are served at an address by their status, and do not hold all that it lists there.
	Listing(ip netip.Addr) []*corev1.Service
	// ListingOnNodes are the Services that have a port of the nodes by their status, and do not hold it.
	ListingOnNodes(at claim.Coordinate) []*corev1.Service
	// StillLists says whether a Service that Listing or ListingOnNodes have found lists a point now: either may not know yet.
	StillLists(svc *corev1.Service, at claim.Coordinate) bool
	// NodePortClaims are the claims on ports of the nodes.
	NodePortClaims() []*v1beta1.EdgeClaim
	// ReservedNodePorts are the ports of the nodes that no Service gets.
	ReservedNodePorts() loadbalancer.PortRanges
	// Unclaimed takes the ports of a class that have a claim out of a set.
	Unclaimed(ports *PortSet, class string, protocol v1beta1.Protocol)
	// GivesNodes says whether there is a pool that gives Services the addresses of nodes.
	GivesNodes() bool
}

// Foreign is an entry or a port that was not made by Portcullis.
type Foreign struct {
	// Holder is the ConfigMap or the Service that it is in.
	Holder claim.Claimant
	// Entry is the value of the ConfigMap key, empty for the port of a Service.
	Entry string
}
