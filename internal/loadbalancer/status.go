package loadbalancer

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// Served is the status of a Service that is served at addresses.
func Served(addresses []netip.Addr, mode corev1.LoadBalancerIPMode, ports []Port) []corev1.LoadBalancerIngress {
	ingress := make([]corev1.LoadBalancerIngress, 0, len(addresses))
	for _, ip := range addresses {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: &mode, Ports: portStatus(ports, nil)})
	}
	return ingress
}

// Refused is the status of a Service that is not served because of some of its ports: kube-proxy would forward all of
// them at any address that is listed, so none is. refused has the reasons.
func Refused(ports []Port, refused map[Port]string) []corev1.LoadBalancerIngress {
	return []corev1.LoadBalancerIngress{{Ports: portStatus(ports, refused)}}
}

func portStatus(ports []Port, refused map[Port]string) []corev1.PortStatus {
	status := make([]corev1.PortStatus, 0, len(ports))
	for _, p := range ports {
		s := corev1.PortStatus{Port: p.Number, Protocol: p.Protocol}
		if reason, is := refused[p]; is {
			text := v1beta1.GroupName + "/" + reason
			s.Error = &text
		}
		status = append(status, s)
	}
	return status
}

// IsAddressed says whether a status gives an address or a host name at all, whatever that may be.
func IsAddressed(ingress []corev1.LoadBalancerIngress) bool {
	return slices.ContainsFunc(ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP != "" || i.Hostname != "" })
}

// Listed are the addresses in a status.
func Listed(ingress []corev1.LoadBalancerIngress) []netip.Addr {
	var listed []netip.Addr
	for i := range ingress {
		if ip, err := netip.ParseAddr(ingress[i].IP); err == nil {
			listed = append(listed, ip.Unmap())
		}
	}
	return listed
}

// ListsPort says whether a status lists the port of a point, at its address or, for a port of the nodes, at any. A whole
// address has no port that could be missing.
func ListsPort(ingress []corev1.LoadBalancerIngress, at claim.Coordinate) bool {
	isPort := func(p corev1.PortStatus) bool {
		return string(p.Protocol) == string(at.Protocol()) && p.Port == at.Port()
	}
	return at.Port() == 0 || slices.ContainsFunc(ingress, func(i corev1.LoadBalancerIngress) bool {
		ip, err := netip.ParseAddr(i.IP)
		return err == nil && (at.IsNode() || ip.Unmap() == at.Address()) && slices.ContainsFunc(i.Ports, isPort)
	})
}
