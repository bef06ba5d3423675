package rules

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Consent decides whether a stream may send its traffic to the namespace that it names, and out of the cluster. Whether a Service
// leads there is told only to who may lead to it: a refusal says nothing of what another namespace has.
func Consent(ctx context.Context, v View, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) (refusal.Problems, error) {
	if problems, err := enters(ctx, v, s, class); err != nil || len(problems) > 0 {
		return problems, err
	}
	return leaves(ctx, v, s, class)
}

// enters decides whether a stream may send its traffic to the namespace that it names.
func enters(ctx context.Context, v View, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) (refusal.Problems, error) {
	namespace := s.UpstreamNamespace()
	if s.Outside() || namespace == s.Namespace || class.Spec.UpstreamNamespaces == v1beta1.UpstreamAll {
		return nil, nil
	}
	path := specPath.Child("upstream", "namespace")
	if class.Spec.UpstreamNamespaces == v1beta1.UpstreamSame {
		return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(path, namespace,
			fmt.Sprintf("class %q lets streams send their traffic to their own namespace only (upstreamNamespaces: Same)", class.Name))), nil
	}
	service := upstreamOf(s)
	granted, err := v.Granted(ctx, s.Namespace, service)
	if err != nil || granted {
		return nil, err
	}
	return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(path, namespace, fmt.Sprintf(
		"namespace %q has not consented: create a ReferenceGrant (gateway.networking.k8s.io) there, "+
			"from group %s, kind StreamIngress, namespace %q, to kind Service, name %q",
		namespace, v1beta1.GroupName, s.Namespace, service.Name))), nil
}

// leaves decides whether a stream may lead out of the cluster: to the host that it names, or by its Service.
func leaves(ctx context.Context, v View, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) (refusal.Problems, error) {
	allowed := class.Spec.OutsideUpstreams == v1beta1.OutsideAllowed
	switch {
	case s.Outside():
		return leavesTo(v, s, class, allowed), nil
	case allowed:
		return nil, nil
	}
	service := upstreamOf(s)
	why, err := leadsOut(ctx, v, service)
	if err != nil || why == "" {
		return nil, err
	}
	return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(specPath.Child("upstream"), service.Name, fmt.Sprintf(
		"Service %s leads out of the cluster, as %s; "+
			"class %q lets streams lead to Services only (outsideUpstreams: Denied): name another Service, or a class that allows it",
		service, why, class.Name))), nil
}

// leavesTo decides whether a stream may lead to the host outside that it names.
func leavesTo(v View, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, allowed bool) refusal.Problems {
	if !allowed {
		return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(specPath.Child("is_service"), false, fmt.Sprintf(
			"class %q lets streams lead to Services only (outsideUpstreams: Denied): name a Service, or a class that allows it", class.Name)))
	}
	host := s.Spec.Upstream.Host
	if why := stream.OutsideHost(host, v.ClusterDomain()); why != "" {
		return refusal.One(v1beta1.ReasonRefNotPermitted, field.Invalid(specPath.Child("upstream", "host"), host, why))
	}
	return nil
}

// leadsOut says why a Service leads out of the cluster, empty if it does not: it is the one of a stream that leads there, by leave of
// another class, or it is an alias of a DNS name, whoever wrote it.
func leadsOut(ctx context.Context, v View, service types.NamespacedName) (why string, err error) {
	switch outside, err := v.IsOutside(ctx, service); {
	case err != nil:
		return "", err
	case outside:
		return "another StreamIngress asks for it", nil
	}
	svc, err := v.Service(ctx, service)
	if err != nil || svc == nil || svc.Spec.Type != corev1.ServiceTypeExternalName {
		return "", err
	}
	return "its type is ExternalName", nil
}

func upstreamOf(s *v1beta1.StreamIngress) types.NamespacedName {
	return types.NamespacedName{Namespace: s.UpstreamNamespace(), Name: s.UpstreamService()}
}

// Upstream says what is missing behind a stream: the Service, or its port. Neither is a reason to refuse it, both may
// be created later.
func Upstream(ctx context.Context, v View, s *v1beta1.StreamIngress) (refusal.Problems, error) {
	if s.Outside() {
		return nil, nil
	}
	key := upstreamOf(s)
	path := specPath.Child("upstream")
	svc, err := v.Service(ctx, key)
	if err != nil {
		return nil, err
	}
	if svc == nil {
		name := "service"
		if s.Spec.Upstream.Service == "" {
			name = "host"
		}
		return refusal.One(v1beta1.ReasonBackendNotFound, refusal.Detailed(field.NotFound(path.Child(name), key.Name),
			fmt.Sprintf("there is no Service %s yet; the port answers once there is", key))), nil
	}
	port := s.Spec.Upstream.Port
	if _, found := stream.FindPort(svc, port, s.ProtocolOrDefault()); found {
		return nil, nil
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
		fmt.Sprintf("Service %s has no such %s port yet, it has %s", key, s.ProtocolOrDefault(), strings.Join(ports, ", ")))), nil
}
