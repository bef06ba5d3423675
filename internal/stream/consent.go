package stream

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// Consent decides whether a stream may send its traffic to the namespace that it names, and out of the cluster. Whether a Service
// leads there is told only to who may lead to it: a refusal says nothing of what another namespace has.
func Consent(f UpstreamFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) refusal.Problems {
	if problems := enters(f, s, class); len(problems) > 0 {
		return problems
	}
	if problems := leaves(f, s, class); len(problems) > 0 {
		return problems
	}
	if s.Spec.ClassName != "" && s.Spec.ClassName != class.Name {
		return nil // a door that it is about to leave: what it asks for by now is for the next one to do
	}
	return beyondRoutes(f, s, class)
}

// beyondRoutes decides whether a stream of a class without a proxy of its own asks for what only such a proxy can do: the kernel
// forwards packets to addresses, looks up no names, and adds nothing of its own; and the routes of the Gateway API lead to Services, of
// which implementations differ in what they make of a name, and have no word for the PROXY protocol.
func beyondRoutes(f UpstreamFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) refusal.Problems {
	if leads(class) == "" {
		return nil
	}
	if problems := ProxyProtocol(s, class); len(problems) > 0 {
		return problems
	}
	if s.Outside() {
		if _, err := netip.ParseAddr(s.Spec.Upstream.Host); err == nil {
			return nil
		}
		return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(specPath.Child("upstream", "host"), s.Spec.Upstream.Host, fmt.Sprintf(
			"class %q %s: name an IP address, or a class with a proxy", class.Name, leads(class))))
	}
	service := upstreamOf(s)
	if svc := f.Service(service); svc != nil && svc.Spec.Type == corev1.ServiceTypeExternalName {
		return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(specPath.Child("upstream"), service.Name, fmt.Sprintf(
			"Service %s is an alias of a name, as its type is ExternalName; class %q %s: name another Service, or a class with a proxy",
			service, class.Name, leads(class))))
	}
	return nil
}

// leads says where a class without a proxy of its own can lead, empty for a class with one.
func leads(class *v1beta1.StreamIngressClass) string {
	switch {
	case class.Spec.AddressPool != nil:
		return "has no proxy, and the kernel forwards to addresses only"
	case class.Spec.Gateway != nil:
		return "has a Gateway, whose routes lead to addresses only"
	default:
		return ""
	}
}

// ProxyProtocol decides whether a stream may ask for the PROXY protocol.
func ProxyProtocol(s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) refusal.Problems {
	if leads(class) == "" || !speaksProxy(s) {
		return nil
	}
	why := "has no proxy that could speak the PROXY protocol"
	if class.Spec.Gateway != nil {
		why = "has a Gateway, and the Gateway API has no PROXY protocol"
	}
	return refusal.One(v1beta1.ReasonProxyProtocolNotSupported, field.Invalid(specPath.Child("proxyProtocol"), true, fmt.Sprintf(
		"class %q %s: leave it out, or name a class with a proxy", class.Name, why)))
}

// enters decides whether a stream may send its traffic to the namespace that it names.
func enters(f UpstreamFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) refusal.Problems {
	namespace := s.UpstreamNamespace()
	if s.Outside() || namespace == s.Namespace || class.Spec.UpstreamNamespaces == v1beta1.UpstreamAll {
		return nil
	}
	path := specPath.Child("upstream", "namespace")
	if class.Spec.UpstreamNamespaces == v1beta1.UpstreamSame {
		return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(path, namespace,
			fmt.Sprintf("class %q lets streams send their traffic to their own namespace only (upstreamNamespaces: Same)", class.Name)))
	}
	service := upstreamOf(s)
	if f.Granted(s.Namespace, service) {
		return nil
	}
	return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(path, namespace, fmt.Sprintf(
		"namespace %q has not consented: create a ReferenceGrant (gateway.networking.k8s.io) there, "+
			"from group %s, kind StreamIngress, namespace %q, to kind Service, name %q",
		namespace, v1beta1.GroupName, s.Namespace, service.Name)))
}

// leaves decides whether a stream may lead out of the cluster: to the host that it names, or by its Service.
func leaves(f UpstreamFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) refusal.Problems {
	allowed := class.Spec.OutsideUpstreams == v1beta1.OutsideAllowed
	switch {
	case s.Outside():
		return leavesTo(f, s, class, allowed)
	case allowed:
		return nil
	}
	service := upstreamOf(s)
	why := leadsOut(f, service)
	if why == "" {
		return nil
	}
	return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(specPath.Child("upstream"), service.Name, fmt.Sprintf(
		"Service %s leads out of the cluster, as %s; "+
			"class %q lets streams lead to Services only (outsideUpstreams: Denied): name another Service, or a class that allows it",
		service, why, class.Name)))
}

// leavesTo decides whether a stream may lead to the host outside that it names.
func leavesTo(f UpstreamFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, allowed bool) refusal.Problems {
	if !allowed {
		return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(specPath.Child("is_service"), false, fmt.Sprintf(
			"class %q lets streams lead to Services only (outsideUpstreams: Denied): name a Service, or a class that allows it", class.Name)))
	}
	host := s.Spec.Upstream.Host
	if why := OutsideHost(host, f.ClusterDomain()); why != "" {
		return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(specPath.Child("upstream", "host"), host, why))
	}
	return nil
}

// leadsOut says why a Service leads out of the cluster, empty if it does not: it is the one of a stream that leads there, by leave of
// another class, or it is an alias of a DNS name, whoever wrote it.
func leadsOut(f UpstreamFacts, service types.NamespacedName) (why string) {
	if f.IsOutside(service) {
		return "another StreamIngress asks for it"
	}
	if svc := f.Service(service); svc != nil && svc.Spec.Type == corev1.ServiceTypeExternalName {
		return "its type is ExternalName"
	}
	return ""
}

func upstreamOf(s *v1beta1.StreamIngress) types.NamespacedName {
	return types.NamespacedName{Namespace: s.UpstreamNamespace(), Name: s.UpstreamService()}
}

// Upstream says what is missing behind a stream: the Service, or its port. Neither is a reason to refuse it, both may
// be created later.
func Upstream(f UpstreamFacts, s *v1beta1.StreamIngress) refusal.Problems {
	if s.Outside() {
		return nil
	}
	key := upstreamOf(s)
	path := specPath.Child("upstream")
	svc := f.Service(key)
	if svc == nil {
		name := "service"
		if s.Spec.Upstream.Service == "" {
			name = "host"
		}
		return refusal.One(v1beta1.ReasonBackendNotFound, refusal.Detailed(field.NotFound(path.Child(name), key.Name),
			fmt.Sprintf("there is no Service %s yet; the port answers once there is", key)))
	}
	port := s.Spec.Upstream.Port
	if _, found := FindPort(svc, port, s.ProtocolOrDefault()); found {
		return nil
	}
	var ports []string
	for _, p := range svc.Spec.Ports {
		text := fmt.Sprintf("%s/%d", p.Protocol, p.Port)
		if p.Name != "" {
			text += " (" + p.Name + ")"
		}
		ports = append(ports, text)
	}
	if len(ports) == 0 {
		ports = []string{"none"}
	}
	value := any(port.IntVal)
	if port.Type == intstr.String {
		value = port.StrVal
	}
	return refusal.One(v1beta1.ReasonBackendPortNotFound, refusal.Detailed(field.NotFound(path.Child("port"), value),
		fmt.Sprintf("Service %s has no such %s port yet, it has %s", key, s.ProtocolOrDefault(), strings.Join(ports, ", "))))
}
