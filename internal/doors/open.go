package doors

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// addEntries adds the ports of ConfigMaps of streams, as they are open outside. They are of the namespace that they lead to.
func (l *list) addEntries() {
	configMaps := snapshot.Index(l.ConfigMaps)
	for _, p := range l.Proxies() {
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
				at := claim.Stream(p.Class, protocol, number)
				for _, d := range l.outside(p, stream.PortKey{Protocol: protocol, Port: number}) {
					d.Point, d.Way, d.On = d.port.String(), ByEntry, "ConfigMap "+key.String()
					d.Holder, d.Namespace = claim.ConfigMapHolder(cm.Namespace, cm.Name).String(), to.Namespace
					d.LeadsTo = fmt.Sprintf("%s/%s:%s", to.Namespace, to.Service, to.Port)
					l.add(d, at, cm, types.NamespacedName{Namespace: to.Namespace, Name: to.Service})
				}
			}
		}
	}
}

// outside are the ports by which a port of a proxy is reached, with their addresses: those of its Services, which may have other numbers,
// and its own on the nodes, or where nothing says how it is reached.
func (l *list) outside(p *snapshot.Proxy, port stream.PortKey) (doors []Door) {
	if number, is := p.OnNode(port.Protocol, port.Port); is {
		doors = append(doors, Door{port: stream.PortKey{Protocol: port.Protocol, Port: number}, nodes: l.nodes})
	} else if len(p.Services) == 0 {
		doors = append(doors, Door{port: port})
	}
	for _, svc := range p.Services {
		for i := range svc.Spec.Ports {
			open := stream.PortKey{Protocol: snapshot.ProtocolOf(&svc.Spec.Ports[i]), Port: svc.Spec.Ports[i].Port}
			if open.Protocol != port.Protocol || p.Listens(&svc.Spec.Ports[i]) != port.Port {
				continue
			}
			j := slices.IndexFunc(doors, func(d Door) bool { return d.port == open })
			if j < 0 {
				j, doors = len(doors), append(doors, Door{port: open})
			}
			doors[j].Addresses = append(doors[j].Addresses, addressesOf(svc)...)
		}
	}
	return doors
}

// addServices adds the ports that Services have by themselves: at addresses of load balancers, at external IPs and on the nodes.
func (l *list) addServices() {
	for _, svc := range l.Services {
		for i := range svc.Spec.Ports {
			p := &svc.Spec.Ports[i]
			protocol := snapshot.ProtocolOf(p)
			for _, address := range snapshot.AddressesOf(svc) {
				l.addService(svc, ByLoadBalancer, stream.PortKey{Protocol: protocol, Port: p.Port}, address)
			}
			for _, ip := range svc.Spec.ExternalIPs {
				l.addService(svc, ByExternalIP, stream.PortKey{Protocol: protocol, Port: p.Port}, ip)
			}
			if p.NodePort != 0 {
				l.addService(svc, ByNodePort, stream.PortKey{Protocol: protocol, Port: p.NodePort}, "")
			}
		}
	}
}

// addService adds a port of a Service at an address, or on the nodes if that is empty.
func (l *list) addService(svc *corev1.Service, way Way, port stream.PortKey, address string) {
	key := snapshot.Key(svc)
	d := Door{
		Point: port.String(), Way: way, Holder: "Service " + key.String(), Namespace: svc.Namespace, LeadsTo: key.String(), port: port,
	}
	at := claim.NodePort(string(port.Protocol), port.Port)
	if way == ByNodePort {
		d.On, d.nodes = "nodes", l.nodes
	} else {
		if address == "" {
			return
		}
		ip, _ := netip.ParseAddr(address)
		at = claim.AddressPort(ip.Unmap(), string(port.Protocol), port.Port)
		if whole := claim.Address(ip.Unmap()); ip.IsValid() && l.claims[at.Name()] == nil && l.claims[whole.Name()] != nil {
			at = whole
		}
		d.Addresses, d.On = []string{snapshot.Address(address)}, snapshot.Address(address)
	}
	l.add(d, at, svc, key)
}

// Inside are the ports at an address that is asked about which Services have inside the cluster. They are no open doors.
func Inside(s *snapshot.Snapshot, p Point) []Door {
	l := &list{Snapshot: s}
	for _, svc := range s.Services {
		key := snapshot.Key(svc)
		for i := range svc.Spec.Ports {
			port := stream.PortKey{Protocol: snapshot.ProtocolOf(&svc.Spec.Ports[i]), Port: svc.Spec.Ports[i].Port}
			d := Door{
				Point: port.String(), Way: ByClusterIP, On: "cluster", Addresses: clusterIPs(svc), Holder: "Service " + key.String(),
				Namespace: svc.Namespace, LeadsTo: key.String(), port: port,
			}
			if p.IP.IsValid() && p.isPort(&d) {
				l.add(d, claim.Coordinate{}, svc, key)
			}
		}
	}
	return l.doors
}

// clusterIPs are the addresses of a Service inside the cluster.
func clusterIPs(svc *corev1.Service) (addresses []string) {
	for _, ip := range append([]string{svc.Spec.ClusterIP}, svc.Spec.ClusterIPs...) {
		if addr, err := netip.ParseAddr(ip); err == nil && !slices.Contains(addresses, addr.String()) {
			addresses = append(addresses, addr.String())
		}
	}
	return addresses
}
