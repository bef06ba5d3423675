// Package v1beta1 is the API of Portcullis: the kinds with which teams ask for exposure, the classes with which
// platform teams offer it, and the ledger that says who holds what.
//
// +kubebuilder:object:generate=true
// +groupName=nginx-stream.jeffthecoder.xyz
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all kinds, and the prefix of all labels and annotations.
const GroupName = "nginx-stream.jeffthecoder.xyz"

// GroupVersion is the group and version of all kinds in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1beta1"}

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme makes the kinds of this package known to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&StreamIngress{}, &StreamIngressList{},
		&StreamIngressClass{}, &StreamIngressClassList{},
		&EdgeClaim{}, &EdgeClaimList{},
		&AddressPool{}, &AddressPoolList{},
		&HostPolicy{}, &HostPolicyList{},
		&PodToIP{}, &PodToIPList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
