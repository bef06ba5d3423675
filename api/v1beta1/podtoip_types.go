package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// LabelPodToIP marks, with the value PodToIPEnabled, the namespaces whose Pods get PodToIPs.
	LabelPodToIP = GroupName + "/pod-to-ip"
	// PodToIPEnabled is the only value of LabelPodToIP that means yes.
	PodToIPEnabled = "enabled"
)

// PodToIP says which IP a Pod has now. It bears the name of the Pod and belongs to it: it is there from the moment in
// which the Pod has an IP until the Pod terminates or finishes. Who has an IP is answered by
// kubectl get podtoips -A --field-selector spec.podAddress=10.0.3.7. Portcullis writes PodToIPs; people read them. One that
// no Pod stands behind is deleted, and one that was changed by hand is set right.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=podtoips,singular=podtoip,shortName=ptp,categories=portcullis
// +kubebuilder:selectablefield:JSONPath=`.spec.podAddress`
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Pod-IP",type=string,JSONPath=`.spec.podAddress`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Pod-IPs",type=string,JSONPath=`.spec.podAddresses`,priority=1
// +kubebuilder:printcolumn:name="Host-Network",type=boolean,JSONPath=`.spec.hostNetwork`,priority=1
// +kubebuilder:validation:XValidation:rule="self.spec.podName == self.metadata.name",message="must be the name of the PodToIP",fieldPath=".spec.podName"
type PodToIP struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Pod has which IP, and where.
	// +required
	Spec PodToIPSpec `json:"spec"`
}

// PodToIPSpec says which Pod has which IP, and where. All fields are always written, so that whatever somebody else puts
// into one of them is set right.
//
// +kubebuilder:validation:XValidation:rule="self.podAddresses[0] == self.podAddress",message="must be the first of podAddresses",fieldPath=".podAddress"
type PodToIPSpec struct {
	// podName is the name of the Pod, in the namespace of this object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PodName string `json:"podName"`

	// podAddress is the IP of the Pod, IPv4 or IPv6: the first one of a Pod that has several. IPv6 is written in its
	// shortest form, in lower case. Field selectors find it.
	// +required
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address"
	PodAddress string `json:"podAddress"`

	// podAddresses are all IPs of the Pod: two in a dual-stack cluster. No field selector finds those behind the first.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="must be an IP address"
	PodAddresses []string `json:"podAddresses"`

	// nodeName is the node that the Pod runs on. Field selectors find it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	// hostNetwork says that the Pod uses the network of its node: podAddress is the node's own IP then, and every other
	// Pod there that does the same has it, too.
	// +optional
	HostNetwork bool `json:"hostNetwork"`
}

// PodToIPList is a list of PodToIPs.
//
// +kubebuilder:object:root=true
type PodToIPList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodToIP `json:"items"`
}
