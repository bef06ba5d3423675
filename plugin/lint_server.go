package plugin

import (
	"cmp"
	"context"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// found is what a cluster has of what decisions depend on.
type found struct {
	objects []client.Object
	// certManager says that cert-manager is installed, and namespaces that all of these are among the objects.
	certManager, namespaces bool
}

// readCluster reads what decisions depend on. The error says that the cluster can't be read at all.
func (l *lintCommand) readCluster(ctx context.Context) (*found, []Unread, error) {
	r, err := l.newReader(false)
	if err != nil {
		return nil, nil, err
	}
	defer r.progress.end()
	r.isWhole = true
	f, s := &found{}, &snapshot.Snapshot{}
	all := f.kinds()
	for i := range all {
		if err := r.readKind(ctx, &all[i], s); err != nil {
			return nil, nil, err
		}
	}
	if !r.isRead {
		return nil, nil, cmp.Or(r.failed, errNothing)
	}
	f.namespaces = s.Knows("Namespace", "")
	f.certManager = !slices.Contains(r.unread, Unread{certificates, notInstalled})
	r.unread = slices.DeleteFunc(r.unread, func(u Unread) bool { return u.What == certificates })
	return f, r.unread, r.readTargets(ctx, f)
}

// readTargets reads the ConfigMaps that classes name.
func (r *reader) readTargets(ctx context.Context, f *found) error {
	for _, obj := range slices.Clone(f.objects) {
		class, is := obj.(*v1beta1.StreamIngressClass)
		if !is {
			continue
		}
		for _, ref := range []*v1beta1.ObjectReference{class.Spec.TCPConfigMap, class.Spec.UDPConfigMap} {
			if ref == nil {
				continue
			}
			key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
			cm, err := r.ConfigMap(ctx, key)
			switch {
			case err == nil:
				f.objects = append(f.objects, cm)
			case apierrors.IsForbidden(err):
				r.unread = append(r.unread, Unread{"ConfigMap " + key.String(), forbidden})
			case !apierrors.IsNotFound(err):
				if err := r.fail("ConfigMap "+key.String(), err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// certificates are what cert-manager has.
const certificates = "certificates"

// foundIn adds the objects of a kind that is read.
func foundIn[T client.Object](f *found) func(*snapshot.Snapshot, T) {
	return func(_ *snapshot.Snapshot, obj T) { f.objects = append(f.objects, obj) }
}

// kinds are those that decisions depend on, in the order in which they are read: what is in the ledger is not older than who has it.
func (f *found) kinds() []kind {
	core, networking, ours := corev1.SchemeGroupVersion, networkingv1.SchemeGroupVersion, v1beta1.GroupVersion
	gateway := schema.GroupVersion(gatewayv1.GroupVersion)
	return []kind{
		kindOf[*corev1.Namespace, corev1.NamespaceList]("Namespace", "namespaces", core, foundIn[*corev1.Namespace](f)).ofCluster(),
		kindOf[*corev1.Node, corev1.NodeList]("Node", "nodes", core, foundIn[*corev1.Node](f)).ofCluster(),
		kindOf[*networkingv1.IngressClass, networkingv1.IngressClassList]("IngressClass", "ingressclasses", networking,
			foundIn[*networkingv1.IngressClass](f)).ofCluster(),
		kindOf[*v1beta1.StreamIngressClass, v1beta1.StreamIngressClassList]("StreamIngressClass", "streamingressclasses", ours,
			foundIn[*v1beta1.StreamIngressClass](f)).ofCluster(),
		kindOf[*v1beta1.AddressPool, v1beta1.AddressPoolList]("AddressPool", "addresspools", ours,
			foundIn[*v1beta1.AddressPool](f)).ofCluster(),
		kindOf[*v1beta1.HostPolicy, v1beta1.HostPolicyList]("HostPolicy", "hostpolicies", ours,
			foundIn[*v1beta1.HostPolicy](f)).ofCluster(),
		kindOf[*v1beta1.StreamIngress, v1beta1.StreamIngressList]("StreamIngress", "streamingresses", ours,
			foundIn[*v1beta1.StreamIngress](f)),
		kindOf[*corev1.Service, corev1.ServiceList]("Service", "services", core, foundIn[*corev1.Service](f)),
		kindOf[*networkingv1.Ingress, networkingv1.IngressList]("Ingress", "ingresses", networking, foundIn[*networkingv1.Ingress](f)),
		kindOf[*discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList]("EndpointSlice", "endpointslices",
			discoveryv1.SchemeGroupVersion, foundIn[*discoveryv1.EndpointSlice](f)),
		kindOf[*gatewayv1.GatewayClass, gatewayv1.GatewayClassList]("GatewayClass", "gatewayclasses", gateway,
			foundIn[*gatewayv1.GatewayClass](f)).ofCluster().in("v1beta1"),
		kindOf[*gatewayv1.Gateway, gatewayv1.GatewayList]("Gateway", "gateways", gateway, foundIn[*gatewayv1.Gateway](f)).in("v1beta1"),
		kindOf[*gatewayv1.ListenerSet, gatewayv1.ListenerSetList]("ListenerSet", "listenersets", gateway, foundIn[*gatewayv1.ListenerSet](f)),
		kindOf[*gatewayv1.TCPRoute, gatewayv1.TCPRouteList]("TCPRoute", "tcproutes", gateway, foundIn[*gatewayv1.TCPRoute](f)).in("v1alpha2"),
		kindOf[*gatewayv1.UDPRoute, gatewayv1.UDPRouteList]("UDPRoute", "udproutes", gateway, foundIn[*gatewayv1.UDPRoute](f)).in("v1alpha2"),
		kindOf[*gatewayv1.TLSRoute, gatewayv1.TLSRouteList]("TLSRoute", "tlsroutes", gateway,
			foundIn[*gatewayv1.TLSRoute](f)).in("v1alpha3", "v1alpha2"),
		kindOf[*gatewayv1.HTTPRoute, gatewayv1.HTTPRouteList]("HTTPRoute", "httproutes", gateway,
			foundIn[*gatewayv1.HTTPRoute](f)).in("v1beta1"),
		kindOf[*gatewayv1.GRPCRoute, gatewayv1.GRPCRouteList]("GRPCRoute", "grpcroutes", gateway,
			foundIn[*gatewayv1.GRPCRoute](f)).in("v1alpha2"),
		kindOf[*gatewayv1beta1.ReferenceGrant, gatewayv1beta1.ReferenceGrantList]("ReferenceGrant", "referencegrants",
			schema.GroupVersion(gatewayv1beta1.GroupVersion), foundIn[*gatewayv1beta1.ReferenceGrant](f)),
		kindOf[*cmv1.Certificate, cmv1.CertificateList]("Certificate", certificates, cmv1.SchemeGroupVersion, foundIn[*cmv1.Certificate](f)),
		kindOf[*v1beta1.EdgeClaim, v1beta1.EdgeClaimList]("EdgeClaim", "edgeclaims", ours, foundIn[*v1beta1.EdgeClaim](f)).ofCluster(),
	}
}
