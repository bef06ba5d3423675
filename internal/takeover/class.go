package takeover

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// protocols are those of streams, in the order in which they are told.
var protocols = []v1beta1.Protocol{v1beta1.TCP, v1beta1.UDP}

// classOf is the class that has a ConfigMap, that which is made among them; nil for none.
func (l *look) classOf(protocol v1beta1.Protocol, cm types.NamespacedName) *v1beta1.StreamIngressClass {
	for _, class := range append(slices.Clone(l.Classes), l.made...) {
		if snapshot.ConfigMapsOf(class)[protocol] == cm {
			return class
		}
	}
	return nil
}

// isSure says whether a proxy is to be believed: it is in the namespace of the ConfigMaps that it reads, where no tenant writes, or a class
// tells of it. Anybody may run something elsewhere that says to read them; and as anybody may have a ConfigMap of the usual name, one that
// only that tells of has to be asked for by its namespace.
func (l *look) isSure(p *snapshot.Proxy) bool {
	isThere := func(cm types.NamespacedName) bool { return p.Namespace == "" || cm.Namespace == p.Namespace }
	for _, cm := range p.ConfigMaps {
		if !isThere(cm) {
			return false
		}
	}
	return !p.IsByName || l.options.ProxyNamespace == p.Namespace
}

// unclassed are the proxies none of whose ConfigMaps a class has, of several that read the same ones the first.
func (l *look) unclassed() (proxies []*snapshot.Proxy) {
	for _, p := range l.proxies {
		if l.isLeftOut(p) || !l.isSure(p) {
			continue
		}
		isThere := false
		for _, cm := range p.ConfigMaps {
			isThere = isThere || l.configMaps[cm] != nil
		}
		isKnown := slices.ContainsFunc(proxies, func(other *snapshot.Proxy) bool { return maps.Equal(other.ConfigMaps, p.ConfigMaps) })
		if isThere && p.Class == "" && !isKnown {
			proxies = append(proxies, p)
		}
	}
	return proxies
}

// makeClass makes the class that is asked for, of the one proxy that has none.
func (l *look) makeClass() {
	name, proxies := l.options.Class, l.unclassed()
	var names []string
	for _, p := range proxies {
		names = append(names, describe(p))
	}
	there := slices.ContainsFunc(l.Classes, func(class *v1beta1.StreamIngressClass) bool { return class.Name == name })
	d := Document{}
	switch {
	case len(proxies) == 0 && there:
		return // it was made before
	case len(proxies) == 0:
		d.decide("StreamIngressClass %s is not made: no proxy was found that is in the namespace of the ConfigMaps that it reads, and whose "+
			"ConfigMaps are no class's; where a proxy reads ConfigMaps of the usual names, choose these by --proxy-namespace", name)
	case there:
		d.decide("StreamIngressClass %s is there, and has other ConfigMaps than %s: choose another --class", name, strings.Join(names, "; "))
	case len(proxies) > 1:
		d.decide("StreamIngressClass %s is not made: there are several proxies without a class, so choose one by --proxy-namespace: %s",
			name, strings.Join(names, "; "))
	default:
		d = l.newClass(proxies[0])
	}
	l.docs = append(l.docs, d)
}

// newClass is a class of a proxy.
func (l *look) newClass(p *snapshot.Proxy) Document {
	class := &v1beta1.StreamIngressClass{TypeMeta: typeOf("StreamIngressClass"), ObjectMeta: metav1.ObjectMeta{Name: l.options.Class}}
	class.Spec.Adopt = v1beta1.AdoptTake
	class.Spec.TCPConfigMap = refTo(p.ConfigMaps, v1beta1.TCP)
	class.Spec.UDPConfigMap = refTo(p.ConfigMaps, v1beta1.UDP)
	for _, port := range slices.Sorted(maps.Keys(p.Own)) {
		if last := len(class.Spec.Reserved) - 1; last >= 0 && max(class.Spec.Reserved[last].To, class.Spec.Reserved[last].From) == port-1 {
			class.Spec.Reserved[last].To = port
			continue
		}
		class.Spec.Reserved = append(class.Spec.Reserved, v1beta1.PortRange{From: port})
	}
	d := Document{Object: class}
	d.note("the class of %s; reserved are the ports at which it listens itself", describe(p))
	d.note("adopt: Take: an entry is its stream's for good, and goes with it")
	if l.options.ProxyNamespace == "" {
		d.decide("anybody may run what says that it reads ConfigMaps of its own namespace: is this the proxy? --proxy-namespace says so")
	}
	switch front := l.front(p); {
	case front != nil && p.OnNodes:
		d.decide("it is on the network of the nodes, and Service %s leads to it, too: if ports are to be opened there, name it in spec.service",
			snapshot.Key(front))
	case front != nil:
		class.Spec.Service = &v1beta1.ObjectReference{Namespace: front.Namespace, Name: front.Name}
		if len(p.Services) > 1 {
			d.Hold("it is reached by several Services, and the ports of a class are opened on one: is %s the one?", snapshot.Key(front))
		}
		if p.HasHostPorts() {
			d.Hold("it is reached by ports of the nodes, too, and the ports of a class are opened on its Service: is %s meant, or none?",
				snapshot.Key(front))
		}
	case !p.OnNodes:
		d.Hold("no Service was found in front of it: name one in spec.service, unless it is on the network of the nodes")
	}
	l.made, l.waits = append(l.made, class), d.Held
	return d
}

// front is the Service in front of a proxy, nil for none: the one that it publishes, and else a load balancer.
func (l *look) front(p *snapshot.Proxy) *corev1.Service {
	if p.Published != nil || len(p.Services) == 0 {
		return p.Published
	}
	i := slices.IndexFunc(p.Services, func(svc *corev1.Service) bool { return svc.Spec.Type == corev1.ServiceTypeLoadBalancer })
	return p.Services[max(i, 0)]
}

func refTo(configMaps map[v1beta1.Protocol]types.NamespacedName, protocol v1beta1.Protocol) *v1beta1.ObjectReference {
	key, has := configMaps[protocol]
	if !has {
		return nil
	}
	return &v1beta1.ObjectReference{Namespace: key.Namespace, Name: key.Name}
}

// describe is a proxy, and the ConfigMaps that it reads.
func describe(p *snapshot.Proxy) string {
	var read []string
	for _, protocol := range protocols {
		if key, has := p.ConfigMaps[protocol]; has {
			read = append(read, key.String())
		}
	}
	return p.Name + " (ConfigMap " + strings.Join(read, ", ") + ")"
}

// meets says whether two proxies may be reached at the same addresses.
func meets(p, other *snapshot.Proxy, at stream.PortKey) bool {
	_, here := p.OnNode(at.Protocol, at.Port)
	_, there := other.OnNode(at.Protocol, at.Port)
	return here && there && p.MayShareNode(other) ||
		slices.ContainsFunc(p.Services, func(svc *corev1.Service) bool { return slices.Contains(other.Services, svc) })
}
