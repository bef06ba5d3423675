package takeover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

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
	// made is the class that is made.
	made []*v1beta1.StreamIngressClass
	docs []Document
}

// entry is one of a ConfigMap, as a proxy reads it.
type entry struct {
	of    *snapshot.Proxy
	in    types.NamespacedName
	class string
	at    stream.PortKey
	value string
}

// String is the entry as it is written.
func (e *entry) String() string {
	return fmt.Sprintf("ConfigMap %s, %s %s", e.in, e.at, quoted(e.value))
}

// StreamsOf are the class that is asked for, and a StreamIngress for each entry that is not one's yet, by namespace and port. What
// keeps an entry from being one comes before them.
func StreamsOf(c *Cluster, options Options) []Document {
	l := &look{
		Cluster: c, options: options, services: snapshot.Index(c.Services), configMaps: snapshot.Index(c.ConfigMaps),
		looked: map[types.NamespacedName]bool{}, streams: map[string][]*v1beta1.StreamIngress{},
	}
	for _, p := range c.Proxies() {
		isIn := func(cm types.NamespacedName) bool {
			return options.ProxyNamespace == "" || cm.Namespace == options.ProxyNamespace
		}
		if slices.ContainsFunc(slices.Collect(maps.Values(p.ConfigMaps)), isIn) {
			l.proxies = append(l.proxies, p)
		}
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
	for _, p := range l.proxies {
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
	if class.Spec.Adopt != v1beta1.AdoptTake {
		words.note("StreamIngressClass %s has adopt: Return: an entry of ConfigMap %s that its stream leaves is back as it was; "+
			"with adopt: Take it goes", class.Name, key)
	}
	already := 0
	for _, text := range slices.SortedFunc(maps.Keys(cm.Data), byNumber) {
		port, isPort := stream.ParseKey(text)
		e := &entry{of: p, in: key, class: class.Name, at: stream.PortKey{Protocol: protocol, Port: port}, value: cm.Data[text]}
		if !isPort {
			if l.options.Namespace == "" {
				words.decide("ConfigMap %s, key %s is left out: it is no port, and nothing listens for it", key, quoted(text))
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

// stream is the StreamIngress of an entry: nil where there is one already, and why not where there can be none.
func (l *look) stream(e *entry) (*Document, string) {
	if e.of.Own.Has(e.at.Port) {
		return nil, "the proxy listens on this port itself, and leaves the entry out"
	}
	to, err := stream.ParseEntry(e.value)
	if err != nil {
		if _, err := e.of.Entry(e.value); err == nil {
			return nil, "what HAProxy is told behind the port has no counterpart in a StreamIngress: the entry stays as it is, and is in the ledger"
		}
		return nil, err.Error()
	}
	if e.at.Protocol == v1beta1.UDP && (to.Accept || to.Send) {
		return nil, "UDP has no PROXY protocol: take the words behind the port out of the entry, and import again"
	}
	if !l.HasNamespace(to.Namespace) && l.Knows("Namespace", to.Namespace) {
		d := e.document(to)
		d.Hold("namespace %s does not exist: create it, or remove the entry", to.Namespace)
		return d, ""
	}
	d := e.document(to)
	s := d.Object.(*v1beta1.StreamIngress)
	if there := l.there(s); there != nil {
		if l.isHeld(there, e) || saysTheSame(there, s) {
			return nil, ""
		}
		d.Hold("StreamIngress %s is there, and says something else", snapshot.Key(there))
		return d, ""
	}
	l.judgeService(d, e, to)
	l.judgeOpening(d, e)
	return d, ""
}

// document is the StreamIngress that says what an entry says.
func (e *entry) document(to stream.Entry) *Document {
	s := &v1beta1.StreamIngress{TypeMeta: typeOf("StreamIngress"), ObjectMeta: metav1.ObjectMeta{
		Namespace: to.Namespace, Name: fmt.Sprintf("%s-%s", e.class, e.at.Name()),
	}}
	s.Spec = v1beta1.StreamIngressSpec{
		ClassName: e.class, Protocol: e.at.Protocol, Listen: &e.at.Port,
		Upstream: v1beta1.StreamUpstream{Service: to.Service, Port: intstr.Parse(to.Port)},
	}
	if to.Accept || to.Send {
		s.Spec.ProxyProtocol = &v1beta1.ProxyProtocol{Accept: to.Accept, Send: to.Send}
	}
	return &Document{Object: s}
}

// there is a StreamIngress that has or wants the port of another one, or has its name; nil for none.
func (l *look) there(s *v1beta1.StreamIngress) *v1beta1.StreamIngress {
	isOfPort := func(other *v1beta1.StreamIngress) bool {
		class := cmp.Or(other.Spec.ClassName, other.Status.ClassName)
		listens := other.Spec.Listen != nil && *other.Spec.Listen == *s.Spec.Listen || other.Status.Listen == *s.Spec.Listen
		return class == s.Spec.ClassName && other.ProtocolOrDefault() == s.Spec.Protocol && listens
	}
	i := slices.IndexFunc(l.streams[s.Namespace], func(other *v1beta1.StreamIngress) bool { return other.Name == s.Name || isOfPort(other) })
	if i < 0 {
		return nil
	}
	return l.streams[s.Namespace][i]
}

// isHeld says whether a StreamIngress has the port of an entry. Its owners don't write its status.
func (l *look) isHeld(s *v1beta1.StreamIngress, e *entry) bool {
	return s.Status.ClassName == e.class && s.Status.Listen == e.at.Port && s.ProtocolOrDefault() == e.at.Protocol &&
		meta.IsStatusConditionTrue(s.Status.Conditions, v1beta1.ConditionAccepted)
}

// saysTheSame says whether a StreamIngress that is there asks for what another one would.
func saysTheSame(there, s *v1beta1.StreamIngress) bool {
	spec := *there.Spec.DeepCopy()
	spec.Protocol, spec.IsService = there.ProtocolOrDefault(), nil
	return equality.Semantic.DeepEqual(spec, s.Spec) && !there.Outside()
}

// judgeService looks whether an entry that names the port of its Service can be told from one by number.
func (l *look) judgeService(d *Document, e *entry, to stream.Entry) {
	port := intstr.Parse(to.Port)
	if port.Type == intstr.Int {
		return
	}
	key := types.NamespacedName{Namespace: to.Namespace, Name: to.Service}
	svc := l.services[key]
	if svc == nil {
		why := "there is no Service %s"
		if !l.Knows("Service", to.Namespace) {
			why = "Service %s could not be read"
		}
		d.Hold(why+", so nothing says which port %q is: create it, name the port by number in the entry, or remove the entry", key, to.Port)
		return
	}
	if _, found := stream.FindPort(svc, port, e.at.Protocol); !found {
		d.Hold("Service %s has no %s port %q: name one that it has in the entry, or remove the entry", key, e.at.Protocol, to.Port)
	}
}

// judgeOpening looks by which ports outside an entry is reached: a stream has its own opened there.
func (l *look) judgeOpening(d *Document, e *entry) {
	if !e.of.Opens(e.at.Protocol, e.at.Port) {
		d.Hold("%s is not open on the Service in front of the proxy: the stream would open it; if that is meant, apply it, else remove the entry",
			e.at)
	}
	for _, svc := range e.of.Services {
		for i := range svc.Spec.Ports {
			p := &svc.Spec.Ports[i]
			if snapshot.ProtocolOf(p) == e.at.Protocol && p.Port != e.at.Port && e.of.Listens(p) == e.at.Port {
				d.decide("Service %s opens it as port %d, which stays open; the stream opens %s, too", snapshot.Key(svc), p.Port, e.at)
			}
		}
	}
	for _, other := range l.proxies {
		cm := l.configMaps[other.ConfigMaps[e.at.Protocol]]
		if cm == nil || snapshot.Key(cm) == e.in || !l.isSure(other) || !meets(e.of, other, e.at) {
			continue
		}
		if value, twice := cm.Data[stream.Key(e.at.Port)]; twice {
			d.decide("ConfigMap %s has this port, too, for a proxy that is reached in the same place: %s; one of them is to go",
				snapshot.Key(cm), quoted(value))
		}
	}
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
