package doors

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// addListeners adds the listeners of Gateways and of the ListenerSets that they let attach.
func (l *list) addListeners() {
	attached := l.Attached()
	for _, g := range l.Gateways {
		l.addOpener(guard.OfGateway(g), g, g)
		for _, set := range attached[snapshot.Key(g)] {
			l.addOpener(guard.OfListenerSet(set, snapshot.Key(g)), g, set)
		}
	}
}

// addOpener adds the listeners of an object on a Gateway.
func (l *list) addOpener(o guard.Opener, g *gatewayv1.Gateway, by metav1.Object) {
	for _, listener := range o.Listeners {
		for _, at := range listener.Points(o.Of) {
			port := stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}
			if at.Protocol() != v1beta1.UDP {
				port.Protocol = v1beta1.TCP
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
