package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StreamIngressClass is one way that streams go: a proxy, with the ConfigMaps that it reads and the Service in front of it; a Gateway
// of the Gateway API; or no proxy at all, with addresses of an AddressPool whose ports the kernel forwards; and the policy of its ports.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=portcullis
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of a class has at most 63 characters, it is used as a label value"
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].reason`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service.name`
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.enforcement`,priority=1
// +kubebuilder:printcolumn:name="Default",type=string,JSONPath=`.metadata.annotations.nginx-stream\.jeffthecoder\.xyz/is-default-class`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type StreamIngressClass struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes what stands behind the class, and the policy of its ports.
	// +required
	Spec StreamIngressClassSpec `json:"spec"`
	// status says whether what stands behind the class could be told.
	// +optional
	Status StreamIngressClassStatus `json:"status,omitempty,omitzero"`
}

// StreamIngressClassSpec describes what stands behind a class, a proxy, a Gateway or an AddressPool, and the policy of its ports.
//
// +kubebuilder:validation:XValidation:rule="has(self.tcpConfigMap) || has(self.udpConfigMap) || has(self.gateway) || has(self.addressPool)",message="at least one of tcpConfigMap and udpConfigMap must be set, or gateway, or addressPool"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !has(self.tcpConfigMap) && !has(self.udpConfigMap) && !has(self.service) && !has(self.addressPool)",message="can't be set beside tcpConfigMap, udpConfigMap, service or addressPool: a class has a proxy, a Gateway or a pool",fieldPath=".gateway"
// +kubebuilder:validation:XValidation:rule="!has(self.addressPool) || !has(self.tcpConfigMap) && !has(self.udpConfigMap) && !has(self.service)",message="can't be set beside tcpConfigMap, udpConfigMap or service: a class has a proxy or a pool",fieldPath=".addressPool"
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || has(self.addressPool)",message="can be set only beside addressPool",fieldPath=".externalTrafficPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.tcpConfigMap) || !has(self.udpConfigMap) || self.tcpConfigMap.__namespace__ != self.udpConfigMap.__namespace__ || self.tcpConfigMap.name != self.udpConfigMap.name",message="must be another ConfigMap than tcpConfigMap: both have the port as key",fieldPath=".udpConfigMap"
type StreamIngressClassSpec struct {
	// tcpConfigMap is the ConfigMap from which the proxy reads its TCP ports (ingress-nginx: --tcp-services-configmap).
	// It is created when missing. Left out: the class has no TCP ports.
	// +optional
	TCPConfigMap *ObjectReference `json:"tcpConfigMap,omitempty"`

	// udpConfigMap is the ConfigMap from which the proxy reads its UDP ports (ingress-nginx: --udp-services-configmap).
	// It is created when missing. Left out: the class has no UDP ports.
	// +optional
	UDPConfigMap *ObjectReference `json:"udpConfigMap,omitempty"`

	// service is the Service in front of the proxy, on which ports are opened. Left out for proxies on the host network.
	// +optional
	Service *ObjectReference `json:"service,omitempty"`

	// gateway is the Gateway (gateway.networking.k8s.io/v1) that has the ports of the class: each is a listener in a ListenerSet of
	// the Gateway's namespace, which spec.allowedListeners of the Gateway must let attach (from: Same), and a TCPRoute or UDPRoute
	// beside the Service that the stream leads to.
	// +optional
	Gateway *ObjectReference `json:"gateway,omitempty"`

	// addressPool is where the class has its addresses, instead of a proxy: the kernel of the nodes forwards each port of them,
	// by a Service of type LoadBalancer for each stream.
	// +optional
	AddressPool *ClassAddressPool `json:"addressPool,omitempty"`

	// externalTrafficPolicy is that of the Services of a class with an addressPool. Cluster: every node forwards to every
	// endpoint, and endpoints see the address of a node. Local: endpoints see the client's address, a node without an endpoint of
	// a stream drops its traffic, and each stream takes a node port for its health check, so that there are about 2,700 streams
	// at most. Left out: Cluster.
	// +optional
	ExternalTrafficPolicy ExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`

	// autoAssign is the range from which streams without listen get their port.
	// +optional
	AutoAssign *PortRange `json:"autoAssign,omitempty"`

	// reserved ports are never given to a stream.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Reserved []PortRange `json:"reserved,omitempty"`

	// allow gives ports to namespaces. With at least one rule, a namespace gets only the ports that a rule gives it;
	// without any, every namespace gets every port. Of several rules that give a port to a namespace, the first in the
	// list is the one that does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Allow []PortAllowance `json:"allow,omitempty"`

	// upstreamNamespaces says which namespaces a stream may send its traffic to: Same, its own only; Granted, also those
	// that consent with a ReferenceGrant; All.
	// +optional
	// +kubebuilder:default=Granted
	UpstreamNamespaces UpstreamNamespaces `json:"upstreamNamespaces,omitempty"`

	// outsideUpstreams says whether streams may lead out of the cluster (is_service: false, or a Service of type
	// ExternalName). An address outside is not told from one inside, and a name may lead anywhere: Allowed lets a stream
	// reach whatever the proxy reaches, Pods of other namespaces included. Denied takes effect on streams that are there,
	// too: their entries go, their ports stay theirs.
	// +optional
	// +kubebuilder:default=Denied
	OutsideUpstreams OutsideUpstreams `json:"outsideUpstreams,omitempty"`

	// adopt says what becomes of an entry of a ConfigMap that somebody else has written, and that a stream of the namespace
	// it leads to has taken over by saying the same, when that stream goes or listens elsewhere: Return writes it back as it
	// was, Take closes the port like any other. When the class is deleted, what its streams have replaced is written back
	// whatever it said.
	// +optional
	// +kubebuilder:default=Return
	Adopt AdoptPolicy `json:"adopt,omitempty"`

	// enforcement says what becomes of a stream that may not have what it asks of the class: Deny, it is refused; Warn, for the
	// time of a migration, it is admitted with a warning and gets no port, as its condition Accepted says, until it may have
	// one. Nobody is given what is somebody else's either way.
	// +optional
	// +kubebuilder:default=Deny
	Enforcement Enforcement `json:"enforcement,omitempty"`
}

// ClassAddressPool is where a class without a proxy has its addresses, and its Services.
//
// +kubebuilder:validation:XValidation:rule="!has(self.addresses) || self.addresses.size() < 2 || self.addresses[0].contains(':') != self.addresses[1].contains(':')",message="must be one address, or one of each IP family",fieldPath=".addresses"
type ClassAddressPool struct {
	// name of the AddressPool, whose source must be Addresses. Its selectors are for Services, and do not count.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// addresses that the class is to have: one, or one of each IP family. Left out: the lowest that is free, of each family
	// that the pool has.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=45
	Addresses []string `json:"addresses,omitempty"`

	// namespace of the Services and EndpointSlices that are written for streams. It must exist, and should be of that use
	// alone: Pods there would be told of every stream in their environment, unless enableServiceLinks is false.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
}

// ExternalTrafficPolicy says which endpoints a node forwards to.
//
// +kubebuilder:validation:Enum=Cluster;Local
type ExternalTrafficPolicy string

// The endpoints that a node forwards to.
const (
	// ExternalTrafficCluster: all of them.
	ExternalTrafficCluster ExternalTrafficPolicy = "Cluster"
	// ExternalTrafficLocal: those on the node itself.
	ExternalTrafficLocal ExternalTrafficPolicy = "Local"
)

// UpstreamNamespaces says which namespaces a stream may send its traffic to.
//
// +kubebuilder:validation:Enum=Same;Granted;All
type UpstreamNamespaces string

// The namespaces that a stream may send its traffic to.
const (
	// UpstreamSame: the namespace of the stream only.
	UpstreamSame UpstreamNamespaces = "Same"
	// UpstreamGranted: also namespaces with a ReferenceGrant from StreamIngress to Service.
	UpstreamGranted UpstreamNamespaces = "Granted"
	// UpstreamAll: every namespace.
	UpstreamAll UpstreamNamespaces = "All"
)

// AdoptPolicy says what becomes of an entry that a stream took over when the stream leaves.
// +kubebuilder:validation:Enum=Return;Take
type AdoptPolicy string

// What becomes of an entry that a stream took over.
const (
	// AdoptReturn: it is written back as it was, and is the ConfigMap's again.
	AdoptReturn AdoptPolicy = "Return"
	// AdoptTake: it is the stream's for good, for those who replace entries by streams.
	AdoptTake AdoptPolicy = "Take"
)

// Enforcement says what becomes of a stream that may not have what it asks of a class.
//
// +kubebuilder:validation:Enum=Deny;Warn
type Enforcement string

// What becomes of a stream that may not have what it asks of a class.
const (
	// EnforcementDeny: it is refused.
	EnforcementDeny Enforcement = "Deny"
	// EnforcementWarn: it is admitted with a warning, and without a port.
	EnforcementWarn Enforcement = "Warn"
)

// OutsideUpstreams says whether streams may lead out of the cluster.
//
// +kubebuilder:validation:Enum=Allowed;Denied
type OutsideUpstreams string

// Whether streams may lead out of the cluster.
const (
	// OutsideAllowed: to any unicast address, but for those where a machine is told its credentials, and to any DNS name
	// that is not in the cluster's domain. Where a name leads is not looked at.
	OutsideAllowed OutsideUpstreams = "Allowed"
	// OutsideDenied: only to Services.
	OutsideDenied OutsideUpstreams = "Denied"
)

// ObjectReference names a namespaced object of a known kind.
type ObjectReference struct {
	// namespace of the object.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// PortRange is a range of ports, both ends included.
//
// +kubebuilder:validation:XValidation:rule="!has(self.to) || self.from <= self.to",message="must not be less than from",fieldPath=".to"
type PortRange struct {
	// from is the first port, 1 to 65535.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	From int32 `json:"from"`
	// to is the last port. Left out: from, a range of one port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	To int32 `json:"to,omitempty"`
}

// PortAllowance gives a range of ports to some namespaces.
//
// +kubebuilder:validation:XValidation:rule="self.from <= self.to",message="must not be less than from",fieldPath=".to"
type PortAllowance struct {
	// protocols that are given. Left out: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Protocols []Protocol `json:"protocols,omitempty"`
	// from is the first port, 1 to 65535. Left out: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	From int32 `json:"from,omitempty"`
	// to is the last port, 1 to 65535. Left out: 65535.
	// +optional
	// +kubebuilder:default=65535
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	To int32 `json:"to,omitempty"`
	// namespaceSelector selects the namespaces by their labels. Left out or empty: all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// maxPerNamespace is how many ports the rule gives to the streams of one namespace, TCP and UDP ports together. Of
	// several rules that give a port, only the first in the list counts it, and when that one gives no more, a later one
	// does not give it either. Streams that have more when the limit comes keep them, and may each move to another port of
	// the rule. Requests at the same moment may exceed the limit by a few. Left out: as many as there are.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxPerNamespace int32 `json:"maxPerNamespace,omitempty"`
}

// StreamIngressClassStatus says whether what stands behind the class could be told.
type StreamIngressClassStatus struct {
	// observedGeneration is the metadata.generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Accepted, Programmed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// addresses are those that the class has of its addressPool, one of an IP family, or those of its Gateway.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []string `json:"addresses,omitempty"`

	// refused lists ports that hold their claim and could not be programmed, in ascending order, at most 128 of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Refused []RefusedPort `json:"refused,omitempty"`
}

// RefusedPort is a port that could not be programmed.
type RefusedPort struct {
	// protocol of the port.
	// +required
	Protocol Protocol `json:"protocol"`
	// port number.
	// +required
	Port int32 `json:"port"`
	// reason is the reason of the stream's condition Programmed.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// message is what the API server said.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
}

// StreamIngressClassList is a list of StreamIngressClasses.
//
// +kubebuilder:object:root=true
type StreamIngressClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StreamIngressClass `json:"items"`
}

// IsDefault says whether the class serves the streams that name none.
func (c *StreamIngressClass) IsDefault() bool {
	return c.Annotations[AnnotationDefaultClass] == "true"
}

// Serves says whether the class has ports of a protocol.
func (c *StreamIngressClass) Serves(protocol Protocol) bool {
	return c.Spec.AddressPool != nil || c.Spec.Gateway != nil || c.ConfigMap(protocol) != nil
}

// OnNodes says whether the class has a proxy that no Service stands in front of, so that it is on the network of the nodes.
func (c *StreamIngressClass) OnNodes() bool {
	return c.Spec.Service == nil && c.Spec.Gateway == nil && c.Spec.AddressPool == nil
}

// ConfigMap is the ConfigMap of a protocol, nil where the class does not serve it.
func (c *StreamIngressClass) ConfigMap(protocol Protocol) *ObjectReference {
	if protocol == UDP {
		return c.Spec.UDPConfigMap
	}
	return c.Spec.TCPConfigMap
}
