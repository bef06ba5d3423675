package kube

import (
	"context"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// slim leaves of an object what somebody reads. It knows all kinds: some may be installed later, so that the cache can't be told of them by
// name. What is slim already stays as it is.
func slim(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Service:
		slimService(o)
	case *discoveryv1.EndpointSlice:
		return slimEndpointSlice(o), nil
	case *corev1.Node:
		return slimNode(o), nil
	case *corev1.Pod:
		return slimPod(o), nil
	case *v1beta1.PodToIP:
		return slimPodToIP(o), nil
	case *v1beta1.StreamIngress:
		slimStream(o)
	case *v1beta1.EdgeClaim:
		slimClaim(o)
	case *networkingv1.Ingress:
		slimIngress(o)
	case *metav1.PartialObjectMetadata:
		slimPartial(o)
	case *cmv1.Certificate:
		slimCertificate(o)
	case metav1.Object:
		slimOfGateways(o)
	}
	return obj, nil
}

// slimOfGateways does so for the kinds of the Gateway API, and for those that only administrators write.
func slimOfGateways(obj metav1.Object) {
	switch o := obj.(type) {
	case *gatewayv1beta1.ReferenceGrant:
		slimGrant(o)
	case *gatewayv1.ListenerSet:
		slimListenerSet(o)
	case *gatewayv1.TCPRoute:
		slimTCPRoute(o)
	case *gatewayv1.UDPRoute:
		slimUDPRoute(o)
	case *gatewayv1.TLSRoute:
		slimTLSRoute(o)
	case *gatewayv1.HTTPRoute:
		slimRouting(o)
		o.Spec = gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: slimParents(o.Spec.CommonRouteSpec), Hostnames: slices.Clone(o.Spec.Hostnames),
			Rules: guard.SlimHTTPPaths(o, intern),
		}
		o.Status = gatewayv1.HTTPRouteStatus{}
	case *gatewayv1.GRPCRoute:
		slimRouting(o)
		o.Spec = gatewayv1.GRPCRouteSpec{
			CommonRouteSpec: slimParents(o.Spec.CommonRouteSpec), Hostnames: slices.Clone(o.Spec.Hostnames),
			Rules: guard.SlimGRPCPaths(o, intern),
		}
		o.Status = gatewayv1.GRPCRouteStatus{}
	default: // an administrator's
		o.SetManagedFields(nil)
		o.SetAnnotations(knownAnnotations(o.GetAnnotations()))
	}
}

// slimRouting leaves of the metadata of what streams have of the Gateway API whose it is.
func slimRouting(o metav1.Object) {
	var ours []metav1.ManagedFieldsEntry
	if Written(o) {
		ours = []metav1.ManagedFieldsEntry{{Manager: stream.FieldManager, Time: LastWritten(o)}}
	}
	o.SetManagedFields(ours)
	o.SetAnnotations(knownAnnotations(o.GetAnnotations()))
	o.SetLabels(labelOfClass(o.GetLabels()))
	o.SetOwnerReferences(nil)
	o.SetFinalizers(nil)
}

// slimTCPRoute, slimUDPRoute and slimTLSRoute leave of a route what Portcullis has written, and of those of others what they attach to.
func slimTCPRoute(o *gatewayv1.TCPRoute) {
	slimRouting(o)
	if len(o.Spec.ParentRefs) != 1 || len(o.Spec.Rules) != 1 || len(o.Spec.Rules[0].BackendRefs) != 1 || !Written(o) {
		o.Spec, o.Status = gatewayv1.TCPRouteSpec{CommonRouteSpec: slimParents(o.Spec.CommonRouteSpec)}, gatewayv1.TCPRouteStatus{}
	}
}

func slimUDPRoute(o *gatewayv1.UDPRoute) {
	slimRouting(o)
	if len(o.Spec.ParentRefs) != 1 || len(o.Spec.Rules) != 1 || len(o.Spec.Rules[0].BackendRefs) != 1 || !Written(o) {
		o.Spec, o.Status = gatewayv1.UDPRouteSpec{CommonRouteSpec: slimParents(o.Spec.CommonRouteSpec)}, gatewayv1.UDPRouteStatus{}
	}
}

func slimTLSRoute(o *gatewayv1.TLSRoute) {
	slimRouting(o)
	hosts := slices.Clone(o.Spec.Hostnames[:min(len(o.Spec.Hostnames), guard.MostRoutePoints)])
	o.Spec = gatewayv1.TLSRouteSpec{CommonRouteSpec: slimParents(o.Spec.CommonRouteSpec), Hostnames: hosts}
	o.Status = gatewayv1.TLSRouteStatus{}
}

// slimParents leaves what a route of others attaches to, in a list that is no longer than the API lets it be.
func slimParents(spec gatewayv1.CommonRouteSpec) gatewayv1.CommonRouteSpec {
	return gatewayv1.CommonRouteSpec{ParentRefs: slices.Clone(spec.ParentRefs[:min(len(spec.ParentRefs), guard.MostParents)])}
}

// slimListenerSet leaves of a ListenerSet what Portcullis has written, and of the listeners of others which ports they have.
func slimListenerSet(set *gatewayv1.ListenerSet) {
	slimRouting(set)
	if !Written(set) {
		set.Status = gatewayv1.ListenerSetStatus{}
	}
	for i := range set.Spec.Listeners {
		stream.SlimEntry(&set.Spec.Listeners[i])
	}
}

// SlimReader reads past the cache, and keeps of a stream, a Service, an Ingress or a ListenerSet what the cache does: a look at one may
// last, any number of tenants can make theirs large, and what only one of the two shows would be claimed and released without end.
type SlimReader struct {
	client.Reader
}

// Get implements client.Reader.
func (r SlimReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, obj, options...)
	switch obj.(type) { // of another kind is left as it is
	case *v1beta1.StreamIngress, *corev1.Service, *networkingv1.Ingress, *gatewayv1.ListenerSet:
		_, _ = slim(obj)
	}
	return err
}

// slimPartial leaves of the metadata of a namespace its labels, and of a ConfigMap that bears the label of a class, which any
// tenant can write, whether Portcullis has applied to it.
func slimPartial(o *metav1.PartialObjectMetadata) {
	before := o.ObjectMeta
	slimMeta(&o.ObjectMeta)
	if o.Kind == configMapKind {
		o.Labels, o.ManagedFields = labelOfClass(before.Labels), applied(&before)
		return
	}
	o.Labels = before.Labels
}

const configMapKind = "ConfigMap"

// slimService leaves of a Service what an Ingress, an address or a stream of it is judged by. Its managed fields are those of
// targets to keep, if a class names it.
func slimService(svc *corev1.Service) {
	before := svc.ObjectMeta
	slimMeta(&svc.ObjectMeta)
	if svc.Labels = labelOfClass(before.Labels); svc.Labels != nil {
		svc.ManagedFields = applied(&before)
	}
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer || len(svc.Spec.ExternalIPs) > 0 { // pools select by them
		svc.Labels = someLabels(before.Labels)
	}
	s, allocates := &svc.Spec, svc.Spec.AllocateLoadBalancerNodePorts
	svc.Spec = corev1.ServiceSpec{
		Type: s.Type, Ports: s.Ports, Selector: whether(s.Selector), ExternalName: s.ExternalName,
		ClusterIP: s.ClusterIP, ClusterIPs: s.ClusterIPs, IPFamilies: s.IPFamilies, IPFamilyPolicy: s.IPFamilyPolicy,
		LoadBalancerClass: s.LoadBalancerClass, LoadBalancerIP: cut(s.LoadBalancerIP, loadbalancer.MaxLength),
		ExternalTrafficPolicy: s.ExternalTrafficPolicy, HealthCheckNodePort: s.HealthCheckNodePort,
		ExternalIPs: loadbalancer.SlimExternalIPs(s.ExternalIPs),
	}
	if isStreamService(svc) {
		svc.ManagedFields = applied(&before)
		s.AllocateLoadBalancerNodePorts = allocates
	}
	svc.Status = corev1.ServiceStatus{LoadBalancer: svc.Status.LoadBalancer}
	intern(&s.Type)
	for i := range s.IPFamilies {
		intern(&s.IPFamilies[i])
	}
	for i := range s.Ports {
		s.Ports[i].AppProtocol = nil
		intern(&s.Ports[i].Name)
		intern(&s.Ports[i].Protocol)
	}
}

// someSelector stands for any selector in the cache. All Services share it: a map of its own for one key takes 336 bytes.
var someSelector = map[string]string{"": ""}

// whether leaves of a selector whether there is one.
func whether(selector map[string]string) map[string]string {
	if len(selector) == 0 {
		return nil
	}
	return someSelector
}

// slimStream leaves out what nobody reads of a StreamIngress, and shares what many of them have in common.
func slimStream(s *v1beta1.StreamIngress) {
	slimMeta(&s.ObjectMeta)
	internMeta(&s.TypeMeta, &s.ObjectMeta)
	intern(&s.Spec.ClassName)
	intern(&s.Spec.Protocol)
	intern(&s.Spec.Upstream.Namespace)
	intern(&s.Spec.Upstream.Service)
	intern(&s.Status.ClassName)
	// Decoding leaves room for four of each.
	s.Status.Addresses, s.Status.Conditions = slices.Clone(s.Status.Addresses), slices.Clone(s.Status.Conditions)
	for i := range s.Status.Addresses {
		intern(&s.Status.Addresses[i])
	}
	for i := range s.Status.Conditions {
		c := &s.Status.Conditions[i]
		intern(&c.Type)
		intern(&c.Status)
		intern(&c.Reason)
	}
}

// slimClaim leaves out what nobody reads of an EdgeClaim, and shares what many of them have in common. Nobody but Portcullis
// writes them, and it writes them whole, so that all other metadata stays.
func slimClaim(c *v1beta1.EdgeClaim) {
	c.ManagedFields = nil
	internMeta(&c.TypeMeta, &c.ObjectMeta)
	intern(&c.Spec.Scope)
	intern(&c.Spec.ClassName)
	intern(&c.Spec.Holder.Group)
	intern(&c.Spec.Holder.Kind)
	intern(&c.Spec.Holder.Namespace)
}

// slimIngress leaves of an Ingress what it serves, packed, and of one that may be made for a Service also where that leads to,
// which is compared with what it should say.
func slimIngress(ing *networkingv1.Ingress) {
	slimMeta(&ing.ObjectMeta)
	ing.Status = networkingv1.IngressStatus{}
	_, marked := ing.Annotations[v1beta1.AnnotationMadeFor]
	mayBeMade := marked || len(ing.OwnerReferences) > 0
	if ing.Spec.DefaultBackend != nil {
		ing.Spec.DefaultBackend = &networkingv1.IngressBackend{}
	}
	switch {
	case !mayBeMade:
		ing.Spec.TLS = nil
	case !mayBeAsked(ing.Spec.TLS):
		ing.Spec.TLS = []networkingv1.IngressTLS{{}}
	}
	if exposure.Pack(ing) {
		return
	}
	for i := range ing.Spec.Rules {
		intern(&ing.Spec.Rules[i].Host)
		if ing.Spec.Rules[i].HTTP == nil {
			continue
		}
		for j := range ing.Spec.Rules[i].HTTP.Paths {
			slimBackend(&ing.Spec.Rules[i].HTTP.Paths[j].Backend, mayBeMade)
		}
	}
}

// slimBackend drops where a path leads to, or, of one that is to be compared, what is never asked for.
func slimBackend(b *networkingv1.IngressBackend, compared bool) {
	if !compared {
		*b = networkingv1.IngressBackend{}
	}
	if b.Resource != nil {
		b.Resource = &corev1.TypedLocalObjectReference{}
	}
}

// mayBeAsked says whether an annotation may ask for what an Ingress says of TLS. What says nothing counts, too: an empty entry takes
// ten times the memory that it takes in etcd.
func mayBeAsked(tls []networkingv1.IngressTLS) bool {
	switch len(tls) {
	case 0:
		return true
	case 1:
		return len(tls[0].SecretName) <= maxName && areFewHosts(tls[0].Hosts)
	default:
		return false
	}
}

// areFewHosts says whether an annotation may name so many hosts, of such lengths.
func areFewHosts(hosts []string) bool {
	return len(hosts) <= exposure.MaxHosts && !slices.ContainsFunc(hosts, func(host string) bool { return len(host) > maxName })
}

// slimCertificate leaves of a Certificate what Portcullis writes into one, and how it is doing.
func slimCertificate(o *cmv1.Certificate) {
	slimMeta(&o.ObjectMeta)
	spec := cmv1.CertificateSpec{SecretName: cut(o.Spec.SecretName, maxName), DNSNames: o.Spec.DNSNames, IssuerRef: cmmeta.IssuerReference{
		Group: cut(o.Spec.IssuerRef.Group, maxName), Kind: cut(o.Spec.IssuerRef.Kind, maxName), Name: cut(o.Spec.IssuerRef.Name, maxName),
	}}
	if !areFewHosts(spec.DNSNames) {
		spec.DNSNames = []string{""} // no annotation asks for that
	}
	var conditions []cmv1.CertificateCondition
	for _, c := range o.Status.Conditions {
		if c.Type == cmv1.CertificateConditionReady || c.Type == cmv1.CertificateConditionIssuing {
			c.Reason, c.Message = cut(c.Reason, maxName), cut(c.Message, maxMessage)
			conditions = append(conditions, c)
		}
	}
	o.Spec, o.Status = spec, cmv1.CertificateStatus{Conditions: conditions}
}

// maxMessage is how much is kept of what cert-manager says, in bytes: an event has room for no more.
const maxMessage = 1024

// slimGrant leaves of a ReferenceGrant what it says of StreamIngresses and Services.
func slimGrant(o *gatewayv1beta1.ReferenceGrant) {
	slimMeta(&o.ObjectMeta)
	o.Spec.From = slices.DeleteFunc(o.Spec.From, func(f gatewayv1beta1.ReferenceGrantFrom) bool { return !fromStreams(f) })
	o.Spec.To = slices.DeleteFunc(o.Spec.To, func(t gatewayv1beta1.ReferenceGrantTo) bool { return !toServices(t) })
	for i := range o.Spec.From {
		intern(&o.Spec.From[i].Group)
		intern(&o.Spec.From[i].Kind)
	}
	for i := range o.Spec.To {
		intern(&o.Spec.To[i].Kind)
	}
}
