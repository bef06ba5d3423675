package kube

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
)

// indexExternalIP finds Services by the addresses that they name in spec.externalIPs, and all that name any under anyExternalIP.
const (
	indexExternalIP = "externalIP"
	anyExternalIP   = "any"
)

// externalKeys are those under which indexExternalIP finds a Service.
func externalKeys(svc *corev1.Service) (keys []string) {
	for _, ip := range loadbalancer.ExternalIPs(svc) {
		if ip.IsValid() {
			keys = append(keys, ip.String())
		}
	}
	if len(keys) > 0 {
		keys = append(keys, anyExternalIP)
	}
	return keys
}

// ExternalIPs reads the Services that name addresses in spec.externalIPs.
type ExternalIPs struct {
	objects *objects
	// Guarded says whether they are guarded: while not, nobody has an address by naming it.
	Guarded bool
}

// Naming are the Services that name an address.
func (e *ExternalIPs) Naming(ctx context.Context, ip netip.Addr) ([]*corev1.Service, error) {
	return e.objects.servicesUnder(ctx, indexExternalIP, ip.String())
}

// Named are the addresses that Services name.
func (e *ExternalIPs) Named(ctx context.Context) (map[netip.Addr]bool, error) {
	services, err := e.objects.servicesUnder(ctx, indexExternalIP, anyExternalIP)
	named := map[netip.Addr]bool{}
	for _, svc := range services {
		for _, ip := range loadbalancer.ExternalIPs(svc) {
			named[ip] = true
		}
	}
	delete(named, netip.Addr{})
	return named, err
}

// externalReader answers what is asked of external IPs.
type externalReader interface {
	Naming(ctx context.Context, ip netip.Addr) ([]*corev1.Service, error)
}

var _ allocator.ExternalFacts = &Facts{}

// Naming are the Services that name an address in spec.externalIPs.
func (f *Facts) Naming(ip netip.Addr) []*corev1.Service {
	return f.naming.of(f, ip, f.ask.external.Naming)
}
