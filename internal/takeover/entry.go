package takeover

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// entry is one of a ConfigMap, as a proxy reads it.
type entry struct {
	of    *snapshot.Proxy
	in    types.NamespacedName
	class *v1beta1.StreamIngressClass
	at    stream.PortKey
	value string
}

// String is the entry as it is written.
func (e *entry) String() string {
	return fmt.Sprintf("ConfigMap %s, %s %s", e.in, e.at, quoted(e.value))
}

// stream is the StreamIngress of an entry: nil where there is one already, and why not where there can be none.
func (l *look) stream(e *entry) (*Document, string) {
	if e.of.Own.Has(e.at.Port) {
		return nil, "the proxy listens on this port itself, and leaves the entry out"
	}
	to, err := stream.ParseEntry(e.value)
	if err != nil {
		if _, err := e.of.Entry(e.value); err == nil {
			return nil, "what HAProxy is told behind the port has no counterpart in a StreamIngress: the entry stays as it is, " +
				"and is in the ledger"
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
	if there := l.there(s, e); there != nil {
		isSame := l.isHeld(there, e) || saysTheSame(there, s)
		accepted := meta.FindStatusCondition(there.Status.Conditions, v1beta1.ConditionAccepted)
		switch {
		case there.DeletionTimestamp != nil:
			d.Hold("StreamIngress %s is being deleted: import again when it is gone", snapshot.Key(there))
		case !isSame:
			d.Hold("StreamIngress %s is there, and says something else", snapshot.Key(there))
		case accepted != nil && accepted.Status == metav1.ConditionFalse:
			d.Hold("StreamIngress %s is there, and is not accepted: %s", snapshot.Key(there), quoted(accepted.Message))
		default:
			return nil, ""
		}
		return d, ""
	}
	l.judgeService(d, e, to)
	l.judgeOpening(d, e)
	return d, ""
}

// document is the StreamIngress that says what an entry says.
func (e *entry) document(to stream.Entry) *Document {
	s := &v1beta1.StreamIngress{TypeMeta: typeOf("StreamIngress"), ObjectMeta: metav1.ObjectMeta{
		Namespace: to.Namespace, Name: fmt.Sprintf("%s-%s", e.class.Name, e.at.Name()),
	}}
	s.Spec = v1beta1.StreamIngressSpec{
		ClassName: e.class.Name, Protocol: e.at.Protocol, Listen: &e.at.Port,
		Upstream: v1beta1.StreamUpstream{Service: to.Service, Port: intstr.Parse(to.Port)},
	}
	if to.Accept || to.Send {
		s.Spec.ProxyProtocol = &v1beta1.ProxyProtocol{Accept: to.Accept, Send: to.Send}
	}
	return &Document{Object: s}
}

// there is a StreamIngress that has the port of another one, else one that wants it, else one that has its name; nil for none.
func (l *look) there(s *v1beta1.StreamIngress, e *entry) *v1beta1.StreamIngress {
	isOfPort := func(other *v1beta1.StreamIngress) bool {
		class := cmp.Or(other.Spec.ClassName, other.Status.ClassName)
		listens := other.Spec.Listen != nil && *other.Spec.Listen == *s.Spec.Listen || other.Status.Listen == *s.Spec.Listen
		return class == s.Spec.ClassName && other.ProtocolOrDefault() == s.Spec.Protocol && listens
	}
	has := func(other *v1beta1.StreamIngress) bool { return l.isHeld(other, e) }
	isNamed := func(other *v1beta1.StreamIngress) bool { return other.Name == s.Name }
	for _, is := range []func(*v1beta1.StreamIngress) bool{has, isOfPort, isNamed} {
		if i := slices.IndexFunc(l.streams[s.Namespace], is); i >= 0 {
			return l.streams[s.Namespace][i]
		}
	}
	return nil
}

// isHeld says whether a StreamIngress has the port of an entry. Its owners don't write its status.
func (l *look) isHeld(s *v1beta1.StreamIngress, e *entry) bool {
	return s.Status.ClassName == e.class.Name && s.Status.Listen == e.at.Port && s.ProtocolOrDefault() == e.at.Protocol &&
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
		d.Hold("%s, so nothing says which port %q is: create it, name the port by number in the entry, or remove the entry",
			l.lacks(key), to.Port)
		return
	}
	if _, found := stream.FindPort(svc, port, e.at.Protocol); !found {
		d.Hold("Service %s has no %s port %q: name one that it has in the entry, or remove the entry", key, e.at.Protocol, to.Port)
	}
}

// lacks says why nothing is known of a Service.
func (l *look) lacks(service types.NamespacedName) string {
	if !l.Knows("Service", service.Namespace) {
		return fmt.Sprintf("Service %s could not be read", service)
	}
	return fmt.Sprintf("there is no Service %s", service)
}

// judgeOpening looks whether an entry is reached where its stream has its port opened: on the Service of the class, and nowhere else.
func (l *look) judgeOpening(d *Document, e *entry) {
	if l.waits && slices.Contains(l.made, e.class) {
		d.Hold("StreamIngressClass %s waits for a decision: apply it first, and import again", e.class.Name)
	}
	if ref := e.class.Spec.Service; ref != nil {
		l.judgeFront(d, e, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	} else if !e.of.Opens(e.at.Protocol, e.at.Port) {
		d.Hold("%s is not open on the Service in front of the proxy, and StreamIngressClass %s names none: name it in spec.service, "+
			"or remove the entry", e.at, e.class.Name)
	}
	for _, other := range l.proxies {
		cm := l.configMaps[other.ConfigMaps[e.at.Protocol]]
		if cm == nil || snapshot.Key(cm) == e.in || !l.isSure(other) || !meets(e.of, other, e.at) {
			continue
		}
		if value, twice := cm.Data[stream.Key(e.at.Port)]; twice {
			d.Hold("ConfigMap %s has this port, too, for a proxy that is reached in the same place: %s; one of them is to go",
				snapshot.Key(cm), quoted(value))
		}
	}
}

// judgeFront looks whether the Service of a class has the port of an entry, under its number. Whatever other Services open, or ports of the
// nodes, the stream has that one opened here.
func (l *look) judgeFront(d *Document, e *entry, key types.NamespacedName) {
	svc := l.services[key]
	if svc == nil {
		d.Hold("%s, which StreamIngressClass %s names, so nothing says whether the stream would open %s there",
			l.lacks(key), e.class.Name, e.at)
		return
	}
	for i := range svc.Spec.Ports {
		switch p := &svc.Spec.Ports[i]; {
		case snapshot.ProtocolOf(p) != e.at.Protocol || e.of.Listens(p) != e.at.Port:
		case p.Port == e.at.Port:
			return
		default:
			d.decide("Service %s opens it as port %d, which stays open", key, p.Port)
		}
	}
	d.Hold("%s is not open on Service %s, which StreamIngressClass %s names, and the stream would open it there: apply it if that is meant, "+
		"or remove the entry", e.at, key, e.class.Name)
}
