package findings

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// point is a port at an address, which may be a name that a cloud has given.
type point struct {
	address string
	port    stream.PortKey
}

func (p point) String() string { return p.address + " " + p.port.String() }

// addresses are the ports of addresses that several load balancers have.
func addresses(s *snapshot.Snapshot) (found []Finding) {
	at := map[point][]*corev1.Service{}
	for _, svc := range s.Services {
		for _, address := range snapshot.AddressesOf(svc) {
			note(at, svc, address)
		}
	}
	return several(at, AddressTwice, "the statuses of %s list the same address, and they have the same port",
		"give one of them another port or another address")
}

// several are the findings of a rule about points that several Services have.
func several(at map[point][]*corev1.Service, rule Rule, text, advice string) (found []Finding) {
	for p, having := range at {
		if len(having) > 1 {
			objects := servicesOf(having)
			found = append(found, Finding{
				Rule: rule, Point: p.String(), Objects: objects, Wins: Undetermined, Text: fmt.Sprintf(text, names(objects)), Advice: advice,
			})
		}
	}
	return found
}

// note notes the ports that a Service has at an address.
func note(at map[point][]*corev1.Service, svc *corev1.Service, address string) {
	for _, port := range portsOf(svc) {
		at[point{address, port}] = append(at[point{address, port}], svc)
	}
}

func servicesOf(services []*corev1.Service) []Object {
	slices.SortFunc(services, loadbalancer.ByAge)
	objects := make([]Object, 0, len(services))
	for _, svc := range services {
		objects = append(objects, objectOf("Service", svc))
	}
	return objects
}

// owner is who has an address by something else than spec.externalIPs.
type owner struct {
	object Object
	as     string
}

// owners are two of those who have an address, and two of those who have a port there: one of them is another than who asks.
type owners struct {
	all []owner
	at  map[stream.PortKey][]owner
}

// ownersBook has the owners of addresses.
type ownersBook map[string]*owners

func (b ownersBook) add(address string, by owner, ports []stream.PortKey) {
	o := b[address]
	if o == nil {
		o = &owners{at: map[stream.PortKey][]owner{}}
		b[address] = o
	}
	o.all = addOwner(o.all, by)
	for _, port := range ports {
		o.at[port] = addOwner(o.at[port], by)
	}
}

func addOwner(all []owner, by owner) []owner {
	if len(all) == 2 || len(all) == 1 && all[0].object.String() == by.object.String() {
		return all
	}
	return append(all, by)
}

// other is somebody else than a Service who has an address, with one of its ports if there is one, else with any.
func (b ownersBook) other(svc *corev1.Service, address string) (by owner, meets, has bool) {
	o := b[address]
	if o == nil {
		return by, false, false
	}
	self := objectOf("Service", svc).String()
	isOther := func(o owner) bool { return o.object.String() != self }
	for _, port := range portsOf(svc) {
		if i := slices.IndexFunc(o.at[port], isOther); i >= 0 {
			return o.at[port][i], true, true
		}
	}
	if i := slices.IndexFunc(o.all, isOther); i >= 0 {
		return o.all[i], false, true
	}
	return by, false, false
}

// portsOf are the ports of a Service.
func portsOf(svc *corev1.Service) (ports []stream.PortKey) {
	for i := range svc.Spec.Ports {
		ports = append(ports, stream.PortKey{Protocol: snapshot.ProtocolOf(&svc.Spec.Ports[i]), Port: svc.Spec.Ports[i].Port})
	}
	return ports
}

// ownersOf are those of all addresses. Of the ports of nodes, those are known that Services have there.
func ownersOf(s *snapshot.Snapshot) ownersBook {
	book, named := ownersBook{}, map[string]bool{}
	for _, svc := range s.Services {
		for _, ip := range svc.Spec.ClusterIPs {
			book.add(ip, owner{objectOf("Service", svc), "the cluster IP"}, portsOf(svc))
		}
		for _, address := range snapshot.AddressesOf(svc) {
			book.add(address, owner{objectOf("Service", svc), "an address"}, portsOf(svc))
		}
		for _, ip := range externalOf(svc) {
			named[ip] = true
		}
	}
	ports := nodePortsOf(s)
	for _, node := range s.Nodes {
		for _, a := range node.Status.Addresses {
			if named[a.Address] && (a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP) {
				book.add(a.Address, owner{objectOf("Node", node), "the address"}, ports)
			}
		}
	}
	return book
}

// nodePortsOf are the ports that Services have on the nodes.
func nodePortsOf(s *snapshot.Snapshot) (ports []stream.PortKey) {
	for _, svc := range s.Services {
		for i := range svc.Spec.Ports {
			if p := &svc.Spec.Ports[i]; p.NodePort != 0 {
				ports = append(ports, stream.PortKey{Protocol: snapshot.ProtocolOf(p), Port: p.NodePort})
			}
		}
	}
	return ports
}

// externalIPs are the findings about addresses that Services name in spec.externalIPs. Each address of a Service is told once, by what is
// worst of it.
func externalIPs(s *snapshot.Snapshot) (found []Finding) {
	naming := map[point][]*corev1.Service{}
	for _, svc := range s.Services {
		for _, ip := range externalOf(svc) {
			note(naming, svc, ip)
		}
	}
	found = several(naming, ExternalIPTwice, "%s name the same external IP, and they have the same port",
		"give one of them another port, or take the address out of its spec.externalIPs")
	book := ownersOf(s)
	for _, svc := range s.Services {
		for _, ip := range externalOf(svc) {
			self := objectOf("Service", svc)
			isTwice := func(port stream.PortKey) bool { return len(naming[point{ip, port}]) > 1 }
			if by, meets, has := book.other(svc, ip); has {
				found = append(found, taken(self, ip, by, meets))
			} else if !slices.ContainsFunc(portsOf(svc), isTwice) {
				found = append(found, Finding{
					Rule: ExternalIPNamed, Point: ip, Objects: []Object{self},
					Text: fmt.Sprintf(
						"%s names %s in spec.externalIPs: nodes and pods reach the Service there, and not who has the address", self, ip),
					Advice: "make sure that the address is meant for this Service, or take it out; " +
						"Portcullis' --guard=ExternalIPs=Deny refuses what no AddressPool gives",
				})
			}
		}
	}
	return found
}

// externalOf are the addresses that a Service names, each once.
func externalOf(svc *corev1.Service) (ips []string) {
	for _, ip := range loadbalancer.ExternalIPs(svc) {
		if ip.IsValid() {
			ips = append(ips, ip.String())
		}
	}
	slices.Sort(ips)
	return slices.Compact(ips)
}

// taken is the finding about an external IP that somebody else has: an error if they meet at a port.
func taken(self Object, ip string, by owner, meets bool) Finding {
	level := Note
	if meets {
		level = Error
	}
	return Finding{
		Rule: ExternalIPTaken, Level: level, Point: ip, Objects: []Object{by.object, self}, Wins: Undetermined,
		Text: fmt.Sprintf(
			"%s names %s in spec.externalIPs, which is %s of %s: its ports there lead to the Service", self, ip, by.as, by.object),
		Advice: "take the address out of spec.externalIPs, and use a Service of type LoadBalancer",
	}
}
