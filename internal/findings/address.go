package findings

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// point is a port at an address, which may be a name that a cloud has given.
type point struct {
	address  string
	protocol v1beta1.Protocol
	port     int32
}

func (p point) String() string { return fmt.Sprintf("%s %s/%d", p.address, p.protocol, p.port) }

// addressesOf are those that the status of a load balancer lists. One that another controller has left behind on a Service that is no
// load balancer any more is nobody's.
func addressesOf(svc *corev1.Service) (addresses []string) {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	for i := range svc.Status.LoadBalancer.Ingress {
		in := &svc.Status.LoadBalancer.Ingress[i]
		switch ip, err := netip.ParseAddr(in.IP); {
		case err == nil:
			addresses = append(addresses, ip.Unmap().String())
		case in.Hostname != "":
			addresses = append(addresses, in.Hostname)
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// addresses are the ports of addresses that several load balancers have.
func addresses(s *snapshot.Snapshot) (found []Finding) {
	at := map[point][]*corev1.Service{}
	for _, svc := range s.Services {
		for _, address := range addressesOf(svc) {
			note(at, svc, address)
		}
	}
	for p, having := range at {
		if len(having) < 2 {
			continue
		}
		objects := servicesOf(having)
		found = append(found, Finding{
			Rule: AddressTwice, Point: p.String(), Objects: objects, Wins: Undetermined,
			Text:   fmt.Sprintf("the statuses of %s list the same address, and they have the same port", names(objects)),
			Advice: "give one of them another port or another address",
		})
	}
	return found
}

// note notes the ports that a Service has at an address.
func note(at map[point][]*corev1.Service, svc *corev1.Service, address string) {
	for i := range svc.Spec.Ports {
		p := point{address, snapshot.ProtocolOf(&svc.Spec.Ports[i]), svc.Spec.Ports[i].Port}
		at[p] = append(at[p], svc)
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

// owners are those of all addresses, by address.
func owners(s *snapshot.Snapshot) map[string][]owner {
	has := map[string][]owner{}
	for _, node := range s.Nodes {
		for _, a := range node.Status.Addresses {
			if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
				has[a.Address] = append(has[a.Address], owner{objectOf("Node", node), "the address"})
			}
		}
	}
	for _, svc := range s.Services {
		for _, ip := range svc.Spec.ClusterIPs {
			has[ip] = append(has[ip], owner{objectOf("Service", svc), "the cluster IP"})
		}
		for _, address := range addressesOf(svc) {
			has[address] = append(has[address], owner{objectOf("Service", svc), "an address"})
		}
	}
	return has
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
	told := map[*corev1.Service]map[string]bool{}
	tell := func(svc *corev1.Service, ip string) {
		if told[svc] == nil {
			told[svc] = map[string]bool{}
		}
		told[svc][ip] = true
	}
	for p, services := range naming {
		if len(services) < 2 {
			continue
		}
		for _, svc := range services {
			tell(svc, p.address)
		}
		objects := servicesOf(services)
		found = append(found, Finding{
			Rule: ExternalIPTwice, Point: p.String(), Objects: objects, Wins: Undetermined,
			Text:   fmt.Sprintf("%s name the same external IP, and they have the same port", names(objects)),
			Advice: "give one of them another port, or take the address out of its spec.externalIPs",
		})
	}
	has := owners(s)
	for _, svc := range s.Services {
		for _, ip := range externalOf(svc) {
			self := objectOf("Service", svc)
			if i := slices.IndexFunc(has[ip], func(o owner) bool { return o.object.String() != self.String() }); i >= 0 {
				tell(svc, ip)
				found = append(found, taken(self, ip, has[ip][i]))
			}
			if !told[svc][ip] {
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

func taken(self Object, ip string, by owner) Finding {
	objects := []Object{by.object, self}
	return Finding{
		Rule: ExternalIPTaken, Point: ip, Objects: objects, Wins: Undetermined,
		Text: fmt.Sprintf(
			"%s names %s in spec.externalIPs, which is %s of %s: its ports there lead to the Service", self, ip, by.as, by.object),
		Advice: "take the address out of spec.externalIPs, and use a Service of type LoadBalancer",
	}
}
