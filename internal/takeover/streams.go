package takeover

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// look is a look at all ConfigMaps of streams.
type look struct {
	*Cluster
	options    Options
	proxies    []*snapshot.Proxy
	services   map[types.NamespacedName]*corev1.Service
	configMaps map[types.NamespacedName]*corev1.ConfigMap
	// looked are the ConfigMaps that were looked at: several proxies may read one.
	looked map[types.NamespacedName]bool
	// streams are the StreamIngresses of each namespace.
	streams map[string][]*v1beta1.StreamIngress
	// made is the class that is made, and waits says that it is not to be applied yet.
	made  []*v1beta1.StreamIngressClass
	waits bool
	docs  []Document
}

// StreamsOf are the class that is asked for, and a StreamIngress for each entry that is not one's yet, by namespace and port. What
// keeps an entry from being one comes before them.
func StreamsOf(c *Cluster, options Options) []Document {
	l := &look{
		Cluster: c, options: options, proxies: c.Proxies(), services: snapshot.Index(c.Services), configMaps: snapshot.Index(c.ConfigMaps),
		looked: map[types.NamespacedName]bool{}, streams: map[string][]*v1beta1.StreamIngress{},
	}
	slices.SortStableFunc(l.proxies, func(a, b *snapshot.Proxy) int { // who is to be believed says how a ConfigMap is read
		return cmp.Compare(number(!l.isSure(a)), number(!l.isSure(b)))
	})
	for _, s := range c.Streams {
		l.streams[s.Namespace] = append(l.streams[s.Namespace], s)
	}
	if options.Class != "" {
		l.makeClass()
	}
	var streams []Document
	for _, p := range slices.DeleteFunc(slices.Clone(l.proxies), l.isLeftOut) {
		for _, protocol := range protocols {
			if cm := l.configMaps[p.ConfigMaps[protocol]]; cm != nil && !l.looked[snapshot.Key(cm)] {
				l.looked[snapshot.Key(cm)] = true
				streams = append(streams, l.configMap(p, protocol, cm)...)
			}
		}
	}
	slices.SortStableFunc(streams, func(a, b Document) int {
		return cmp.Or(strings.Compare(a.Object.GetNamespace(), b.Object.GetNamespace()), stream.ComparePorts(portOf(a), portOf(b)))
	})
	return append(l.docs, streams...)
}

// isLeftOut says whether others are asked for than a proxy.
func (l *look) isLeftOut(p *snapshot.Proxy) bool {
	isAsked := func(cm types.NamespacedName) bool {
		return l.options.ProxyNamespace == "" || cm.Namespace == l.options.ProxyNamespace
	}
	return !slices.ContainsFunc(slices.Collect(maps.Values(p.ConfigMaps)), isAsked)
}

func portOf(d Document) stream.PortKey {
	s, is := d.Object.(*v1beta1.StreamIngress)
	if !is {
		return stream.PortKey{}
	}
	return stream.PortKey{Protocol: s.Spec.Protocol, Port: *s.Spec.Listen}
}

// configMap looks at a ConfigMap as a proxy reads it.
func (l *look) configMap(p *snapshot.Proxy, protocol v1beta1.Protocol, cm *corev1.ConfigMap) (streams []Document) {
	key, words := snapshot.Key(cm), Document{}
	class := l.classOf(protocol, key)
	if class == nil {
		if n := l.entriesOf(p, cm); n > 0 {
			words.decide("%s of ConfigMap %s %s: %s", plural(n, "entry", "entries"), key, left(n), l.whyUnclassed(p, protocol))
			l.docs = append(l.docs, words)
		}
		return nil
	}
	if !l.isSure(p) { // what anybody may run says nothing of the proxy of a class
		p = snapshot.OfClass(class, l.services)
	}
	if class.Spec.Adopt != v1beta1.AdoptTake {
		words.note("StreamIngressClass %s has adopt: Return: an entry of ConfigMap %s that its stream leaves is back as it was; "+
			"with adopt: Take it goes", class.Name, key)
	}
	already := 0
	for _, text := range slices.SortedFunc(maps.Keys(cm.Data), byNumber) {
		port, isPort := stream.ParseKey(text)
		e := &entry{of: p, in: key, class: class, at: stream.PortKey{Protocol: protocol, Port: port}, value: cm.Data[text]}
		if !isPort {
			if l.options.Namespace == "" {
				words.decide("ConfigMap %s, key %s is left out: %s", key, quoted(text), whyNoPort(text))
			}
			continue
		}
		if to, err := e.of.Entry(e.value); l.options.Namespace != "" && (err != nil || to.Namespace != l.options.Namespace) {
			continue
		}
		switch d, why := l.stream(e); {
		case why != "":
			words.decide("%s is left out: %s", e, why)
		case d == nil:
			already++
		default:
			streams = append(streams, *d)
		}
	}
	if already > 0 {
		words.note("%s of ConfigMap %s: taken over already, or asked for by a StreamIngress that says the same",
			plural(already, "entry", "entries"), key)
	}
	if len(words.Notes)+len(words.Decisions) > 0 {
		l.docs = append(l.docs, words)
	}
	return streams
}

// whyNoPort says of a key that is no port what a proxy makes of it: ingress-nginx reads numbers more freely than Portcullis does.
func whyNoPort(key string) string {
	if n, err := strconv.Atoi(key); err == nil && n > 0 && n <= math.MaxUint16 {
		return fmt.Sprintf("ingress-nginx listens for it at %d: write the key as %d, and import again", n, n)
	}
	return "it is no port, and nothing listens for it"
}

// entriesOf is how many entries of a ConfigMap are looked at.
func (l *look) entriesOf(p *snapshot.Proxy, cm *corev1.ConfigMap) (n int) {
	for _, value := range cm.Data {
		if to, err := p.Entry(value); l.options.Namespace == "" || err == nil && to.Namespace == l.options.Namespace {
			n++
		}
	}
	return n
}

// whyUnclassed says why no class has a ConfigMap of a proxy, and what to do.
func (l *look) whyUnclassed(p *snapshot.Proxy, protocol v1beta1.Protocol) string {
	switch isSure := l.isSure(p); {
	case p.Class != "":
		return fmt.Sprintf("StreamIngressClass %s has not this ConfigMap: name it in spec.%sConfigMap there, and import again",
			p.Class, strings.ToLower(string(protocol)))
	case !isSure && p.IsByName:
		return fmt.Sprintf("no StreamIngressClass has it, and its name alone says that a proxy reads it: if one does, import again with "+
			"--class NAME --proxy-namespace %s", p.Namespace)
	case !isSure:
		return fmt.Sprintf("no StreamIngressClass has it, and %s, which says to read it, is in another namespace, where anybody may run it: "+
			"if that is the proxy, write the class by hand, and import again", p.Name)
	case l.options.Class != "":
		return "no StreamIngressClass has it"
	}
	return fmt.Sprintf("no StreamIngressClass has it: import again with --class NAME, which makes one of %s", describe(p))
}

// byNumber orders keys that are ports by their numbers, behind what is none.
func byNumber(a, b string) int {
	m, _ := stream.ParseKey(a)
	n, _ := stream.ParseKey(b)
	return cmp.Or(cmp.Compare(m, n), strings.Compare(a, b))
}

// plural is a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func left(n int) string {
	if n == 1 {
		return "is left out"
	}
	return "are left out"
}
