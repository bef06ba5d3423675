package loadbalancer

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// MaxExternalIPs is how many addresses a Service may name in spec.externalIPs. The API sets no limit, and each of them is claimed with
// each port.
const MaxExternalIPs = 16

// ExternalIPsPath is the field in which a Service names addresses that lead to the nodes: kube-proxy forwards its ports there.
var ExternalIPsPath = field.NewPath("spec", "externalIPs")

// ExternalIPs are the addresses that a Service names in spec.externalIPs, the first MaxExternalIPs of them. They are read as kube-proxy
// reads them, which takes leading zeros for decimal digits. What is no address is the zero Addr: kube-proxy leaves it out.
func ExternalIPs(svc *corev1.Service) []netip.Addr {
	named := svc.Spec.ExternalIPs[:min(len(svc.Spec.ExternalIPs), MaxExternalIPs)]
	ips := make([]netip.Addr, 0, len(named))
	for _, text := range named {
		ip, _ := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
		ips = append(ips, ip.Unmap())
	}
	return ips
}

// ExternalPoints are the ports of an address that a Service has by naming it, in the order of its ports.
func ExternalPoints(svc *corev1.Service, ip netip.Addr) []claim.Coordinate {
	if !ip.IsValid() {
		return nil
	}
	points := make([]claim.Coordinate, 0, len(svc.Spec.Ports))
	for _, p := range svc.Spec.Ports {
		if at := claim.AddressPort(ip, string(p.Protocol), p.Port); !at.IsZero() {
			points = append(points, at)
		}
	}
	return points
}

// NamesPoint says whether a Service names the address of a point in spec.externalIPs, and has its port.
func NamesPoint(svc *corev1.Service, at claim.Coordinate) bool {
	return at.IsAddress() && HasPort(svc, at) && slices.Contains(ExternalIPs(svc), at.Address())
}

// HasPort says whether the port of a point is one of a Service.
func HasPort(svc *corev1.Service, at claim.Coordinate) bool {
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Port == at.Port() && string(p.Protocol) == string(at.Protocol())
	})
}

// maxAddress is more than an address has: that of IPv6 has at most 45 letters.
const maxAddress = 64

// SlimExternalIPs leaves of spec.externalIPs what ExternalIPs reads, and whether there are more.
func SlimExternalIPs(named []string) []string {
	var kept []string
	for _, text := range named[:min(len(named), MaxExternalIPs+1)] {
		kept = append(kept, text[:min(len(text), maxAddress)])
	}
	return kept
}
