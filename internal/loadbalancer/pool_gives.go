package loadbalancer

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/addresspool"
)

// Gives says whether an address is one that a pool has for a Service. The zero Addr stands for the ports of the nodes.
func Gives(pool *addresspool.Pool, svc *corev1.Service, ip netip.Addr) bool {
	switch pool.SourceOrDefault() {
	case v1beta1.SourceNodeIP:
		return !ip.IsValid()
	case v1beta1.SourceClusterIP:
		return slices.Contains(ClusterIPs(svc), ip)
	default:
		return pool.Set.Contains(ip)
	}
}

// ClusterIPs are the cluster IPs of a Service. There is none before the API server has given it any.
func ClusterIPs(svc *corev1.Service) []netip.Addr {
	var ips []netip.Addr
	for _, text := range svc.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(text); err == nil {
			ips = append(ips, ip.Unmap())
		}
	}
	return ips
}
