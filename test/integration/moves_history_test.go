package integration

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// doorHistory starts a history of what the streams of a class with a proxy, and of another without, have open. doors are the kinds that
// tell of that.
func doorHistory(h *harness.Harness, e *edge, other *v1beta1.StreamIngressClass, doors ...client.ObjectList) *history {
	e.t.Helper()
	kinds := append([]client.ObjectList{&v1beta1.StreamIngressList{}, &v1beta1.EdgeClaimList{}, &corev1.ConfigMapList{}}, doors...)
	return newHistory(e.t, h, func() moment {
		return &doorMoment{
			edge: e, other: other, streams: map[types.NamespacedName]*v1beta1.StreamIngress{}, holders: map[claim.Coordinate]claim.Holder{},
			entries: map[claim.Coordinate]bool{}, ports: map[claim.Coordinate]bool{}, forwarded: map[claim.Coordinate]bool{},
			listeners: map[types.NamespacedName]map[claim.Coordinate]bool{}, routes: map[claim.Coordinate]stream.RouteObject{},
			had: map[types.NamespacedName]bool{},
		}
	}, kinds...)
}

// doorMoment is what is open at one version.
type doorMoment struct {
	edge    *edge
	other   *v1beta1.StreamIngressClass
	streams map[types.NamespacedName]*v1beta1.StreamIngress
	holders map[claim.Coordinate]claim.Holder
	// entries and ports are those of the proxy: it is open where both are. forwarded are the doors of the kernel.
	entries, ports, forwarded map[claim.Coordinate]bool
	// listeners are those of each ListenerSet that are programmed, and routes lead from them: a Gateway is open where both are.
	listeners map[types.NamespacedName]map[claim.Coordinate]bool
	routes    map[claim.Coordinate]stream.RouteObject
	// had are the streams that have been open.
	had map[types.NamespacedName]bool
}

func (m *doorMoment) apply(e happening) []types.NamespacedName {
	switch stored := e.stored.(type) {
	case *v1beta1.StreamIngress:
		key := client.ObjectKeyFromObject(stored)
		if m.streams[key] = stored; e.gone {
			delete(m.streams, key)
		}
		return []types.NamespacedName{key}
	case *v1beta1.EdgeClaim:
		at, err := claim.Of(stored)
		if err != nil || !at.IsStream() {
			return nil
		}
		concerned := []types.NamespacedName{claim.HolderOf(stored).Key(), m.holders[at].Key()}
		if m.holders[at] = claim.HolderOf(stored); e.gone {
			delete(m.holders, at)
		}
		return concerned
	case *corev1.ConfigMap:
		for _, protocol := range []v1beta1.Protocol{TCP, UDP} {
			if ref := m.edge.class.ConfigMap(protocol); ref.Namespace == stored.Namespace && ref.Name == stored.Name {
				replace(m.entries, protocol, m.entriesOf(stored, protocol))
			}
		}
	case *corev1.Service:
		m.applyService(stored, e.gone)
	case *gatewayv1.ListenerSet:
		m.applySet(stored, e.gone)
	case *gatewayv1.TCPRoute:
		m.applyRoute(stored, e.gone)
	case *gatewayv1.UDPRoute:
		m.applyRoute(stored, e.gone)
	}
	return m.everybody()
}

func (m *doorMoment) entriesOf(cm *corev1.ConfigMap, protocol v1beta1.Protocol) (entries []claim.Coordinate) {
	for key := range cm.Data {
		var port int32
		if _, err := fmt.Sscan(key, &port); err == nil {
			entries = append(entries, claim.Stream(m.edge.class.Name, protocol, port))
		}
	}
	return entries
}

// replace replaces the points of a protocol.
func replace(points map[claim.Coordinate]bool, protocol v1beta1.Protocol, by []claim.Coordinate) {
	for at := range points {
		if at.Protocol() == protocol {
			delete(points, at)
		}
	}
	for _, at := range by {
		points[at] = true
	}
}

func (m *doorMoment) applyService(svc *corev1.Service, gone bool) {
	if svc.Namespace == m.other.Name && len(svc.Spec.Ports) == 1 {
		p := svc.Spec.Ports[0]
		m.forwarded[claim.Stream(m.other.Name, v1beta1.Protocol(p.Protocol), p.Port)] = !gone && len(svc.Status.LoadBalancer.Ingress) > 0
	}
	if svc.Namespace != m.edge.namespace || svc.Name != "proxy" {
		return
	}
	for _, protocol := range []v1beta1.Protocol{TCP, UDP} {
		var open []claim.Coordinate
		for _, p := range svc.Spec.Ports {
			if v1beta1.Protocol(p.Protocol) == protocol {
				open = append(open, claim.Stream(m.edge.class.Name, protocol, p.Port))
			}
		}
		replace(m.ports, protocol, open)
	}
}

func (m *doorMoment) applySet(set *gatewayv1.ListenerSet, gone bool) {
	key := client.ObjectKeyFromObject(set)
	if m.listeners[key] = map[claim.Coordinate]bool{}; gone {
		return
	}
	for _, at := range kube.ListenersOf(set) {
		for _, entry := range set.Status.Listeners {
			if string(entry.Name) == (stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}).Name() {
				m.listeners[key][at] = meta.IsStatusConditionTrue(entry.Conditions, "Programmed")
			}
		}
	}
}

func (m *doorMoment) applyRoute(route stream.RouteObject, gone bool) {
	if at, ok := kube.PortOfRoute(route); ok {
		if m.routes[at] = route; gone {
			delete(m.routes, at)
		}
	}
}

// isRouted says whether a port is open on the Gateway.
func (m *doorMoment) isRouted(at claim.Coordinate) bool {
	port := stream.PortKey{Protocol: at.Protocol(), Port: at.Port()}
	for set, programmed := range m.listeners {
		if programmed[at] && m.routes[at] != nil && stream.LeadsFrom(m.routes[at], set, port) {
			return true
		}
	}
	return false
}

func (m *doorMoment) everybody() (all []types.NamespacedName) {
	for key := range m.streams {
		all = append(all, key)
	}
	return all
}

// check says whether a stream that was open still is, at two doors at most, and holds each of them.
func (m *doorMoment) check(key types.NamespacedName) error {
	if m.streams[key] == nil {
		return nil
	}
	holder, open := claim.StreamHolder(key.Namespace, key.Name), 0
	for at, by := range m.holders {
		if by == holder && (m.forwarded[at] || m.isRouted(at) || m.entries[at] && m.ports[at]) {
			open++
		}
	}
	if m.had[key] = m.had[key] || open > 0; m.had[key] && open == 0 || open > 2 {
		return fmt.Errorf("%s is open at %d doors that it holds", key, open)
	}
	return nil
}

// around tells of the stream and its claims.
func (m *doorMoment) around(events []happening, i int, key types.NamespacedName) string {
	const enough = 12
	var lines []string
	for _, e := range events[:i+1] {
		switch o := e.stored.(type) {
		case *v1beta1.StreamIngress:
			if client.ObjectKeyFromObject(o) == key {
				lines = append(lines, fmt.Sprintf("  %d stream: class %s, status %s %d %v %s", e.version, o.Spec.ClassName, o.Status.ClassName,
					o.Status.Listen, o.Status.Previous, condition(o.Status.Conditions, v1beta1.ConditionProgrammed)))
			}
		case *v1beta1.EdgeClaim:
			if claim.HolderOf(o).Key() == key {
				lines = append(lines, fmt.Sprintf("  %d claim %s, gone: %v", e.version, o.Name, e.gone))
			}
		}
	}
	return strings.Join(lines[max(0, len(lines)-enough):], "\n")
}
