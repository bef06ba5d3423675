package loadbalancer

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// IsOneOfSeveral says whether a status lists other addresses of the family of one. No Service has two of one family but those of nodes.
func IsOneOfSeveral(listed []netip.Addr, ip netip.Addr) bool {
	return slices.ContainsFunc(listed, func(other netip.Addr) bool { return other != ip && other.BitLen() == ip.BitLen() })
}

// IsOfNodes says whether an address in the status of a Service is that of a node: there is such a node, or it is one of several, of which
// the nodes may be gone by now. What lists several of a Service without a class may have been another controller.
func IsOfNodes(svc *corev1.Service, ip netip.Addr, isNode func(netip.Addr) bool) bool {
	return svc.Spec.LoadBalancerClass != nil && IsOneOfSeveral(Listed(svc.Status.LoadBalancer.Ingress), ip) || isNode(ip)
}

// HasOnNodes says whether a port of the nodes is a Service's by its status alone: it is served there, and holds none of them. Who has begun
// to claim its ports one by one has those that its status lists.
func HasOnNodes(svc *corev1.Service, held []claim.Coordinate, at claim.Coordinate, isNode func(netip.Addr) bool) bool {
	ingress := svc.Status.LoadBalancer.Ingress
	if !HasPort(svc, at) || slices.Contains(held, at) || slices.ContainsFunc(held, claim.Coordinate.IsNode) && !ListsPort(ingress, at) {
		return false
	}
	return slices.ContainsFunc(Listed(ingress), func(ip netip.Addr) bool { return !HoldsOf(held, ip) && IsOfNodes(svc, ip, isNode) })
}

// HoldsOf says whether anything that is held is of an address.
func HoldsOf(held []claim.Coordinate, ip netip.Addr) bool {
	return slices.ContainsFunc(held, func(at claim.Coordinate) bool { return at.Address() == ip })
}

// ByAge orders Services by age, and those as old by name.
func ByAge(a, b *corev1.Service) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// WillHold is the claim that a Service will have on a point which its status lists.
func WillHold(svc *corev1.Service, at claim.Coordinate) *v1beta1.EdgeClaim {
	will := claim.New(at, claim.Claimant{Holder: claim.ServiceHolder(svc.Namespace, svc.Name), UID: svc.UID})
	will.CreationTimestamp = svc.CreationTimestamp
	return will
}
