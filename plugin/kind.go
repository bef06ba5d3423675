package plugin

import (
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// kind is one that is read, page by page.
type kind struct {
	name, plural string
	version      schema.GroupVersion
	// older are versions in which older clusters have it, the newest first: it is read in them where version is not served. Their objects
	// are as those of that one.
	older     []string
	isCluster bool // and is in no namespace
}

// metalLB is the version of MetalLB's pools.
var metalLB = schema.GroupVersion{Group: "metallb.io", Version: "v1beta1"}

// kinds are those that any command reads.
var kinds = []kind{
	{name: "Namespace", plural: "namespaces", version: corev1.SchemeGroupVersion, isCluster: true},
	{name: "Node", plural: "nodes", version: corev1.SchemeGroupVersion, isCluster: true},
	{name: "Service", plural: "services", version: corev1.SchemeGroupVersion},
	{name: "ConfigMap", plural: "configmaps", version: corev1.SchemeGroupVersion},
	{name: "Pod", plural: "pods", version: corev1.SchemeGroupVersion},
	{name: "Event", plural: "events", version: corev1.SchemeGroupVersion},
	{name: "Deployment", plural: "deployments", version: appsv1.SchemeGroupVersion},
	{name: "DaemonSet", plural: "daemonsets", version: appsv1.SchemeGroupVersion},
	{name: "Ingress", plural: "ingresses", version: networkingv1.SchemeGroupVersion},
	{name: "IngressClass", plural: "ingressclasses", version: networkingv1.SchemeGroupVersion, isCluster: true},
	{name: "EndpointSlice", plural: "endpointslices", version: discoveryv1.SchemeGroupVersion},
	{name: "GatewayClass", plural: "gatewayclasses", version: gatewayVersion, older: []string{"v1beta1"}, isCluster: true},
	{name: "Gateway", plural: "gateways", version: gatewayVersion, older: []string{"v1beta1"}},
	{name: "ListenerSet", plural: "listenersets", version: gatewayVersion},
	{name: "TCPRoute", plural: "tcproutes", version: gatewayVersion, older: []string{"v1alpha2"}},
	{name: "UDPRoute", plural: "udproutes", version: gatewayVersion, older: []string{"v1alpha2"}},
	{name: "TLSRoute", plural: "tlsroutes", version: gatewayVersion, older: []string{"v1alpha3", "v1alpha2"}},
	{name: "HTTPRoute", plural: "httproutes", version: gatewayVersion, older: []string{"v1beta1"}},
	{name: "GRPCRoute", plural: "grpcroutes", version: gatewayVersion, older: []string{"v1alpha2"}},
	{name: "ReferenceGrant", plural: "referencegrants", version: schema.GroupVersion(gatewayv1beta1.GroupVersion)},
	{name: "Certificate", plural: certificates, version: cmv1.SchemeGroupVersion},
	{name: "StreamIngressClass", plural: "streamingressclasses", version: v1beta1.GroupVersion, isCluster: true},
	{name: "StreamIngress", plural: streamsPlural, version: v1beta1.GroupVersion},
	{name: "HostPolicy", plural: "hostpolicies", version: v1beta1.GroupVersion, isCluster: true},
	{name: "AddressPool", plural: "addresspools", version: v1beta1.GroupVersion, isCluster: true},
	{name: "EdgeClaim", plural: "edgeclaims", version: v1beta1.GroupVersion, isCluster: true},
	{name: "IPAddressPool", plural: "ipaddresspools", version: metalLB},
}

var gatewayVersion = schema.GroupVersion(gatewayv1.GroupVersion)

// kindOf is a kind by its name.
func kindOf(name string) *kind {
	return &kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
}

// in is the kind in another version.
func (k kind) in(version string) kind {
	k.version.Version = version
	return k
}

// list is the kind of its lists.
func (k kind) list() schema.GroupVersionKind { return k.version.WithKind(k.name + "List") }

// addTo adds an object to a snapshot, if findings or doors are made of its kind.
func addTo(s *snapshot.Snapshot, obj client.Object) {
	switch o := obj.(type) {
	case *corev1.Namespace:
		s.AddNamespace(o)
	case *corev1.Service:
		s.Services = append(s.Services, o)
	case *corev1.Node:
		s.Nodes = append(s.Nodes, slimNode(o))
	case *appsv1.Deployment:
		w, ok := snapshot.OfDeployment(o)
		addWorkload(s, w, ok)
	case *appsv1.DaemonSet:
		w, ok := snapshot.OfDaemonSet(o)
		addWorkload(s, w, ok)
	case *networkingv1.Ingress:
		s.Ingresses = append(s.Ingresses, o)
	case *networkingv1.IngressClass:
		s.IngressClasses = append(s.IngressClasses, o)
	case *discoveryv1.EndpointSlice:
		s.AddEndpointSlice(o)
	case *gatewayv1.Gateway:
		s.Gateways = append(s.Gateways, o)
	case *gatewayv1.ListenerSet:
		s.ListenerSets = append(s.ListenerSets, o)
	case *gatewayv1.TCPRoute, *gatewayv1.UDPRoute, *gatewayv1.TLSRoute, *gatewayv1.HTTPRoute, *gatewayv1.GRPCRoute:
		s.Routes = append(s.Routes, o)
	case *v1beta1.StreamIngressClass:
		s.Classes = append(s.Classes, o)
	case *v1beta1.HostPolicy:
		s.HostPolicies = append(s.HostPolicies, o)
	case *v1beta1.EdgeClaim:
		s.Claims = append(s.Claims, o)
	}
}

func addWorkload(s *snapshot.Snapshot, w snapshot.Workload, ok bool) {
	if ok {
		s.Workloads = append(s.Workloads, w)
	}
}

// slimNode leaves of a node what anybody asks for: its images alone are larger than that.
func slimNode(o *corev1.Node) *corev1.Node {
	return &corev1.Node{ObjectMeta: o.ObjectMeta, Status: corev1.NodeStatus{Addresses: o.Status.Addresses}}
}

// slim takes out of an object what nobody asks for.
func slim(obj metav1.Object) {
	obj.SetManagedFields(nil)
	delete(obj.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
}

// scheme knows the kinds.
func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme, gatewayv1.Install, cmv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // the kinds are constants
		}
	}
	metav1.AddToGroupVersion(s, metalLB) // whose objects are read as they are
	s.AddKnownTypeWithName(kindOf("IPAddressPool").list(), &unstructured.UnstructuredList{})
	grants := schema.GroupVersion(gatewayv1beta1.GroupVersion) // of which only these are read in that version
	s.AddKnownTypes(grants, &gatewayv1beta1.ReferenceGrant{}, &gatewayv1beta1.ReferenceGrantList{})
	for _, k := range kinds {
		for _, version := range k.older {
			list, err := s.New(k.list())
			if err != nil {
				panic(err) // the kinds are constants
			}
			s.AddKnownTypeWithName(k.in(version).list(), list)
			metav1.AddToGroupVersion(s, k.in(version).version)
		}
	}
	return s
}
