package loadbalancer

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Own are the points that are of load balancers: addresses, ports of addresses and of nodes.
func Own(held []claim.Coordinate) []claim.Coordinate {
	return slices.DeleteFunc(slices.Clone(held), func(at claim.Coordinate) bool { return !at.IsAddress() && !at.IsNode() })
}

// Lists says whether the status of a Service lists a point: the address is there, or, for a port of the nodes, one that is
// nobody's claim; and the port is there, or one of the Service, as kube-proxy forwards all of those at each address.
func Lists(svc *corev1.Service, held []claim.Coordinate, at claim.Coordinate) bool {
	return slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		one := []corev1.LoadBalancerIngress{i}
		return IsListed(held, at, Listed(one)) && (HasPort(svc, at) || ListsPort(one, at))
	})
}

// IsListed says whether the addresses in a status need a point: its address is among them, or, for a port of the nodes, an
// address that is nobody's claim.
func IsListed(held []claim.Coordinate, at claim.Coordinate, listed []netip.Addr) bool {
	if at.IsAddress() {
		return slices.Contains(listed, at.Address())
	}
	return slices.ContainsFunc(listed, func(ip netip.Addr) bool { return !HoldsOf(held, ip) })
}

// Backs says whether something is held for each address in a status: on the address itself, or on ports of the nodes.
func Backs(held []claim.Coordinate, listed []netip.Addr) bool {
	return slices.ContainsFunc(held, claim.Coordinate.IsNode) ||
		!slices.ContainsFunc(listed, func(ip netip.Addr) bool { return !HoldsOf(held, ip) })
}
