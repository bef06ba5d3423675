package loadbalancer

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Own are the points that are of load balancers: addresses, ports of addresses and of nodes.
func Own(held []claim.Coordinate) []claim.Coordinate {
	var own []claim.Coordinate
	for _, at := range held {
		if at.IsAddress() || at.IsNode() {
			own = append(own, at)
		}
	}
	return own
}

// Lists says whether the status of a Service lists a point: the address is there, or, for a port of the nodes, one that is
// nobody's claim; and the port is there, or one of the Service, as kube-proxy forwards all of those at each address.
func Lists(svc *corev1.Service, held []claim.Coordinate, at claim.Coordinate) bool {
	isPort := func(p corev1.ServicePort) bool {
		return v1beta1.Protocol(p.Protocol) == at.Protocol() && p.Port == at.Port()
	}
	return slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		one := []corev1.LoadBalancerIngress{i}
		return IsListed(held, at, Listed(one)) &&
			(at.Port() == 0 || slices.ContainsFunc(svc.Spec.Ports, isPort) || ListsPort(one, at))
	})
}

// IsListed says whether the addresses in a status need a point: its address is among them, or, for a port of the nodes, an
// address that is nobody's claim.
func IsListed(held []claim.Coordinate, at claim.Coordinate, listed []netip.Addr) bool {
	if at.IsAddress() {
		return slices.Contains(listed, at.Address())
	}
	return slices.ContainsFunc(listed, func(ip netip.Addr) bool {
		return !slices.ContainsFunc(held, func(other claim.Coordinate) bool { return other.Address() == ip })
	})
}

// Backs says whether something is held for each address in a status: on the address itself, or on ports of the nodes.
func Backs(held []claim.Coordinate, listed []netip.Addr) bool {
	if slices.ContainsFunc(held, claim.Coordinate.IsNode) {
		return true
	}
	return !slices.ContainsFunc(listed, func(ip netip.Addr) bool {
		return !slices.ContainsFunc(held, func(at claim.Coordinate) bool { return at.Address() == ip })
	})
}
