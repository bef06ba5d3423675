package audit

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// balancer is a Service of type LoadBalancer.
type balancer struct {
	object Object
	// nodePorts are the points of its ports on the nodes.
	nodePorts []claim.Coordinate
	// listed are the addresses in its status, own those that it has by itself.
	listed, own []netip.Addr
	// ours says whether its class is Portcullis'. One without a class is, too, if it has a claim.
	ours bool
}

// AddLoadBalancer adds a Service; one of another type adds the addresses that it names itself.
func (f *Facts) AddLoadBalancer(svc *corev1.Service) {
	for _, ip := range loadbalancer.ExternalIPs(svc) {
		for _, at := range loadbalancer.ExternalPoints(svc, ip) {
			f.note(claim.ServiceHolder(svc.Namespace, svc.Name), at)
		}
	}
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	holder := claim.ServiceHolder(svc.Namespace, svc.Name)
	class := svc.Spec.LoadBalancerClass
	b := balancer{object: Object{holder, svc.UID}, ours: class != nil && *class == v1beta1.LoadBalancerClass}
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		b.listed = append(b.listed, addressesIn(ingress.IP)...)
	}
	if class != nil && *class == v1beta1.StreamLoadBalancerClass {
		f.addForwarded(svc, b.object, b.listed)
		return
	}
	for _, p := range svc.Spec.Ports {
		b.nodePorts = append(b.nodePorts, claim.NodePort(string(p.Protocol), p.Port))
	}
	b.own = addressesIn(svc.Spec.ClusterIPs...)
	f.balancers[holder] = b
}

// addressesIn are the addresses among some texts.
func addressesIn(texts ...string) (ips []netip.Addr) {
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil {
			ips = append(ips, ip.Unmap())
		}
	}
	return ips
}

// asks says whether the Service can have a use for an address, a port of one, or a port of the nodes. While its status
// lists nothing, which addresses it is about to have can't be told.
func (b balancer) asks(at claim.Coordinate) bool {
	if at.Port() != 0 && !slices.Contains(b.nodePorts, claim.NodePort(string(at.Protocol()), at.Port())) {
		return false
	}
	if at.IsAddress() {
		return b.object.Name != "" && (len(b.listed) == 0 || slices.Contains(b.listed, at.Address()))
	}
	return b.object.Name != ""
}

// unclaimed finds the addresses in the status of a Service of ours which has no claim on them: neither on the whole
// address, nor on its ports there or on the nodes. Addresses that it has by itself need none. Who has written them does not
// matter: they are forwarded.
func (b balancer) unclaimed(holder func(claim.Coordinate) claim.Holder) (found []Disagreement) {
	if !b.ours {
		return nil
	}
	isOthers := func(at claim.Coordinate) bool { return holder(at) != b.object.Holder }
	if len(b.nodePorts) > 0 && !slices.ContainsFunc(b.nodePorts, isOthers) {
		return nil // of the nodes, any address is served
	}
	for _, ip := range b.listed {
		at := claim.Address(ip)
		onPort := func(port claim.Coordinate) bool {
			return isOthers(claim.AddressPort(ip, string(port.Protocol()), port.Port()))
		}
		shared := len(b.nodePorts) > 0 && !slices.ContainsFunc(b.nodePorts, onPort)
		if isOthers(at) && !shared && !slices.Contains(b.own, ip) {
			found = append(found, Disagreement{
				Kind: PointWithoutClaim, Point: at, Holder: holder(at), Object: b.object, Where: b.object.Holder,
			})
		}
	}
	return found
}
