package adversary

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// settled says what is not as it has to be a while after everybody has stopped: a claim that nobody needs, and what is written and
// is nobody's.
func (m *moment) settled() error {
	for _, c := range m.claims {
		if at := pointOfClaim(c); !at.IsZero() && !m.needs(claim.HolderOf(c), at) {
			return fmt.Errorf("nobody needs %s", edgeClaim(c))
		}
	}
	for _, si := range m.streams {
		at := claim.Stream(className, si.ProtocolOrDefault(), asked(si))
		if self := claim.StreamHolder(si.Namespace, si.Name); si.Spec.ClassName == className && isCurrent(si) && m.holder(at) != self {
			return fmt.Errorf("%s is held by %s, and it is that of %s", at, m.heldBy(at), streamIngress(si))
		}
	}
	for _, cm := range m.configMaps {
		if err := m.entriesSettled(cm); err != nil {
			return err
		}
	}
	if err := m.listenersSettled(); err != nil {
		return err
	}
	return m.forwardedSettled()
}

// needs says whether the holder of a claim lists or serves its point, or asks for it.
func (m *moment) needs(holder claim.Holder, at claim.Coordinate) bool {
	svc, ing := m.services[holder.Key()], m.ingresses[holder.Key()]
	switch {
	case at.IsListener():
		return m.listenerNeeds(holder, at)
	case at.IsHTTP():
		return ing != nil && slices.Contains(exposure.PointsOf(ing), at) || holder.IsService() && svc != nil && slices.Contains(pathsOf(svc), at)
	case at.IsStream():
		ours := []string{className, hostClassName, directClassName}
		return !slices.Contains(ours, at.Class()) || !holder.IsStream() || m.streamNeeds(m.streams[holder.Key()], at)
	case holder.IsClass(): // its proxy listens there for a stream, or it is forwarded from there
		return m.holder(claim.Stream(holder.Name, at.Protocol(), at.Port())) != claim.Holder{}
	case holder.Namespace == platform:
		return true
	}
	return svc != nil && slices.ContainsFunc(listed(svc), func(ip netip.Addr) bool {
		return ip == at.Address() && at.Port() == 0 || slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return pointOf(ip, p) == at })
	})
}

// streamNeeds leaves open which port it is that a stream has been given while its status does not say so. One that moves, and can't be
// opened in its new class, is still open in the former one.
func (m *moment) streamNeeds(si *v1beta1.StreamIngress, at claim.Coordinate) bool {
	if si == nil {
		return false
	}
	if p := si.Status.Previous; p != nil && claim.Stream(p.ClassName, p.Protocol, p.Listen) == at {
		return true
	}
	return si.Spec.ClassName == at.Class() && si.ProtocolOrDefault() == at.Protocol() && (asked(si) == at.Port() || asked(si) == 0)
}

// entriesSettled says which entry of a ConfigMap of the class is neither the platform's nor that of a stream.
func (m *moment) entriesSettled(cm *corev1.ConfigMap) error {
	cm, protocol := proxyConfigMap(change{object: cm})
	if cm == nil {
		return nil
	}
	for key, value := range cm.Data {
		port, isPort := stream.ParseKey(key)
		holder := m.holder(claim.Stream(className, protocol, port))
		byPlatform := protocol == v1beta1.TCP && foreign[key] == value
		if isPort && !byPlatform && !mayLead(holder, value) {
			return fmt.Errorf("%s/%d leads to %s, and is held by %s", protocol, port, value, holder)
		}
	}
	for key, value := range foreign {
		port, _ := stream.ParseKey(key)
		if protocol == v1beta1.TCP && cm.Data[key] != value && !m.holder(claim.Stream(className, protocol, port)).IsStream() {
			return fmt.Errorf("%s leads to %q, and the platform has written %q", key, cm.Data[key], value)
		}
	}
	return nil
}
