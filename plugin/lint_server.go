package plugin

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	f, s := &found{}, &snapshot.Snapshot{}
	r.whole = func(obj client.Object) { f.objects = append(f.objects, obj) }
	if err := r.readKinds(ctx, decisive, s); err != nil {
		return nil, nil, err
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

// decisive are the kinds that decisions depend on, in the order in which they are read: what is in the ledger is not older than who has it.
var decisive = []string{
	"Namespace", "Node", "IngressClass", "StreamIngressClass", "AddressPool", "HostPolicy", "StreamIngress", "Service", "Ingress",
	"EndpointSlice", "GatewayClass", "Gateway", "ListenerSet", "TCPRoute", "UDPRoute", "TLSRoute", "HTTPRoute", "GRPCRoute",
	"ReferenceGrant", "Certificate", "EdgeClaim",
}
