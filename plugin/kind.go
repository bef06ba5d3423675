package plugin

import (
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// kind is one that is read, page by page.
type kind struct {
	name, plural string
	version      schema.GroupVersion
	// older are versions in which it is read where that one is not served. Their objects are as those of that one.
	older     []schema.GroupVersion
	isCluster bool // and is in no namespace
	// forDoors says that only doors are made of it, and not findings.
	forDoors bool
	empty    func() runtime.Object
	add      func(*snapshot.Snapshot, runtime.Object)
}

// kindOf makes a kind of a type of list, and of what becomes of an item of it.
func kindOf[T runtime.Object, L any, P interface {
	*L
	runtime.Object
}](name, plural string, version schema.GroupVersion, add func(*snapshot.Snapshot, T)) kind {
	return kind{
		name: name, plural: plural, version: version,
		empty: func() runtime.Object { return P(new(L)) },
		add: func(s *snapshot.Snapshot, obj runtime.Object) {
			if item, is := obj.(T); is {
				add(s, item)
			}
		},
	}
}

func (k kind) ofCluster() kind {
	k.isCluster = true
	return k
}

func (k kind) onlyForDoors() kind {
	k.forDoors = true
	return k
}

// in names versions in which older clusters have a kind of the Gateway API, the newest first.
func (k kind) in(versions ...string) kind {
	for _, v := range versions {
		k.older = append(k.older, schema.GroupVersion{Group: gatewayv1.GroupName, Version: v})
	}
	return k
}

// kinds are those that are read, in their order. What says which ConfigMaps to read comes before these.
func kinds() []kind {
	core, apps, networking := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, networkingv1.SchemeGroupVersion
	gateway := schema.GroupVersion(gatewayv1.GroupVersion)
	return []kind{
		kindOf[*corev1.Namespace, corev1.NamespaceList]("Namespace", "namespaces", core,
			func(s *snapshot.Snapshot, o *corev1.Namespace) { s.AddNamespace(o) }).ofCluster(),
		kindOf[*corev1.Service, corev1.ServiceList]("Service", "services", core,
			func(s *snapshot.Snapshot, o *corev1.Service) { s.Services = append(s.Services, o) }),
		kindOf[*corev1.Node, corev1.NodeList]("Node", "nodes", core,
			func(s *snapshot.Snapshot, o *corev1.Node) { s.Nodes = append(s.Nodes, slimNode(o)) }).ofCluster(),
		kindOf[*appsv1.Deployment, appsv1.DeploymentList]("Deployment", "deployments", apps, addDeployment),
		kindOf[*appsv1.DaemonSet, appsv1.DaemonSetList]("DaemonSet", "daemonsets", apps, addDaemonSet),
		kindOf[*networkingv1.Ingress, networkingv1.IngressList]("Ingress", "ingresses", networking,
			func(s *snapshot.Snapshot, o *networkingv1.Ingress) { s.Ingresses = append(s.Ingresses, o) }),
		kindOf[*networkingv1.IngressClass, networkingv1.IngressClassList]("IngressClass", "ingressclasses", networking,
			func(s *snapshot.Snapshot, o *networkingv1.IngressClass) {
				s.IngressClasses = append(s.IngressClasses, o)
			}).ofCluster(),
		kindOf[*discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList]("EndpointSlice", "endpointslices", discoveryv1.SchemeGroupVersion,
			func(s *snapshot.Snapshot, o *discoveryv1.EndpointSlice) { s.AddEndpointSlice(o) }).onlyForDoors(),
		kindOf[*gatewayv1.Gateway, gatewayv1.GatewayList]("Gateway", "gateways", gateway,
			func(s *snapshot.Snapshot, o *gatewayv1.Gateway) { s.Gateways = append(s.Gateways, o) }).in("v1beta1"),
		kindOf[*gatewayv1.ListenerSet, gatewayv1.ListenerSetList]("ListenerSet", "listenersets", gateway,
			func(s *snapshot.Snapshot, o *gatewayv1.ListenerSet) { s.ListenerSets = append(s.ListenerSets, o) }),
		routeKind[*gatewayv1.TCPRoute, gatewayv1.TCPRouteList]("TCPRoute", "tcproutes").in("v1alpha2"),
		routeKind[*gatewayv1.UDPRoute, gatewayv1.UDPRouteList]("UDPRoute", "udproutes").in("v1alpha2"),
		routeKind[*gatewayv1.TLSRoute, gatewayv1.TLSRouteList]("TLSRoute", "tlsroutes").in("v1alpha3", "v1alpha2"),
		routeKind[*gatewayv1.HTTPRoute, gatewayv1.HTTPRouteList]("HTTPRoute", "httproutes").in("v1beta1"),
		routeKind[*gatewayv1.GRPCRoute, gatewayv1.GRPCRouteList]("GRPCRoute", "grpcroutes").in("v1alpha2"),
		kindOf[*v1beta1.StreamIngressClass, v1beta1.StreamIngressClassList]("StreamIngressClass", "streamingressclasses",
			v1beta1.GroupVersion, func(s *snapshot.Snapshot, o *v1beta1.StreamIngressClass) {
				s.Classes = append(s.Classes, o)
			}).ofCluster(),
		kindOf[*v1beta1.HostPolicy, v1beta1.HostPolicyList]("HostPolicy", "hostpolicies", v1beta1.GroupVersion,
			func(s *snapshot.Snapshot, o *v1beta1.HostPolicy) { s.HostPolicies = append(s.HostPolicies, o) }).ofCluster(),
		kindOf[*v1beta1.EdgeClaim, v1beta1.EdgeClaimList]("EdgeClaim", "edgeclaims", v1beta1.GroupVersion,
			func(s *snapshot.Snapshot, o *v1beta1.EdgeClaim) { s.Claims = append(s.Claims, o) }).ofCluster().onlyForDoors(),
	}
}

// routeKind is a kind of routes.
func routeKind[T interface {
	runtime.Object
	metav1.Object
}, L any, P interface {
	*L
	runtime.Object
}](name, plural string) kind {
	return kindOf[T, L, P](name, plural, schema.GroupVersion(gatewayv1.GroupVersion),
		func(s *snapshot.Snapshot, o T) { s.Routes = append(s.Routes, o) })
}

func addDeployment(s *snapshot.Snapshot, o *appsv1.Deployment) {
	if w, ok := snapshot.OfDeployment(o); ok {
		s.Workloads = append(s.Workloads, w)
	}
}

func addDaemonSet(s *snapshot.Snapshot, o *appsv1.DaemonSet) {
	if w, ok := snapshot.OfDaemonSet(o); ok {
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
	metav1.AddToGroupVersion(s, metalLB)                       // whose objects are read as they are
	grants := schema.GroupVersion(gatewayv1beta1.GroupVersion) // of which only these are read in that version
	s.AddKnownTypes(grants, &gatewayv1beta1.ReferenceGrant{}, &gatewayv1beta1.ReferenceGrantList{})
	all := slices.Concat(kinds(), (&found{}).kinds())
	for i := range all {
		for _, version := range all[i].older {
			s.AddKnownTypeWithName(version.WithKind(all[i].name+"List"), all[i].empty())
			metav1.AddToGroupVersion(s, version)
		}
	}
	return s
}
