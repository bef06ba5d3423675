package snapshot

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// NginxController is the controller of the IngressClasses of ingress-nginx.
const NginxController = "k8s.io/ingress-nginx"

// wellKnown are the names that ConfigMaps of streams have where nothing says who reads them.
var wellKnown = map[string]v1beta1.Protocol{"tcp-services": v1beta1.TCP, "udp-services": v1beta1.UDP}

// Proxy is what forwards the ports of ConfigMaps.
type Proxy struct {
	// Name is the one who says so: a workload, a class, or just a namespace.
	Name string
	// Namespace is that of the workload, or of the ConfigMaps that are known by their names; empty for what a class alone tells of.
	Namespace string
	// IsByName says that nothing but the usual names of ConfigMaps, which anybody may choose, tells of it.
	IsByName bool
	// Class is the StreamIngressClass that describes it, empty for none.
	Class      string
	ConfigMaps map[v1beta1.Protocol]types.NamespacedName
	// Services are those by which it is reached, none where that is not known, and Published is the one of them that it publishes, nil for
	// none.
	Services  []*corev1.Service
	Published *corev1.Service
	OnNodes   bool
	// IsNginx says that it is ingress-nginx, or passes for it.
	IsNginx bool
	// Own are the ports at which it listens itself.
	Own   sets.Set[int32]
	named map[string]int32
	// hostPorts are the ports of the nodes by which those of its pods are reached.
	hostPorts map[stream.PortKey]int32
	// nodeSelector and nodeAffinity say on which nodes it is.
	nodeSelector map[string]string
	nodeAffinity *corev1.NodeAffinity
}

// MayShareNode says whether two proxies may be on one node: they choose the same nodes, and have no port of the nodes in common beside
// those of their streams.
func (p *Proxy) MayShareNode(other *Proxy) bool {
	return maps.Equal(p.nodeSelector, other.nodeSelector) && equality.Semantic.DeepEqual(p.nodeAffinity, other.nodeAffinity) &&
		!p.reserves().HasAny(other.reserves().UnsortedList()...)
}

// reserves are the ports of the nodes that nobody else can have where a proxy is: its own, and those for which it waits to be scheduled.
func (p *Proxy) reserves() sets.Set[stream.PortKey] {
	ports := sets.New[stream.PortKey]()
	for port := range p.Own {
		if number, is := p.OnNode(v1beta1.TCP, port); is {
			ports.Insert(stream.PortKey{Protocol: v1beta1.TCP, Port: number})
		}
	}
	for port, number := range p.hostPorts {
		ports.Insert(stream.PortKey{Protocol: port.Protocol, Port: number})
	}
	return ports
}

// OnNode is the port of the nodes by which a port of the proxy is reached there, if it is.
func (p *Proxy) OnNode(protocol v1beta1.Protocol, port int32) (number int32, is bool) {
	if p.OnNodes {
		return port, true
	}
	number, is = p.hostPorts[stream.PortKey{Protocol: protocol, Port: port}]
	return number, is
}

// Listens is the port of the proxy to which the port of a Service leads.
func (p *Proxy) Listens(port *corev1.ServicePort) int32 {
	if port.TargetPort.Type == intstr.String {
		return cmp.Or(p.named[port.TargetPort.StrVal], port.Port)
	}
	return cmp.Or(port.TargetPort.IntVal, port.Port)
}

// HasHostPorts says whether ports of the nodes lead to its pods.
func (p *Proxy) HasHostPorts() bool { return len(p.hostPorts) > 0 }

// Opens says whether a port of the proxy is reached from outside, as far as is known.
func (p *Proxy) Opens(protocol v1beta1.Protocol, port int32) bool {
	if _, is := p.OnNode(protocol, port); is || len(p.Services) == 0 {
		return true
	}
	for _, svc := range p.Services {
		for i := range svc.Spec.Ports {
			if ProtocolOf(&svc.Spec.Ports[i]) == protocol && p.Listens(&svc.Spec.Ports[i]) == port {
				return true
			}
		}
	}
	return false
}

// ProtocolOf is the protocol of the port of a Service.
func ProtocolOf(p *corev1.ServicePort) v1beta1.Protocol {
	return v1beta1.Protocol(cmp.Or(string(p.Protocol), string(corev1.ProtocolTCP)))
}

// Entry reads the value of an entry as the proxy does: HAProxy's controllers know more words behind the port than ingress-nginx, and
// what these mean is not looked at.
func (p *Proxy) Entry(value string) (stream.Entry, error) {
	entry, err := stream.ParseEntry(value)
	if parts := strings.SplitN(value, ":", 3); err != nil && !p.IsNginx && len(parts) == 3 {
		return stream.ParseEntry(parts[0] + ":" + parts[1])
	}
	return entry, err
}

// ownNames are those that the ports of HAProxy's pods have which are for no streams.
var ownNames = []string{"http", "https", "quic", "stat", "stats", "prometheus", "metrics", "admin", "webhook"}

// ofStream are the names that the chart of ingress-nginx gives the ports of streams, such as 5432-tcp.
var ofStream = regexp.MustCompile(`^(.+-)?\d+-(tcp|udp)$`)

// IsOwn says whether the port of a Service, for which there is no entry, is one at which the proxy serves something else than streams, as
// far as is known: any for which its pods have a name, other than one that the chart of ingress-nginx gives streams.
func (p *Proxy) IsOwn(port *corev1.ServicePort) bool {
	target := port.TargetPort.StrVal
	if !p.IsNginx {
		isNamed := slices.Contains(slices.Collect(maps.Values(p.named)), p.Listens(port))
		return isNamed || slices.Contains(ownNames, target) || p.Own.Has(p.Listens(port))
	}
	if _, known := p.named[target]; target != "" && !known {
		return slices.Contains([]string{"http", "https", "metrics", "webhook"}, target)
	}
	for name, number := range p.named {
		if number == p.Listens(port) && !ofStream.MatchString(name) {
			return true
		}
	}
	return p.Own.Has(p.Listens(port))
}

// Streams are the ConfigMaps of streams that somebody names, in any order.
func (s *Snapshot) Streams() []types.NamespacedName {
	named := sets.New[types.NamespacedName]()
	for i := range s.Workloads {
		named = named.Insert(slices.Collect(maps.Values(s.Workloads[i].ConfigMaps))...)
	}
	for _, class := range s.Classes {
		for _, ref := range ConfigMapsOf(class) {
			named.Insert(ref)
		}
	}
	return named.UnsortedList()
}

// ConfigMapsOf are the ConfigMaps that a class names.
func ConfigMapsOf(class *v1beta1.StreamIngressClass) map[v1beta1.Protocol]types.NamespacedName {
	named := map[v1beta1.Protocol]types.NamespacedName{}
	for _, protocol := range []v1beta1.Protocol{v1beta1.TCP, v1beta1.UDP} {
		if ref := class.ConfigMap(protocol); ref != nil {
			named[protocol] = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		}
	}
	return named
}

// Proxies are those that are known: by their arguments, by StreamIngressClasses, and, for ConfigMaps of the usual names that neither
// names, by those names. They are in a stable order, and each ConfigMap is of one of them, or of several that read it.
func (s *Snapshot) Proxies() []*Proxy {
	services := Index(s.Services)
	byNamespace := map[string][]*corev1.Service{}
	for _, svc := range s.Services {
		byNamespace[svc.Namespace] = append(byNamespace[svc.Namespace], svc)
	}
	var proxies []*Proxy
	readers := map[types.NamespacedName][]*Proxy{}
	add := func(p *Proxy) {
		proxies = append(proxies, p)
		for _, cm := range p.ConfigMaps {
			readers[cm] = append(readers[cm], p)
		}
	}
	for i := range s.Workloads {
		add(ofWorkload(&s.Workloads[i], services, byNamespace))
	}
	for _, class := range s.Classes {
		p := OfClass(class, services)
		known := false
		for _, cm := range p.ConfigMaps {
			for _, reader := range readers[cm] {
				reader.Class, known = class.Name, true
			}
		}
		if !known && len(p.ConfigMaps) > 0 {
			add(p)
		}
	}
	for _, p := range s.byName(readers, byNamespace) {
		add(p)
	}
	slices.SortStableFunc(proxies, func(a, b *Proxy) int { return cmp.Compare(a.Name, b.Name) })
	return proxies
}

// ofWorkload is the proxy that a workload is. It is reached by the Service that it publishes, and by those that select its pods and that
// are open to the outside.
func ofWorkload(w *Workload, services map[types.NamespacedName]*corev1.Service, byNamespace map[string][]*corev1.Service) *Proxy {
	p := &Proxy{
		Name: w.Kind + " " + w.Namespace + "/" + w.Name, Namespace: w.Namespace, ConfigMaps: w.ConfigMaps, OnNodes: w.OnNodes,
		IsNginx: w.IsNginx,
		Own:     w.Own, named: w.Named, hostPorts: w.HostPorts, nodeSelector: w.NodeSelector, nodeAffinity: w.NodeAffinity,
	}
	if svc := services[w.Publishes]; svc != nil {
		p.Services, p.Published = []*corev1.Service{svc}, svc
	}
	for _, svc := range byNamespace[w.Namespace] {
		selects := len(svc.Spec.Selector) > 0 && labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(w.Labels))
		if selects && isOpen(svc) && !slices.Contains(p.Services, svc) {
			p.Services = append(p.Services, svc)
		}
	}
	return p
}

// isOpen says whether a Service is open to the outside of the cluster.
func isOpen(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer || svc.Spec.Type == corev1.ServiceTypeNodePort || len(svc.Spec.ExternalIPs) > 0
}

// OfClass is the proxy that a class describes: what it says itself, and nothing that a workload says. services are all that there are.
func OfClass(class *v1beta1.StreamIngressClass, services map[types.NamespacedName]*corev1.Service) *Proxy {
	p := &Proxy{
		Name: "StreamIngressClass " + class.Name, Class: class.Name, ConfigMaps: ConfigMapsOf(class), OnNodes: class.OnNodes(),
		Own: sets.New[int32](80, 443),
	}
	if ref := class.Spec.Service; ref != nil {
		if svc := services[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}]; svc != nil {
			p.Services = []*corev1.Service{svc}
		}
	}
	return p
}

// byName are the proxies of ConfigMaps of the usual names that nobody is known to read, one in each namespace. It is reached by the one
// Service there that is open to the outside and labeled as ingress-nginx; of several, nobody can say by which.
func (s *Snapshot) byName(readers map[types.NamespacedName][]*Proxy, byNamespace map[string][]*corev1.Service) (proxies []*Proxy) {
	in := map[string]*Proxy{}
	for _, cm := range s.ConfigMaps {
		protocol, usual := wellKnown[cm.Name]
		if !usual || len(readers[Key(cm)]) > 0 {
			continue
		}
		p := in[cm.Namespace]
		if p == nil {
			p = &Proxy{
				Name: "namespace " + cm.Namespace, Namespace: cm.Namespace, IsByName: true,
				ConfigMaps: map[v1beta1.Protocol]types.NamespacedName{}, IsNginx: true, Own: ownPorts(nil),
			}
			in[cm.Namespace] = p
			proxies = append(proxies, p)
		}
		p.ConfigMaps[protocol] = Key(cm)
	}
	for namespace, p := range in {
		for _, svc := range byNamespace[namespace] {
			if isOpen(svc) && svc.Labels["app.kubernetes.io/name"] == "ingress-nginx" {
				p.Services = append(p.Services, svc)
			}
		}
		if len(p.Services) > 1 {
			p.Services = nil
		}
	}
	return proxies
}
