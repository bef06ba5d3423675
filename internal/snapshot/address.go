package snapshot

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// AddressesOf are those that the status of a load balancer lists: addresses, or names that a cloud has given. What another controller has
// left behind on a Service that is no load balancer any more is nobody's.
func AddressesOf(svc *corev1.Service) (addresses []string) {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	for i := range svc.Status.LoadBalancer.Ingress {
		in := &svc.Status.LoadBalancer.Ingress[i]
		switch ip, err := netip.ParseAddr(in.IP); {
		case err == nil:
			addresses = append(addresses, ip.Unmap().String())
		case in.Hostname != "":
			addresses = append(addresses, Address(in.Hostname))
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// AddressesOfIngress are the addresses and names that the status of an Ingress lists.
func AddressesOfIngress(ing *networkingv1.Ingress) (addresses []string) {
	for i := range ing.Status.LoadBalancer.Ingress {
		in := &ing.Status.LoadBalancer.Ingress[i]
		for _, text := range []string{in.IP, in.Hostname} {
			if text != "" {
				addresses = append(addresses, Address(text))
			}
		}
	}
	return addresses
}

// Address is an address in its usual spelling, and a name in lower case.
func Address(text string) string {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(text)
}

// ListenerPoint is the point of a listener as it is told: its port of the network, and before it the host name that it is for, if any.
func ListenerPoint(at claim.Coordinate) string {
	port := stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}
	if port.Protocol != v1beta1.UDP {
		port.Protocol = v1beta1.TCP
	}
	if host := at.ListenerHost(); host != "" && host != claim.AllHosts {
		return host + " at " + port.String()
	}
	return port.String()
}
