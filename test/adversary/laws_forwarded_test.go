package adversary

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// lawsOfForwarded are about the class without a proxy, whose streams have Services of their own on an address that it shares.
var lawsOfForwarded = []law{
	{"a port without a proxy is open for who holds it", false, forwardsForHolder},
	{"a class without a proxy holds what its streams have of its address", false, holdsWhatItForwards},
}

// isForwarded says whether a Service is that of a stream.
func isForwarded(svc *corev1.Service) bool { return svc.Namespace == directNamespace }

// portOf is the port of the class that the Service of a stream forwards.
func portOf(svc *corev1.Service) claim.Coordinate {
	return claim.Stream(directClassName, v1beta1.Protocol(svc.Spec.Ports[0].Protocol), svc.Spec.Ports[0].Port)
}

// open are the Services of streams that a change concerns, as far as they are open: the Service that has changed; of a claim that has, all.
func open(now *moment, c change, before client.Object) []*corev1.Service {
	switch object := c.object.(type) {
	case *corev1.Service:
		if !c.gone && isForwarded(object) && len(listed(object)) > 0 {
			return []*corev1.Service{object}
		}
	case *v1beta1.EdgeClaim:
		if before == nil {
			return nil
		}
		var services []*corev1.Service
		for _, svc := range now.services {
			if isForwarded(svc) && len(listed(svc)) > 0 {
				services = append(services, svc)
			}
		}
		return services
	}
	return nil
}

// forwardsForHolder is strict: a Service is there only after the claim is, and goes before it does.
func forwardsForHolder(now *moment, c change, before client.Object) error {
	for _, svc := range open(now, c, before) {
		if at := portOf(svc); !now.holder(at).IsStream() {
			return fmt.Errorf("%s is held by %s, and open by %s", at, now.heldBy(at), service(svc))
		}
	}
	return nil
}

func holdsWhatItForwards(now *moment, c change, before client.Object) error {
	for _, svc := range open(now, c, before) {
		for _, ip := range listed(svc) {
			if at := pointOf(ip, svc.Spec.Ports[0]); now.holder(at) != claim.ClassHolder(directClassName) {
				return fmt.Errorf("%s is held by %s, and open by %s", at, now.heldBy(at), service(svc))
			}
		}
	}
	return nil
}

// forwardedSettled says which Service of the class without a proxy is no stream's, and which stream has none and could.
func (m *moment) forwardedSettled() error {
	for _, svc := range m.services {
		if isForwarded(svc) && m.streams[m.holder(portOf(svc)).Key()] == nil {
			return fmt.Errorf("%s is held by %s, and there is %s", portOf(svc), m.heldBy(portOf(svc)), service(svc))
		}
	}
	for _, si := range m.streams {
		if si.Spec.ClassName != directClassName || !isCurrent(si) || isTrue(si.Status.Conditions, v1beta1.ConditionResolvedRefs) != nil {
			continue
		}
		if err := m.streamForwarded(si); err != nil {
			return err
		}
	}
	return nil
}

// streamForwarded says whether a stream that may lead where it does is open. It is not where somebody else has its port on the address,
// which happens while the class is away, or nobody judges.
func (m *moment) streamForwarded(si *v1beta1.StreamIngress) error {
	at := claim.Stream(directClassName, si.ProtocolOrDefault(), asked(si))
	programmed := meta.FindStatusCondition(si.Status.Conditions, v1beta1.ConditionProgrammed)
	isOpen := false
	for _, svc := range m.services {
		isOpen = isOpen || isForwarded(svc) && portOf(svc) == at && slices.Contains(addressesOf(svc), sharedAddress)
	}
	shared := pointOf(sharedIP, corev1.ServicePort{Protocol: corev1.Protocol(at.Protocol()), Port: at.Port()})
	switch {
	case programmed == nil || isOpen != (programmed.Status == metav1.ConditionTrue):
		return fmt.Errorf("it is %t that %s is open, and %s says %v", isOpen, at, streamIngress(si), programmed)
	case !isOpen && slices.Contains([]claim.Holder{{}, claim.ClassHolder(directClassName)}, m.holder(shared)):
		return fmt.Errorf("%s is closed, although %s is held by %s: %s, %v", at, shared, m.heldBy(shared), streamIngress(si), programmed)
	default:
		return nil
	}
}

func addressesOf(svc *corev1.Service) (addresses []string) {
	for _, ip := range listed(svc) {
		addresses = append(addresses, ip.String())
	}
	return addresses
}
