package findings

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// entry is one of a ConfigMap, as a proxy reads it.
type entry struct {
	of    *snapshot.Proxy
	in    *corev1.ConfigMap
	at    stream.PortKey
	value string
}

func (e *entry) finding(rule Rule, text, advice string, others ...Object) Finding {
	return Finding{
		Rule: rule, Point: e.at.String(), Scope: scopeOf(e.in), Objects: append([]Object{objectOf("ConfigMap", e.in)}, others...),
		Text: text, Advice: advice,
	}
}

func scopeOf(cm *corev1.ConfigMap) string { return "ConfigMap " + snapshot.Key(cm).String() }

// streams is a look at all ConfigMaps of streams.
type streams struct {
	*snapshot.Snapshot
	services map[types.NamespacedName]*corev1.Service
	// looked are the ConfigMaps that were looked at: several proxies may read one.
	looked map[types.NamespacedName]bool
	// shared are the entries of proxies of which is known how they are reached, by port.
	shared map[stream.PortKey][]*entry
	found  []Finding
}

// entries are the findings about ConfigMaps of streams, and the Services in front of who reads them.
func entries(s *snapshot.Snapshot) []Finding {
	look := &streams{
		Snapshot: s, services: snapshot.Index(s.Services), looked: map[types.NamespacedName]bool{}, shared: map[stream.PortKey][]*entry{},
	}
	configMaps := snapshot.Index(s.ConfigMaps)
	for _, p := range s.Proxies() {
		has := map[stream.PortKey]bool{}
		for _, protocol := range []v1beta1.Protocol{v1beta1.TCP, v1beta1.UDP} {
			if cm := configMaps[p.ConfigMaps[protocol]]; cm != nil {
				look.configMap(p, cm, protocol, has)
				look.looked[snapshot.Key(cm)] = true
			}
		}
		look.found = append(look.found, withoutEntry(s, p, has)...)
	}
	return append(look.found, twice(look.shared)...)
}

// configMap looks at a ConfigMap as a proxy reads it. It adds the ports to those that the proxy has.
func (s *streams) configMap(p *snapshot.Proxy, cm *corev1.ConfigMap, protocol v1beta1.Protocol, has map[stream.PortKey]bool) {
	looked := s.looked[snapshot.Key(cm)]
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		port, isPort := stream.ParseKey(key)
		if !isPort {
			if !looked {
				s.found = append(s.found, badKey(cm, protocol, key))
			}
			continue
		}
		e := &entry{of: p, in: cm, at: stream.PortKey{Protocol: protocol, Port: port}, value: cm.Data[key]}
		has[e.at] = true
		if _, onNode := p.OnNode(protocol, port); onNode || len(p.Services) > 0 {
			s.shared[e.at] = append(s.shared[e.at], e)
		}
		if p.Own.Has(port) {
			s.found = append(s.found, own(e))
			continue
		}
		if !looked {
			s.found = append(s.found, s.nowhere(e)...)
		}
		s.found = append(s.found, closed(e)...)
	}
}

func badKey(cm *corev1.ConfigMap, protocol v1beta1.Protocol, key string) Finding {
	return Finding{
		Rule: EntryLeadsNowhere, Point: string(protocol) + "/" + key, Scope: scopeOf(cm), Objects: []Object{objectOf("ConfigMap", cm)},
		Text: fmt.Sprintf("the key %q is no port: nothing listens for it", key), Advice: "remove the key, or write a number from 1 to 65535",
	}
}

// own is an entry for a port that the proxy serves itself.
func own(e *entry) Finding {
	f := e.finding(PortTwice, fmt.Sprintf("the proxy (%s) listens on this port itself, and leaves the entry %q out", e.of.Name, e.value),
		"choose another port, and remove the entry")
	f.Wins = e.of.Name
	return f
}

// nowhere says why an entry leads to nothing.
func (s *streams) nowhere(e *entry) []Finding {
	to, err := e.of.Entry(e.value)
	if err != nil {
		return []Finding{e.finding(EntryLeadsNowhere, err.Error(), "correct the entry: namespace/service:port, or remove it")}
	}
	key := types.NamespacedName{Namespace: to.Namespace, Name: to.Service}
	svc := s.services[key]
	switch {
	case svc == nil && !s.Knows("Service", to.Namespace):
		return nil
	case svc == nil:
		return []Finding{e.finding(EntryLeadsNowhere, fmt.Sprintf("there is no Service %s", key), "create the Service, or remove the entry")}
	case !hasPort(svc, to.Port, e.at.Protocol):
		return []Finding{e.finding(EntryLeadsNowhere, fmt.Sprintf("Service %s has no %s port %s", key, e.at.Protocol, to.Port),
			"name a port that the Service has, or give it this one", objectOf("Service", svc))}
	}
	return nil
}

// hasPort says whether a Service has a port of a protocol, by number or by name.
func hasPort(svc *corev1.Service, port string, protocol v1beta1.Protocol) bool {
	return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return snapshot.ProtocolOf(&p) == protocol && (p.Name == port || strconv.Itoa(int(p.Port)) == port)
	})
}

// closed says that no Service in front of the proxy has the port of an entry.
func closed(e *entry) []Finding {
	if e.of.Opens(e.at.Protocol, e.at.Port) {
		return nil
	}
	objects := make([]Object, 0, len(e.of.Services))
	for _, svc := range e.of.Services {
		objects = append(objects, objectOf("Service", svc))
	}
	text := fmt.Sprintf("%s, in front of the proxy (%s), has no port that leads to %s: nobody outside reaches %s",
		names(objects), e.of.Name, e.at, e.value)
	return []Finding{e.finding(EntryClosed, text, "add the port to the Service, or remove the entry", objects...)}
}

// withoutEntry are the ports of the Services in front of a proxy that lead to no entry. has are the entries.
func withoutEntry(s *snapshot.Snapshot, p *snapshot.Proxy, has map[stream.PortKey]bool) (found []Finding) {
	for _, svc := range p.Services {
		for i := range svc.Spec.Ports {
			port := &svc.Spec.Ports[i]
			at := stream.PortKey{Protocol: snapshot.ProtocolOf(port), Port: p.Listens(port)}
			cm, names := p.ConfigMaps[at.Protocol]
			if !names || s.IsUnread(cm) || has[at] || p.IsOwn(port) {
				continue
			}
			found = append(found, Finding{
				Rule: PortWithoutEntry, Point: stream.PortKey{Protocol: at.Protocol, Port: port.Port}.String(),
				Scope: "Service " + snapshot.Key(svc).String(), Objects: []Object{objectOf("Service", svc)},
				Text:   fmt.Sprintf("the port is open, and ConfigMap %s has no entry for %s: nothing answers there", cm, at),
				Advice: "remove the port from the Service, or add the entry",
			})
		}
	}
	return found
}

// isOnNodes says whether an entry is open on the nodes, at its own port.
func isOnNodes(e *entry) bool {
	port, is := e.of.OnNode(e.at.Protocol, e.at.Port)
	return is && port == e.at.Port
}

// twice are the ports that several proxies have at the same place: a node on which they may both be, or one Service.
func twice(shared map[stream.PortKey][]*entry) (found []Finding) {
	for at, all := range shared {
		places := map[string][]*entry{}
		for _, e := range all {
			if isOnNodes(e) && slices.ContainsFunc(all, func(o *entry) bool { return o.in != e.in && isOnNodes(o) && o.of.MayShareNode(e.of) }) {
				places["the nodes"] = append(places["the nodes"], e)
			}
			for _, svc := range e.of.Services {
				key := "Service " + snapshot.Key(svc).String()
				places[key] = append(places[key], e)
			}
		}
		for place, there := range places {
			var objects []Object
			for _, e := range there {
				if o := objectOf("ConfigMap", e.in); !slices.ContainsFunc(objects, func(has Object) bool { return has.String() == o.String() }) {
					objects = append(objects, o)
				}
			}
			if len(objects) < 2 {
				continue
			}
			sortObjects(objects)
			found = append(found, Finding{
				Rule: PortTwice, Point: at.String(), Scope: place, Objects: objects, Wins: Undetermined,
				Text:   fmt.Sprintf("%s each have an entry for the port, and their proxies are both reached by %s", names(objects), place),
				Advice: "remove one of the entries, or give the proxies places of their own",
			})
		}
	}
	return found
}
