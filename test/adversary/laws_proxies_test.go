package adversary

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// lawsOfProxies are about what proxies share with the Services of tenants: an address, and the ports of the nodes.
var lawsOfProxies = []law{
	{"a proxy keeps its ports of an address while its Service or its class is made anew", false, keepsItsAddress},
	{"no Service has a port of the nodes on which a proxy listens", true, notWhereAProxyListens},
	{"a stream on the nodes keeps its port while its class is made anew", false, keepsItsNodePort},
}

// keepsItsAddress is about the ports that the platform has written. Whose they are when neither the Service is there nor a class
// that names it is open, and for a while after.
func keepsItsAddress(now *moment, c change, before client.Object) error {
	was, ok := before.(*v1beta1.EdgeClaim)
	if !ok || claim.HolderOf(was) != claim.ServiceHolder(platform, proxy().Name) || c.seen.Sub(now.ownerless) < lately {
		return nil
	}
	at := pointOfClaim(was)
	isForeign := slices.ContainsFunc(foreignPorts(), func(p corev1.ServicePort) bool {
		return p.Port == at.Port() && v1beta1.Protocol(p.Protocol) == at.Protocol()
	})
	if !at.IsAddress() || !isForeign || now.holder(at) == claim.HolderOf(was) {
		return nil
	}
	return fmt.Errorf("%s is now held by %s, and it was that of the proxy", at, now.heldBy(at))
}

// notWhereAProxyListens is broken by whichever of the two changes: the Service, or the ConfigMap.
func notWhereAProxyListens(now *moment, c change, _ client.Object) error {
	cm := now.configMaps[keyOf(hostEntries())]
	if cm == nil {
		return nil
	}
	var services []*corev1.Service
	switch object := c.object.(type) {
	case *corev1.ConfigMap:
		if keyOf(object) != keyOf(cm) {
			return nil
		}
		for _, svc := range now.services {
			services = append(services, svc)
		}
	case *corev1.Service:
		if !c.gone {
			services = append(services, object)
		}
	}
	for _, svc := range services {
		if !slices.ContainsFunc(listed(svc), isNode) {
			continue
		}
		for _, p := range svc.Spec.Ports {
			if value, listens := cm.Data[stream.Key(p.Port)]; listens && p.Protocol == corev1.ProtocolTCP {
				return fmt.Errorf("a proxy listens on port %d of the nodes for %s, and it is that of %s", p.Port, value, service(svc))
			}
		}
	}
	return nil
}

// keepsItsNodePort is about streams whose ports were open.
func keepsItsNodePort(now *moment, c change, _ client.Object) error {
	made, ok := c.object.(*v1beta1.EdgeClaim)
	if !ok || c.gone {
		return nil
	}
	at, holder := pointOfClaim(made), claim.HolderOf(made)
	if !at.IsNode() || at.Protocol() != v1beta1.TCP || !holder.IsService() {
		return nil
	}
	owner := now.holder(claim.Stream(hostClassName, v1beta1.TCP, at.Port()))
	si := now.streams[owner.Key()]
	if owner.IsStream() && si != nil && now.opened[owner.Key()] == si.Generation && si.Spec.ClassName == hostClassName && asked(si) == at.Port() {
		return fmt.Errorf("%s is given to %s, and is that of %s", at, holder, streamIngress(si))
	}
	return nil
}
