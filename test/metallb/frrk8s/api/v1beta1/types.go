// Package v1beta1 stands in for the package of this name that MetalLB configures BGP with: not every module proxy has it,
// and giving out addresses has no use for it. It has just what MetalLB is compiled with; none of it ever runs.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AddToScheme adds the one kind.
func AddToScheme(scheme *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "frrk8s.metallb.io", Version: "v1beta1"}
	scheme.AddKnownTypes(version, &FRRConfiguration{})
	metav1.AddToGroupVersion(scheme, version)
	return nil
}

// The types, with the fields that MetalLB sets.
type (
	FRRConfiguration struct {
		metav1.TypeMeta
		metav1.ObjectMeta
		Spec FRRConfigurationSpec
	}
	FRRConfigurationSpec struct {
		BGP          BGPConfig
		NodeSelector metav1.LabelSelector
	}
	BGPConfig struct {
		Routers     []Router
		BFDProfiles []BFDProfile
	}
	Router struct {
		ASN       uint32
		ID, VRF   string
		Neighbors []Neighbor
		Prefixes  []string
	}
	BFDProfile struct {
		Name                                                                          string
		ReceiveInterval, TransmitInterval, DetectMultiplier, EchoInterval, MinimumTTL *uint32
		EchoMode, PassiveMode                                                         *bool
	}
	Neighbor struct {
		Address, Interface                                                     string
		ASN                                                                    uint32
		DynamicASN                                                             DynamicASNMode
		Port                                                                   *uint16
		HoldTime, KeepaliveTime, ConnectTime                                   *metav1.Duration
		BFDProfile, Password                                                   string
		PasswordSecret                                                         SecretReference
		EnableGracefulRestart, EBGPMultiHop, DualStackAddressFamily, DisableMP bool
		ToAdvertise                                                            Advertise
	}
	DynamicASNMode  string
	SecretReference struct{ Name, Namespace string }
	Advertise       struct {
		Allowed                   AllowedOutPrefixes
		PrefixesWithLocalPref     []LocalPrefPrefixes
		PrefixesWithCommunity     []CommunityPrefixes
		PrefixesWithAsPathPrepend []AsPathPrependPrefixes
	}
	AllowedOutPrefixes struct{ Prefixes []string }
	LocalPrefPrefixes  struct {
		LocalPref uint32
		Prefixes  []string
	}
	CommunityPrefixes struct {
		Community string
		Prefixes  []string
	}
	AsPathPrependPrefixes struct {
		AsPathPrepend uint8
		Prefixes      []string
	}
)

// DeepCopyInto copies what is in a configuration that nobody has filled.
func (s *FRRConfigurationSpec) DeepCopyInto(out *FRRConfigurationSpec) { *out = *s }

// DeepCopy copies a configuration that nobody has filled.
func (c *FRRConfiguration) DeepCopy() *FRRConfiguration {
	out := &FRRConfiguration{TypeMeta: c.TypeMeta, Spec: c.Spec}
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// DeepCopyObject makes it an object.
func (c *FRRConfiguration) DeepCopyObject() runtime.Object { return c.DeepCopy() }
