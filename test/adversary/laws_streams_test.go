package adversary

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// lawsOfStreams are about the ports of the proxy, and about what the platform has written for it.
var lawsOfStreams = []law{
	{"a stream holds the port that it asks for", true, holdsItsPort},
	{"no two streams say that they have one port", false, saysNotTwice},
	{"no stream gets a port that the class reserves", false, notReservedByClass},
	{"an entry leads to who holds its port", false, leadsToHolder},
	{"a stream keeps its entry for as long as it asks for the same", false, keepsItsEntry},
	{"what the platform has written into the ConfigMap stays", false, entriesStay},
	{"what the platform has written on the proxy's Service stays", false, portsStay},
	{"a port of the proxy is somebody's", false, opensForHolder},
}

// holdsItsPort is broken by whichever of the two changes: the stream, or a claim.
func holdsItsPort(now *moment, c change, before client.Object) error {
	si, _ := c.object.(*v1beta1.StreamIngress)
	if si != nil && si.Spec.Listen == nil { // which port it is may change until its status says so
		return nil
	}
	if was, ok := before.(*v1beta1.EdgeClaim); ok && claim.HolderOf(was).IsStream() {
		si = now.streams[claim.HolderOf(was).Key()]
		if si != nil && !stillAsks(si, was) {
			si = nil
		}
	}
	if si == nil || now.streams[keyOf(si)] != si || si.Spec.ClassName != className || asked(si) == 0 || now.unjudged[keyOf(si)] == asks(si) {
		return nil
	}
	at := claim.Stream(className, si.ProtocolOrDefault(), asked(si))
	if self := claim.StreamHolder(si.Namespace, si.Name); now.holder(at) != self {
		return fmt.Errorf("%s is held by %s, and asked for by %s", at, now.heldBy(at), streamIngress(si))
	}
	return nil
}

// asked is the port that a stream asks for, or was given for good; 0 while it has none.
func asked(si *v1beta1.StreamIngress) int32 {
	switch {
	case si.Spec.Listen != nil:
		return *si.Spec.Listen
	case isCurrent(si):
		return si.Status.Listen
	default:
		return 0
	}
}

// stillAsks says whether a stream asks for the point of a claim.
func stillAsks(si *v1beta1.StreamIngress, c *v1beta1.EdgeClaim) bool {
	return pointOfClaim(c) == claim.Stream(className, si.ProtocolOrDefault(), asked(si))
}

// isCurrent says whether a stream is accepted as it is now.
func isCurrent(si *v1beta1.StreamIngress) bool {
	return si.Status.ObservedGeneration == si.Generation && isTrue(si.Status.Conditions, v1beta1.ConditionAccepted) == nil
}

func saysNotTwice(now *moment, c change, _ client.Object) error {
	si, ok := c.object.(*v1beta1.StreamIngress)
	if !ok || c.gone || !isCurrent(si) || si.Status.Listen == 0 {
		return nil
	}
	for key, other := range now.streams {
		if key != keyOf(si) && isCurrent(other) && other.Status.Listen == si.Status.Listen &&
			other.ProtocolOrDefault() == si.ProtocolOrDefault() && other.Status.ClassName == si.Status.ClassName {
			return fmt.Errorf("%d is\n  that of %s\n  and that of %s", si.Status.Listen, streamIngress(si), streamIngress(other))
		}
	}
	return nil
}

func notReservedByClass(now *moment, c change, before client.Object) error {
	made, ok := c.object.(*v1beta1.EdgeClaim)
	if !ok || c.gone || !claim.HolderOf(made).IsStream() {
		return nil
	}
	if was, known := before.(*v1beta1.EdgeClaim); known && claim.HolderOf(was) == claim.HolderOf(made) {
		return nil
	}
	at := pointOfClaim(made)
	if since, reserved := now.reserved[at.Port()]; !reserved || at.Class() != className || c.seen.Sub(since) < known {
		return nil
	}
	return fmt.Errorf("%s is reserved, and is given to %s", at, made.Spec.HeldBy)
}

// leadsToHolder is about the entries that the platform has not written. What a stream had may be written for a moment after it
// has left.
func leadsToHolder(now *moment, c change, _ client.Object) error {
	cm, protocol := proxyConfigMap(c)
	if cm == nil {
		return nil
	}
	for key, value := range cm.Data {
		port, isPort := stream.ParseKey(key)
		if !isPort || protocol == v1beta1.TCP && foreign[key] == value {
			continue
		}
		if !now.heldLately(claim.Stream(className, protocol, port), c.seen, func(h claim.Holder) bool { return mayLead(h, value) }) {
			return fmt.Errorf("%s/%d leads to %s, and is held by %s", protocol, port, value, now.heldBy(claim.Stream(className, protocol, port)))
		}
	}
	return nil
}

// keepsItsEntry leaves out what happens beside the class or the proxy's Service being made anew.
func keepsItsEntry(now *moment, c change, before client.Object) error {
	cm, protocol := proxyConfigMap(c)
	was, known := before.(*corev1.ConfigMap)
	if cm == nil || !known || was.UID != cm.UID || c.seen.Sub(now.remade) < lately/2 {
		return nil
	}
	for key := range was.Data {
		port, _ := stream.ParseKey(key)
		at := claim.Stream(className, protocol, port)
		si := now.streams[now.holder(at).Key()]
		if _, stays := cm.Data[key]; stays || si == nil || now.holder(at) != claim.StreamHolder(si.Namespace, si.Name) {
			continue
		}
		// One that leads elsewhere needs leave for that.
		isOwn := isTrue(si.Status.Conditions, v1beta1.ConditionProgrammed) == nil && si.Spec.Upstream.Host == "" && si.Spec.Upstream.Namespace == ""
		if isOwn && isCurrent(si) && si.Spec.ClassName == className && asked(si) == port && si.ProtocolOrDefault() == protocol {
			return fmt.Errorf("%s led to %s, and now nowhere, for %s", at, was.Data[key], streamIngress(si))
		}
	}
	return nil
}

// mayLead says whether an entry can be that of a stream: it leads to its namespace, or to the platform's, which is open to all
// now and then.
func mayLead(holder claim.Holder, entry string) bool {
	namespace, _, _ := strings.Cut(entry, "/")
	return holder.IsStream() && (namespace == holder.Namespace || namespace == platform)
}

// proxyConfigMap is the ConfigMap of the class that has changed, nil when it is another.
func proxyConfigMap(c change) (*corev1.ConfigMap, v1beta1.Protocol) {
	cm, ok := c.object.(*corev1.ConfigMap)
	switch {
	case !ok || c.gone || cm.Namespace != platform:
		return nil, ""
	case cm.Name == "tcp-services":
		return cm, v1beta1.TCP
	case cm.Name == "udp-services":
		return cm, v1beta1.UDP
	default:
		return nil, ""
	}
}

// entriesStay lets only the entry that leads to a tenant change, while a stream of that tenant has taken it over.
func entriesStay(now *moment, c change, _ client.Object) error {
	cm, protocol := proxyConfigMap(c)
	if cm == nil || protocol != v1beta1.TCP {
		return nil
	}
	for key, value := range foreign {
		if cm.Data[key] == value {
			continue
		}
		port, _ := stream.ParseKey(key)
		byOwner := func(h claim.Holder) bool { return h.IsStream() && strings.HasPrefix(value, h.Namespace+"/") }
		if key != adoptable || !now.heldLately(claim.Stream(className, protocol, port), c.seen, byOwner) {
			return fmt.Errorf("%s leads to %q, and the platform has written %q", key, cm.Data[key], value)
		}
	}
	return nil
}

func portsStay(_ *moment, c change, before client.Object) error {
	svc, ok := c.object.(*corev1.Service)
	if !ok || c.gone || svc.Namespace != platform || svc.Name != "proxy" {
		return nil
	}
	for _, want := range foreignPorts() {
		if !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
			return p.Name == want.Name && p.Port == want.Port && p.Protocol == want.Protocol && p.TargetPort.IntVal == want.Port
		}) {
			return fmt.Errorf("%s/%d is not as the platform has written it: %v", want.Protocol, want.Port, svc.Spec.Ports)
		}
	}
	if was, known := before.(*corev1.Service); known && was.UID == svc.UID && len(listed(was)) > 0 && len(listed(svc)) == 0 {
		return fmt.Errorf("the proxy has lost its address: %s", service(svc))
	}
	if svc.Annotations["note"] != proxy().Annotations["note"] {
		return fmt.Errorf("the platform's annotation is gone: %v", svc.Annotations)
	}
	return nil
}

// opensForHolder is about the ports that the platform has not opened.
func opensForHolder(now *moment, c change, _ client.Object) error {
	svc, ok := c.object.(*corev1.Service)
	if !ok || c.gone || svc.Namespace != platform || svc.Name != "proxy" {
		return nil
	}
	for _, p := range svc.Spec.Ports {
		if slices.ContainsFunc(foreignPorts(), func(q corev1.ServicePort) bool { return p.Port == q.Port && p.Protocol == q.Protocol }) {
			continue
		}
		at := claim.Stream(className, v1beta1.Protocol(p.Protocol), p.Port)
		if !now.heldLately(at, c.seen, claim.Holder.IsStream) {
			return fmt.Errorf("%s is open, and is held by %s", at, now.heldBy(at))
		}
	}
	return nil
}
