package doors

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// addEntries adds the ports of ConfigMaps of streams. They are of the namespace that they lead to.
func (l *list) addEntries() {
	configMaps := snapshot.Index(l.ConfigMaps)
	for _, p := range l.Proxies() {
		var addresses []string
		for _, svc := range p.Services {
			addresses = append(addresses, addressesOf(svc)...)
		}
		for protocol, key := range p.ConfigMaps {
			cm := configMaps[key]
			if cm == nil {
				continue
			}
			for text, value := range cm.Data {
				number, isPort := stream.ParseKey(text)
				to, err := p.Entry(value)
				if !isPort || err != nil || p.Own.Has(number) || !p.Opens(protocol, number) {
					continue
				}
				port := claimPort{protocol, number}
				l.add(Door{
					Point: port.String(), Way: ByEntry, On: "ConfigMap " + key.String(), Addresses: addresses,
					Holder: claim.ConfigMapHolder(cm.Namespace, cm.Name).String(), Namespace: to.Namespace,
					LeadsTo: fmt.Sprintf("%s/%s:%s", to.Namespace, to.Service, to.Port), port: port,
				}, claim.Stream(p.Class, protocol, number), cm, types.NamespacedName{Namespace: to.Namespace, Name: to.Service})
			}
		}
	}
}

// addServices adds the ports that Services have by themselves: at addresses of load balancers, at external IPs and on the nodes.
func (l *list) addServices() {
	for _, svc := range l.Services {
		isBalancer := svc.Spec.Type == corev1.ServiceTypeLoadBalancer
		for i := range svc.Spec.Ports {
			p := &svc.Spec.Ports[i]
			protocol := snapshot.ProtocolOf(p)
			for j := range svc.Status.LoadBalancer.Ingress {
				if in := &svc.Status.LoadBalancer.Ingress[j]; isBalancer {
					l.addService(svc, ByLoadBalancer, claimPort{protocol, p.Port}, cmp.Or(in.IP, in.Hostname))
				}
			}
			for _, ip := range svc.Spec.ExternalIPs {
				l.addService(svc, ByExternalIP, claimPort{protocol, p.Port}, ip)
			}
			if p.NodePort != 0 {
				l.addService(svc, ByNodePort, claimPort{protocol, p.NodePort}, "")
			}
		}
	}
}

// addService adds a port of a Service at an address, or on the nodes if that is empty.
func (l *list) addService(svc *corev1.Service, way Way, port claimPort, address string) {
	key := snapshot.Key(svc)
	d := Door{
		Point: port.String(), Way: way, Holder: "Service " + key.String(), Namespace: svc.Namespace, LeadsTo: key.String(), port: port,
	}
	at := claim.NodePort(string(port.protocol), port.number)
	if way == ByNodePort {
		d.On = "nodes"
	} else {
		if address == "" {
			return
		}
		ip, _ := netip.ParseAddr(address)
		at = claim.AddressPort(ip.Unmap(), string(port.protocol), port.number)
		if whole := claim.Address(ip.Unmap()); ip.IsValid() && l.claims[at.Name()] == nil && l.claims[whole.Name()] != nil {
			at = whole
		}
		d.Addresses, d.On = []string{normal(address)}, normal(address)
	}
	l.add(d, at, svc, key)
}

// addIngresses adds hosts and paths.
func (l *list) addIngresses() {
	classes := l.ClassesOf()
	for _, ing := range l.Ingresses {
		var addresses []string
		for i := range ing.Status.LoadBalancer.Ingress {
			in := &ing.Status.LoadBalancer.Ingress[i]
			addresses = append(addresses, normal(cmp.Or(in.IP, in.Hostname)))
		}
		backends := backendsOf(ing)
		i := 0
		for host, path := range exposure.Served(ing) {
			to := backends[i]
			i++
			d := Door{
				Point: cmp.Or(host, "*") + path.Value, Way: ByIngress, On: snapshot.ClassName(classes.Of(ing)), Addresses: addresses,
				Holder: claim.IngressHolder(ing.Namespace, ing.Name).String(), Namespace: ing.Namespace, LeadsTo: to.text,
				host: host, path: path.Value, exact: path.Type == networkingv1.PathTypeExact,
			}
			l.add(d, claim.HTTP(host, path.Value), ing, to.key)
		}
	}
}

// backend is where a path leads.
type backend struct {
	key  types.NamespacedName
	text string
}

// backendsOf are those of the paths of an Ingress, in the order of exposure.Served.
func backendsOf(ing *networkingv1.Ingress) (backends []backend) {
	add := func(b *networkingv1.IngressBackend) {
		if b == nil || b.Service == nil {
			backends = append(backends, backend{})
			return
		}
		key := types.NamespacedName{Namespace: ing.Namespace, Name: b.Service.Name}
		port := b.Service.Port.Name
		if port == "" {
			port = fmt.Sprint(b.Service.Port.Number)
		}
		backends = append(backends, backend{key, key.String() + ":" + port})
	}
	for i := range ing.Spec.Rules {
		if ing.Spec.Rules[i].HTTP == nil {
			add(ing.Spec.DefaultBackend)
			continue
		}
		for j := range ing.Spec.Rules[i].HTTP.Paths {
			add(&ing.Spec.Rules[i].HTTP.Paths[j].Backend)
		}
	}
	return backends
}

// addListeners adds the listeners of Gateways and of the ListenerSets that they let attach.
func (l *list) addListeners() {
	gateways := snapshot.Index(l.Gateways)
	for _, g := range l.Gateways {
		l.addOpener(guard.OfGateway(g), g, g)
	}
	for _, set := range l.ListenerSets {
		ref := set.Spec.ParentRef
		key := types.NamespacedName{Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(set.Namespace))), Name: string(ref.Name)}
		if g := gateways[key]; g != nil && stream.AllowsListeners(g, set.Namespace, l.NamespaceLabels(set.Namespace)) {
			l.addOpener(guard.OfListenerSet(set, key), g, set)
		}
	}
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
				Point: port.String(), Way: ByListener, On: "Gateway " + o.Of.String(), Addresses: slices.Clone(stream.GatewayAddresses(g)),
				Holder: o.String(), Namespace: o.Namespace, port: port,
			}
			if host := at.ListenerHost(); host != "" && host != claim.AllHosts {
				d.Point, d.host = host+" at "+port.String(), host
			}
			l.add(d, at, by, types.NamespacedName{})
		}
	}
}
