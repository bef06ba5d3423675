package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddressPool is where Services of type LoadBalancer get their addresses.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=portcullis
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of a pool has at most 63 characters, it is used as a label value"
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source`
// +kubebuilder:printcolumn:name="Auto",type=boolean,JSONPath=`.spec.autoAssign`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="Assigned",type=integer,JSONPath=`.status.assigned`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.free`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AddressPool struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which addresses the pool has, and who gets them.
	// +required
	Spec AddressPoolSpec `json:"spec"`
	// status says how many addresses are left.
	// +optional
	Status AddressPoolStatus `json:"status,omitempty,omitzero"`
}

// AddressPoolSpec says which addresses a pool has, and who gets them.
//
// +kubebuilder:validation:XValidation:rule="(self.source == 'Addresses') == (has(self.addresses) && self.addresses.size() > 0)",message="must be set for the source Addresses, and only there",fieldPath=".addresses"
// +kubebuilder:validation:XValidation:rule="self.source == 'NodeIP' || !has(self.nodeSelector)",message="may only be set for the source NodeIP",fieldPath=".nodeSelector"
// +kubebuilder:validation:XValidation:rule="self.source == 'NodeIP' || !has(self.nodeAddressType)",message="may only be set for the source NodeIP",fieldPath=".nodeAddressType"
// +kubebuilder:validation:XValidation:rule="self.source == 'Addresses' || !has(self.avoidBuggyIPs) || !self.avoidBuggyIPs",message="may only be set for the source Addresses",fieldPath=".avoidBuggyIPs"
// +kubebuilder:validation:XValidation:rule="self.source == 'Addresses' || !has(self.sharing) || self.sharing == (self.source == 'NodeIP' ? 'Ports' : 'None')",message="node addresses are always shared by ports, and cluster IPs never are: leave it out",fieldPath=".sharing"
// +kubebuilder:validation:XValidation:rule="(has(self.sharing) ? self.sharing : self.source == 'NodeIP' ? 'Ports' : 'None') == (has(oldSelf.sharing) ? oldSelf.sharing : oldSelf.source == 'NodeIP' ? 'Ports' : 'None')",message="can't be changed: make another pool",fieldPath=".sharing"
// +kubebuilder:validation:XValidation:rule="self.source != 'ClusterIP' || !has(self.maxPerNamespace)",message="may not be set for the source ClusterIP: each Service has cluster IPs of its own",fieldPath=".maxPerNamespace"
type AddressPoolSpec struct {
	// source of the addresses: Addresses, those listed; NodeIP, those of the nodes that are ready; ClusterIP, the
	// Service's own cluster IPs, for networks that route them. It can't be changed.
	// +optional
	// +kubebuilder:default=Addresses
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="can't be changed: make another pool"
	Source AddressSource `json:"source,omitempty"`

	// addresses of the source Addresses: CIDRs (192.0.2.0/24), ranges (192.0.2.10-192.0.2.20), both ends included, or
	// single addresses, IPv4 and IPv6. They may not overlap, neither each other nor those of another pool.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=100
	Addresses []string `json:"addresses,omitempty"`

	// avoidBuggyIPs leaves out IPv4 addresses that old devices take for broadcasts: those that end in .0 and .255, and the
	// first and the last address of each CIDR that has more than two.
	// +optional
	AvoidBuggyIPs bool `json:"avoidBuggyIPs,omitempty"`

	// sharing says what a Service gets: None, an address of its own; Ports, its ports of an address that other Services
	// may have other ports of. It can't be changed. Left out: None, and Ports for the source NodeIP.
	// +optional
	Sharing AddressSharing `json:"sharing,omitempty"`

	// autoAssign says whether Services that ask for nothing in particular are served from this pool. false: only those
	// that name the pool or one of its addresses.
	// +optional
	// +kubebuilder:default=true
	AutoAssign *bool `json:"autoAssign,omitempty"`

	// priority orders the pools that can serve a Service: the highest comes first, pools of one priority by name.
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// serviceSelector selects the Services that may be served, by their labels, which may take 4 KiB together: with more, no
	// selector selects a Service. Left out or empty: all.
	// +optional
	ServiceSelector *metav1.LabelSelector `json:"serviceSelector,omitempty"`

	// namespaceSelector selects the namespaces whose Services may be served, by their labels. Left out or empty: all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// maxPerNamespace is how much of the pool the Services of one namespace get: addresses, or, where these are shared,
	// ports, each of which counts on each address. Ports of the nodes count for every pool of the source NodeIP, as all of
	// these give the same ones. Services that have more when the limit comes keep it, and may change each port for another.
	// A Service that a StreamIngressClass names neither counts nor is limited. Requests at the same moment may exceed the
	// limit by a few. Left out: as much as there is.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxPerNamespace int32 `json:"maxPerNamespace,omitempty"`

	// nodeSelector selects the nodes of the source NodeIP, by their labels. Left out or empty: all.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// nodeAddressType is the type of the nodes' addresses that the source NodeIP gives: InternalIP, which is what it is
	// when left out, or ExternalIP. It has to be what packets bear when they reach a node.
	// +optional
	NodeAddressType NodeAddressType `json:"nodeAddressType,omitempty"`
}

// AddressSource says where a pool's addresses come from.
//
// +kubebuilder:validation:Enum=Addresses;NodeIP;ClusterIP
type AddressSource string

// The sources of addresses.
const (
	// SourceAddresses: the addresses that the pool lists.
	SourceAddresses AddressSource = "Addresses"
	// SourceNodeIP: the addresses of the nodes that are ready.
	SourceNodeIP AddressSource = "NodeIP"
	// SourceClusterIP: the Service's own cluster IPs.
	SourceClusterIP AddressSource = "ClusterIP"
)

// AddressSharing says what of an address a Service gets.
//
// +kubebuilder:validation:Enum=None;Ports
type AddressSharing string

// What of an address a Service gets.
const (
	// SharingNone: the address is the Service's alone.
	SharingNone AddressSharing = "None"
	// SharingPorts: only the ports of the Service are.
	SharingPorts AddressSharing = "Ports"
)

// NodeAddressType is a type of the addresses of a node.
//
// +kubebuilder:validation:Enum=InternalIP;ExternalIP
type NodeAddressType string

// The types of the addresses of a node that a pool can give.
const (
	NodeInternalIP NodeAddressType = "InternalIP"
	NodeExternalIP NodeAddressType = "ExternalIP"
)

// AddressPoolStatus says how many addresses are left.
type AddressPoolStatus struct {
	// observedGeneration is the metadata.generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// total is how many addresses the pool has, at most 2^63-1. It is there for the source Addresses only.
	// +optional
	Total *int64 `json:"total,omitempty"`
	// assigned is how many of them at least one Service has.
	// +optional
	Assigned *int64 `json:"assigned,omitempty"`
	// free is how many of them no Service has.
	// +optional
	Free *int64 `json:"free,omitempty"`

	// conditions: Accepted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AddressPoolList is a list of AddressPools.
//
// +kubebuilder:object:root=true
type AddressPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AddressPool `json:"items"`
}

// SourceOrDefault is where the addresses come from.
func (p *AddressPool) SourceOrDefault() AddressSource {
	if p.Spec.Source == "" {
		return SourceAddresses
	}
	return p.Spec.Source
}

// SharingOrDefault is what of an address a Service gets.
func (p *AddressPool) SharingOrDefault() AddressSharing {
	switch {
	case p.SourceOrDefault() == SourceNodeIP:
		return SharingPorts
	case p.Spec.Sharing == "":
		return SharingNone
	default:
		return p.Spec.Sharing
	}
}

// AutoAssigns says whether Services that ask for nothing in particular are served from the pool.
func (p *AddressPool) AutoAssigns() bool { return p.Spec.AutoAssign == nil || *p.Spec.AutoAssign }
