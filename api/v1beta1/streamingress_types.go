package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Protocol is the transport protocol of a port.
//
// +kubebuilder:validation:Enum=TCP;UDP
type Protocol string

// The protocols that a stream can have.
const (
	TCP Protocol = "TCP"
	UDP Protocol = "UDP"
)

// StreamIngress asks for one TCP or UDP port at the edge of the cluster, and says where its traffic goes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sti,categories=portcullis
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.status.className`
// +kubebuilder:printcolumn:name="Protocol",type=string,JSONPath=`.spec.protocol`
// +kubebuilder:printcolumn:name="Listen",type=integer,JSONPath=`.status.listen`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].reason`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.addresses[0]`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type StreamIngress struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the owner of the stream asks for.
	// +required
	Spec StreamIngressSpec `json:"spec"`
	// status is what Portcullis answers.
	// +optional
	Status StreamIngressStatus `json:"status,omitempty,omitzero"`
}

// StreamIngressSpec is what the owner of a stream asks for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.proxyProtocol) || self.protocol == 'TCP' || !(has(self.proxyProtocol.accept) && self.proxyProtocol.accept || has(self.proxyProtocol.send) && self.proxyProtocol.send)",message="proxyProtocol works with protocol TCP only",fieldPath=".proxyProtocol"
// +kubebuilder:validation:XValidation:rule="!self.is_service || !has(self.upstream.host) || self.upstream.host.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="must be the name of a Service; for an upstream outside the cluster set is_service: false",fieldPath=".upstream.host"
// +kubebuilder:validation:XValidation:rule="self.is_service || has(self.upstream.host)",message="an upstream outside the cluster (is_service: false) needs upstream.host, a DNS name or an IP address",fieldPath=".upstream"
// +kubebuilder:validation:XValidation:rule="self.is_service || !has(self.upstream.__namespace__)",message="an upstream outside the cluster (is_service: false) has no namespace",fieldPath=".upstream.namespace"
// +kubebuilder:validation:XValidation:rule="self.is_service || type(self.upstream.port) == int",message="an upstream outside the cluster (is_service: false) needs a port number",fieldPath=".upstream.port"
// +kubebuilder:validation:XValidation:rule="self.is_service || !has(self.upstream.host) || isIP(self.upstream.host) || self.upstream.host.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$') && !self.upstream.host.matches('^[0-9.]+$')",message="must be a DNS name in lower case or an IP address",fieldPath=".upstream.host"
// +kubebuilder:validation:XValidation:rule="self.is_service || !has(self.upstream.host) || !isIP(self.upstream.host) || ip(self.upstream.host).isGlobalUnicast()",message="must be a unicast address that is not loopback or link-local",fieldPath=".upstream.host"
// +kubebuilder:validation:XValidation:rule="self.is_service || !has(self.upstream.host) || !self.upstream.host.matches('[.]svc([.]cluster[.]local)?$') && !self.upstream.host.matches('(^|[.])localhost$')",message="must be outside the cluster; name a Service of the cluster in upstream.service, its namespace in upstream.namespace",fieldPath=".upstream.host"
type StreamIngressSpec struct {
	// className names the StreamIngressClass, that is the proxy. Left out: the class that is annotated
	// nginx-stream.jeffthecoder.xyz/is-default-class: "true". Changed to another class, the stream moves there without closing:
	// see status.previous.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClassName string `json:"className,omitempty"`

	// protocol is TCP or UDP. One number can be used by one stream of each.
	// +optional
	// +kubebuilder:default=TCP
	Protocol Protocol `json:"protocol,omitempty"`

	// listen is the port on the proxy, 1 to 65535. Left out: a port of the class's autoAssign range, which is
	// published in status.listen and kept for as long as this object is of that class.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Listen *int32 `json:"listen,omitempty"`

	// upstream is where the traffic goes.
	// +required
	Upstream StreamUpstream `json:"upstream"`

	// is_service says whether the upstream is a Service of this cluster. With false, upstream.host is a DNS name or an
	// IP address outside the cluster.
	// +optional
	// +kubebuilder:default=true
	IsService *bool `json:"is_service,omitempty"`

	// proxyProtocol says where the PROXY protocol is spoken. TCP only.
	// +optional
	ProxyProtocol *ProxyProtocol `json:"proxyProtocol,omitempty"`
}

// StreamUpstream is where the traffic of a stream goes.
//
// +kubebuilder:validation:XValidation:rule="has(self.service) != has(self.host)",message="exactly one of service and host must be set"
type StreamUpstream struct {
	// namespace of the Service. Left out: the namespace of the StreamIngress. Another namespace has to consent with a
	// Gateway API ReferenceGrant, unless the class has upstreamNamespaces: All.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// service is the name of a Service.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Service string `json:"service,omitempty"`

	// host is, with is_service: false, a DNS name or an IP address outside the cluster; otherwise an older spelling of
	// service.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`

	// port is the port of the Service, by number (1 to 65535) or by name, or the port of the outside host, by number.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 65535 : self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.matches('[a-z]')",message="must be a port number from 1 to 65535, or the name of a port of the Service"
	Port intstr.IntOrString `json:"port"`
}

// ProxyProtocol says where the PROXY protocol is spoken.
type ProxyProtocol struct {
	// accept: clients send a PROXY header to the proxy.
	// +optional
	Accept bool `json:"accept,omitempty"`
	// send: the proxy sends a PROXY header to the upstream.
	// +optional
	Send bool `json:"send,omitempty"`
}

// StreamIngressStatus is what Portcullis answers.
type StreamIngressStatus struct {
	// observedGeneration is the metadata.generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// className is the class that serves this stream. A stream that names no class stays with it when another class
	// becomes the default.
	// +optional
	ClassName string `json:"className,omitempty"`

	// listen is the port that this stream holds.
	// +optional
	Listen int32 `json:"listen,omitempty"`

	// addresses at which the port can be reached: IP addresses or host names of the class's Service.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Addresses []string `json:"addresses,omitempty"`

	// previous is the door at which the stream was open before its className was changed. It stays open, and claimed, until the
	// stream is Programmed behind the class that it names now, and then for five seconds more. Absent when it is closed.
	// +optional
	Previous *PreviousDoor `json:"previous,omitempty"`

	// conditions: Accepted, ResolvedRefs, Programmed, and HandedOver, where the port was handed over.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PreviousDoor is a port of the class from which a stream moves to another.
type PreviousDoor struct {
	// className is the class that the port is of.
	// +required
	ClassName string `json:"className"`
	// protocol of the port.
	// +required
	Protocol Protocol `json:"protocol"`
	// listen is the port.
	// +required
	Listen int32 `json:"listen"`
	// closeTime is when the port is closed. Absent while the stream is not open behind the class that it moves to.
	// +optional
	CloseTime *metav1.Time `json:"closeTime,omitempty"`
}

// StreamIngressList is a list of StreamIngresses.
//
// +kubebuilder:object:root=true
type StreamIngressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StreamIngress `json:"items"`
}

// Outside says whether the upstream is outside the cluster.
func (s *StreamIngress) Outside() bool {
	return s.Spec.IsService != nil && !*s.Spec.IsService
}

// UpstreamNamespace is the namespace of the upstream Service.
func (s *StreamIngress) UpstreamNamespace() string {
	if s.Spec.Upstream.Namespace != "" {
		return s.Spec.Upstream.Namespace
	}
	return s.Namespace
}

// UpstreamService is the name of the upstream Service. An outside upstream has a Service of its own, which bears the
// name of the StreamIngress with a suffix that keeps it apart from the owner's own Services.
func (s *StreamIngress) UpstreamService() string {
	switch {
	case s.Outside():
		return OutsideServiceName(s.Name)
	case s.Spec.Upstream.Service != "":
		return s.Spec.Upstream.Service
	default:
		return s.Spec.Upstream.Host
	}
}

// ProtocolOrDefault is the protocol, TCP when the API server has not defaulted it.
func (s *StreamIngress) ProtocolOrDefault() Protocol {
	if s.Spec.Protocol == "" {
		return TCP
	}
	return s.Spec.Protocol
}
