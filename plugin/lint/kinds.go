package lint

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"
)

// judgedKind is a kind that decisions depend on, in the version in which they read it.
type judgedKind struct {
	schema.GroupVersionKind
	isCluster bool
}

// namespaceKind is that of namespaces.
var namespaceKind = schema.GroupKind{Kind: "Namespace"}

// others are the kinds that decisions depend on, and that are not ours.
var others = func() map[schema.GroupKind]judgedKind {
	all := map[schema.GroupKind]judgedKind{}
	add := func(version schema.GroupVersion, isCluster bool, kinds ...string) {
		for _, kind := range kinds {
			all[schema.GroupKind{Group: version.Group, Kind: kind}] = judgedKind{version.WithKind(kind), isCluster}
		}
	}
	add(corev1.SchemeGroupVersion, false, "Service", "ConfigMap")
	add(corev1.SchemeGroupVersion, true, "Namespace", "Node")
	add(networkingv1.SchemeGroupVersion, false, "Ingress")
	add(networkingv1.SchemeGroupVersion, true, "IngressClass")
	add(discoveryv1.SchemeGroupVersion, false, "EndpointSlice")
	add(schema.GroupVersion(gatewayv1.GroupVersion), true, "GatewayClass")
	add(schema.GroupVersion(gatewayv1.GroupVersion), false,
		"Gateway", "ListenerSet", "TCPRoute", "UDPRoute", "TLSRoute", "HTTPRoute", "GRPCRoute")
	add(schema.GroupVersion(gatewayv1beta1.GroupVersion), false, "ReferenceGrant")
	return all
}()

// kindOf finds a kind that decisions depend on. Of the Gateway API, whose versions differ in no field that is read, any version is one.
func (l *Linter) kindOf(of schema.GroupVersionKind) (judgedKind, bool) {
	if d := l.definitions[of.GroupKind()]; d != nil {
		return judgedKind{d.kind, d.isCluster}, of.Version == d.kind.Version
	}
	kind, known := others[of.GroupKind()]
	return kind, known && (of.Version == kind.Version || of.Group == gatewayv1.GroupName)
}

// IsNamespaced says whether objects of a kind are in a namespace, as far as decisions depend on it.
func (l *Linter) IsNamespaced(of schema.GroupVersionKind) bool {
	kind, known := l.kindOf(of)
	return known && !kind.isCluster
}
