package adversary

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// lawsOfServices are about addresses: kube-proxy forwards every port of a Service at each address that its status lists.
var lawsOfServices = []law{
	{"no two Services have one address, or one port of it", true, notTwice},
	{"no Service has a port that the nodes need", true, notReserved},
	{"a Service holds what its status lists", true, isHeld},
	{"what a status lists is not released", false, notReleased},
	{"a Service keeps its address for as long as it asks for the same", false, notLost},
}

func notTwice(now *moment, c change, _ client.Object) error {
	svc, ok := c.object.(*corev1.Service)
	if !ok || c.gone {
		return nil
	}
	for _, ip := range listed(svc) {
		for key, other := range now.services {
			if key == keyOf(svc) || !slices.Contains(listed(other), ip) {
				continue
			}
			for _, p := range svc.Spec.Ports {
				if slices.Contains(wholeAddresses, ip.String()) || slices.ContainsFunc(other.Spec.Ports, func(q corev1.ServicePort) bool {
					return p.Port == q.Port && p.Protocol == q.Protocol
				}) {
					return fmt.Errorf("%s %s/%d is\n  that of %s\n  and that of %s", ip, p.Protocol, p.Port, service(svc), service(other))
				}
			}
		}
	}
	return nil
}

func notReserved(_ *moment, c change, _ client.Object) error {
	svc, ok := c.object.(*corev1.Service)
	if !ok || c.gone || !slices.ContainsFunc(listed(svc), isNode) {
		return nil
	}
	for _, p := range svc.Spec.Ports {
		if loadbalancer.DefaultReserved().Has(p.Port) {
			return fmt.Errorf("every node answers on %s/%d for %s", p.Protocol, p.Port, service(svc))
		}
	}
	return nil
}

// isHeld is broken by whichever of the two changes: the status, or a claim.
func isHeld(now *moment, c change, before client.Object) error {
	switch object := c.object.(type) {
	case *corev1.Service:
		return holdsAll(now, now.services[keyOf(object)])
	case *v1beta1.EdgeClaim:
		if was, ok := before.(*v1beta1.EdgeClaim); ok && claim.HolderOf(was).IsService() {
			return holdsAll(now, now.services[claim.HolderOf(was).Key()])
		}
	}
	return nil
}

func holdsAll(now *moment, svc *corev1.Service) error {
	if svc == nil || isForwarded(svc) { // what those of streams list is held by their class
		return nil
	}
	self := claim.ServiceHolder(svc.Namespace, svc.Name)
	for _, ip := range listed(svc) {
		if now.holder(claim.Address(ip)) == self {
			continue
		}
		for _, p := range svc.Spec.Ports {
			if at := pointOf(ip, p); now.holder(at) != self {
				return fmt.Errorf("%s is held by %s, and is forwarded to %s", at, now.heldBy(at), service(svc))
			}
		}
	}
	return nil
}

// notReleased is about claims on whole addresses, and on ports that a Service has no longer, too.
func notReleased(now *moment, c change, before client.Object) error {
	was, ok := before.(*v1beta1.EdgeClaim)
	if !ok || !claim.HolderOf(was).IsService() {
		return nil
	}
	at, holder := pointOfClaim(was), claim.HolderOf(was)
	if !at.IsAddress() && !at.IsNode() || now.holder(at) == holder {
		return nil
	}
	svc := now.services[holder.Key()]
	if svc == nil || !slices.ContainsFunc(listed(svc), func(ip netip.Addr) bool {
		return ip == at.Address() && at.Port() == 0 || slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return pointOf(ip, p) == at })
	}) {
		return nil
	}
	return fmt.Errorf("%s is now held by %s, and it was that of %s, which lists it", at, now.heldBy(at), service(svc))
}

// notLost leaves out what happens beside a change of a pool: that may take an address away from who was not known to have it.
func notLost(now *moment, c change, before client.Object) error {
	svc, ok := c.object.(*corev1.Service)
	was, known := before.(*corev1.Service)
	if !ok || !known || c.gone || was.UID != svc.UID || isForwarded(svc) {
		return nil
	}
	for _, ip := range listed(was) {
		if slices.Contains(wholeAddresses, ip.String()) && c.seen.Sub(now.governed) < lately {
			continue
		}
		if !slices.Contains(listed(svc), ip) && now.asked[keyOf(svc)] < now.unlisted[ip] {
			return fmt.Errorf("%s was that of %s\n  and now %s", ip, service(was), service(svc))
		}
	}
	return nil
}
