package audit

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// addForwarded adds a Service that has the kernel forward the port of a stream: the port is open at each of its addresses, and is to be
// claimed on the class, and there for the class, as a whole or that port of it. One without an address forwards nothing, and may be
// anybody's.
func (f *Facts) addForwarded(svc *corev1.Service, object Object, listed []netip.Addr) {
	class := svc.Labels[v1beta1.LabelClass]
	if len(svc.Status.LoadBalancer.Ingress) == 0 {
		return
	}
	for _, p := range svc.Spec.Ports {
		at := claim.Stream(class, v1beta1.Protocol(p.Protocol), p.Port)
		if class == "" || at.IsZero() {
			continue
		}
		where := place{object: object, where: object.Holder}
		if c := f.claims[at]; c != nil {
			c.asked = true
		}
		f.stand(at, where)
		for _, ip := range listed {
			whole, port := claim.Address(ip), claim.AddressPort(ip, string(p.Protocol), p.Port)
			f.note(claim.ClassHolder(class), whole)
			f.note(claim.ClassHolder(class), port)
			if f.holder(whole) != claim.ClassHolder(class) && f.holder(port) != claim.ClassHolder(class) {
				if _, known := f.standing[port]; !known {
					f.standing[port] = where
				}
			}
		}
	}
}

// addAddresses adds what a class has of its pool, or asks for.
func (f *Facts) addAddresses(class *v1beta1.StreamIngressClass) {
	pool := class.Spec.AddressPool
	if pool == nil {
		return
	}
	for _, ip := range addressesIn(slices.Concat(class.Status.Addresses, pool.Addresses)...) {
		f.note(claim.ClassHolder(class.Name), claim.Address(ip))
	}
}

// keeps says whether a class that does not have an address, as far as it says, has a use for it, or for a port of it: somebody has that
// port of the class, or, of a class that may come back, any.
func (f *Facts) keeps(class string, at claim.Coordinate) bool {
	if at.Port() != 0 {
		return f.claims[claim.Stream(class, at.Protocol(), at.Port())] != nil
	}
	return !f.classes[class] && f.claimed[class]
}
