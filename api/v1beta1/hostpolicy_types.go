package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HostPolicy says whose some host names are: which namespaces may use them, and whether a name that one of them has is its alone. It holds
// for the annotation ingress/http, and for all that is guarded: Ingresses, routes of the Gateway API, and names for external-dns. Of
// several policies that speak of a name, the most specific one counts. It is about new requests: what stands keeps what it has.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=portcullis
// +kubebuilder:printcolumn:name="Hosts",type=string,JSONPath=`.spec.hosts`
// +kubebuilder:printcolumn:name="Sharing",type=string,JSONPath=`.spec.sharing`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type HostPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which names the policy is about, and who may use them.
	// +required
	Spec HostPolicySpec `json:"spec"`
	// status says whether the policy counts.
	// +optional
	Status HostPolicyStatus `json:"status,omitempty,omitzero"`
}

// HostPolicySpec says which names a policy is about, and who may use them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxPerNamespace) || (has(self.sharing) && self.sharing == 'Namespace')",message="needs sharing Namespace: otherwise no name is a namespace's",fieldPath=".maxPerNamespace"
type HostPolicySpec struct {
	// hosts are the names: shop.example.com is that one alone, *.example.com are all names below example.com, at any depth, and the
	// wildcards there, but not example.com. Of all that stand for a name in this or another policy, the longest counts. No two policies
	// may have the same.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Hosts []string `json:"hosts"`

	// namespaceSelector selects, by their labels, the namespaces that may use the names. Absent or empty, all may.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// sharing says what of a name can be somebody's. Paths: a path on it, so that namespaces may share the name. Namespace: the name
	// itself, in every kind and behind every proxy; it belongs to the namespace that has it first, and to nobody when that has no
	// object left which uses it. A wildcard owns the names below it that the same policy is about.
	// +optional
	// +kubebuilder:default=Paths
	Sharing HostSharing `json:"sharing,omitempty"`

	// maxPerNamespace is how many of the names one namespace may have, a wildcard counting as one; only with sharing Namespace. Absent,
	// any number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxPerNamespace *int32 `json:"maxPerNamespace,omitempty"`
}

// HostSharing says what of a host name can be somebody's.
//
// +kubebuilder:validation:Enum=Paths;Namespace
type HostSharing string

// The ways of sharing host names.
const (
	// SharePaths: a path on the name.
	SharePaths HostSharing = "Paths"
	// ShareNamespace: the name itself.
	ShareNamespace HostSharing = "Namespace"
)

// HostPolicyStatus says whether a policy counts.
type HostPolicyStatus struct {
	// conditions: Accepted says whether all of the policy counts. It is false with the reason HostPolicyConflict where an older policy
	// has one of its hosts, which then counts there, and with Invalid where no namespace can be selected, so that none may use
	// the names.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// HostPolicyList is a list of HostPolicies.
//
// +kubebuilder:object:root=true
type HostPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HostPolicy `json:"items"`
}

// Annotations by which external-dns makes names lead to an object: names separated by commas.
const (
	AnnotationExternalDNS         = "external-dns.alpha.kubernetes.io/hostname"
	AnnotationExternalDNSInternal = "external-dns.alpha.kubernetes.io/internal-hostname"
)

// AnnotationServerAlias on an Ingress has ingress-nginx serve it under more names: names separated by commas.
const AnnotationServerAlias = "nginx.ingress.kubernetes.io/server-alias"

// Reasons for which nobody is given a host name, and for which a HostPolicy does not count. HostConflict is one of them, too.
const (
	// ReasonHostNotAllowed: the policy that speaks of the name does not give it to the namespace.
	ReasonHostNotAllowed = "HostNotAllowed"
	// ReasonHostPolicyConflict: another policy has the same host.
	ReasonHostPolicyConflict = "HostPolicyConflict"
)
