package doors

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// parent is what routes attach to, and the Gateway that serves it.
type parent struct {
	*guard.Parent
	gateway *gatewayv1.Gateway
}

// addListeners adds the listeners of Gateways and of the ListenerSets that they let attach, and returns all of these.
func (l *list) addListeners() map[guard.ParentKey]parent {
	gateways, parents := snapshot.Index(l.Gateways), map[guard.ParentKey]parent{}
	for _, g := range l.Gateways {
		l.addOpener(guard.OfGateway(g), g, g)
		p := guard.ParentOfGateway(g)
		parents[p.ParentKey] = parent{p, g}
	}
	for _, set := range l.ListenerSets {
		ref := set.Spec.ParentRef
		key := types.NamespacedName{Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(set.Namespace))), Name: string(ref.Name)}
		if g := gateways[key]; g != nil && stream.AllowsListeners(g, set.Namespace, l.NamespaceLabels(set.Namespace)) {
			l.addOpener(guard.OfListenerSet(set, key), g, set)
			p := guard.ParentOfListenerSet(set, "")
			parents[p.ParentKey] = parent{p, g}
		}
	}
	return parents
}

// addOpener adds the listeners of an object on a Gateway.
func (l *list) addOpener(o guard.Opener, g *gatewayv1.Gateway, by metav1.Object) {
	for _, listener := range o.Listeners {
		for _, at := range listener.Points(o.Of) {
			port := claimPort{at.Protocol(), at.Port()}
			if at.Protocol() != v1beta1.UDP {
				port.protocol = v1beta1.TCP
			}
			d := Door{
				Point: snapshot.ListenerPoint(at), Way: ByListener, On: "Gateway " + o.Of.String(),
				Addresses: slices.Clone(stream.GatewayAddresses(g)), Holder: o.String(), Namespace: o.Namespace,
				port: port, named: at.ListenerHost() != "",
			}
			if host := at.ListenerHost(); host != "" && host != claim.AllHosts {
				d.host = host
			}
			l.add(d, at, by)
		}
	}
}
