package lint

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// complete fills in what the API server does where kinds of its own leave something out, as far as decisions depend on it. The cluster has
// one family of addresses, IPv4, unless an object asks for both.
func complete(obj client.Object) {
	switch o := obj.(type) {
	case *corev1.Namespace:
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		o.Labels[corev1.LabelMetadataName] = o.Name
	case *corev1.Service:
		completeService(o)
	}
}

func completeService(svc *corev1.Service) {
	spec := &svc.Spec
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	for i := range spec.Ports {
		if spec.Ports[i].Protocol == "" {
			spec.Ports[i].Protocol = corev1.ProtocolTCP
		}
		if spec.Ports[i].TargetPort == (intstr.IntOrString{}) {
			spec.Ports[i].TargetPort = intstr.FromInt32(spec.Ports[i].Port)
		}
	}
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(spec.IPFamilies) == 1 {
		other := corev1.IPv6Protocol
		if spec.IPFamilies[0] == other {
			other = corev1.IPv4Protocol
		}
		spec.IPFamilies = append(spec.IPFamilies, other)
	}
	if spec.Type != corev1.ServiceTypeClusterIP && spec.ExternalTrafficPolicy == "" {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer && spec.AllocateLoadBalancerNodePorts == nil {
		spec.AllocateLoadBalancerNodePorts = ptr.To(true)
	}
}

// completeNew does what the API server does with new objects alone: an Ingress that names no class is of the default one.
func (l *Linter) completeNew(obj client.Object) {
	ing, is := obj.(*networkingv1.Ingress)
	if !is || ing.Spec.IngressClassName != nil || exposure.ClassOf(ing) != "" {
		return
	}
	var classes networkingv1.IngressClassList
	if err := l.objects.List(context.Background(), &classes); err != nil {
		return // it lists what is in memory
	}
	if name := exposure.DefaultClass(classes.Items); name != "" {
		ing.Spec.IngressClassName = &name
	}
}
