package audit

import (
	"slices"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
)

// listener is what a claim on a point of a Gateway is about: the port of the network, and, where that is shared by host name, HTTP or TLS
// and the name.
type listener struct {
	udp  bool
	port int32
	host string
}

// AddGateway adds a Gateway, of which claims on its own listeners are.
func (f *Facts) AddGateway(g *gatewayv1.Gateway) {
	has := map[listener]bool{}
	for _, l := range g.Spec.Listeners {
		noteListener(has, l.Port, l.Protocol, l.Hostname)
	}
	f.listening[claim.GatewayHolder(g.Namespace, g.Name)] = has
}

// AddListenerSet adds a ListenerSet. Whether its Gateway lets it attach is not told here: that changes with neither of the two.
func (f *Facts) AddListenerSet(set *gatewayv1.ListenerSet) {
	has := map[listener]bool{}
	for _, l := range set.Spec.Listeners {
		noteListener(has, l.Port, l.Protocol, l.Hostname)
	}
	f.listening[claim.ListenerSetHolder(set.Namespace, set.Name)] = has
}

func noteListener(has map[listener]bool, port int32, protocol gatewayv1.ProtocolType, host *gatewayv1.Hostname) {
	switch protocol {
	case gatewayv1.HTTPProtocolType:
		has[listener{port: port, host: "HTTP/" + nameOf(host)}] = true
	case gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType:
		has[listener{port: port, host: "TLS/" + nameOf(host)}] = true
	case gatewayv1.TCPProtocolType:
		has[listener{port: port}] = true
	case gatewayv1.UDPProtocolType:
		has[listener{port: port, udp: true}] = true
	default:
		has[listener{port: port}], has[listener{port: port, udp: true}] = true, true
	}
}

func nameOf(host *gatewayv1.Hostname) string {
	if host == nil || *host == "" {
		return claim.AllHosts
	}
	return string(*host)
}

// listensAt says whether a claim on a point of a Gateway is of somebody who listens there; of one that stands for all host names at a port,
// whether any of these is claimed.
func (f *Facts) listensAt(c *entry, at claim.Coordinate) bool {
	if at.IsHosts() {
		return f.hosts[at]
	}
	what := listener{udp: at.Protocol() == v1beta1.UDP, port: at.Port()}
	if at.ListenerHost() != "" {
		what.host = at.Point()
	}
	return f.listening[c.holder][what]
}

// AddRoute adds a route of a guarded kind.
func (f *Facts) AddRoute(r guard.Route) { f.routing[r.Holder] = r }

// AddNames adds the host names that objects of a namespace use, and the paths that its routes serve on Gateways. Nothing is kept but that
// those are there which the namespace has claims on.
func (f *Facts) AddNames(namespace string, hosts map[string]bool, paths map[claim.Coordinate]bool) {
	holder := claim.NamespaceHolder(namespace)
	for at := range paths {
		f.note(holder, at)
	}
	for host := range hosts {
		f.note(holder, claim.Hostname(host))
	}
}

// AddRoutePath adds a path that a route serves on a Gateway, and that is to have a claim, whosever.
func (f *Facts) AddRoutePath(route Object, at claim.Coordinate) {
	f.stand(at, place{object: route, where: route.Holder})
}

// routesAt says whether a claim on what a listener has for routes is of a route that names the listener. Whether that lets it attach is not
// told here.
func (f *Facts) routesAt(c *entry, at claim.Coordinate) bool {
	r, of := f.routing[c.holder], at.Section()
	return slices.ContainsFunc(r.Parents, func(ref gatewayv1.ParentReference) bool {
		parent := r.ParentOf(ref)
		return string(parent.Kind) == of.Kind && parent.Namespace == of.Namespace && parent.Name == of.Name &&
			string(ptr.Deref(ref.SectionName, gatewayv1.SectionName(of.Listener))) == of.Listener
	})
}
