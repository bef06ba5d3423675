package audit

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Facts are what was read of the two sides. The claims are added first, then all else, one by one and in any order. Tenants can
// write any number of points into any number of objects: of a point that has a claim nothing is kept but that it was seen.
type Facts struct {
	claims map[claim.Coordinate]*entry
	// streams are the StreamIngresses with what they ask for.
	streams map[claim.Holder]wish
	// balancers are the Services of type LoadBalancer.
	balancers map[claim.Holder]balancer
	// unread are the objects of which it can't be told what they ask for.
	unread map[claim.Holder]bool
	// standing are the points that stand somewhere and have no claim.
	standing map[claim.Coordinate]place
	// onNodes are the classes without a Service, whose proxies are on the network of the nodes.
	onNodes []string
	// absent are the objects that a class, which is told by name, names and that are not there.
	absent map[absence]bool
}

// absence is an object that a class names and that is not there. It keeps what it had.
type absence struct {
	class  string
	object claim.Holder
}

// entry is a claim.
type entry struct {
	holder   claim.Holder
	object   Object
	promised bool
	// asked says that its holder is a ConfigMap, a Service or an Ingress that asks for the point, or has it.
	asked bool
}

// wish is what a StreamIngress asks for; an empty class and port 0 stand for any.
type wish struct {
	class    string
	protocol v1beta1.Protocol
	port     int32
}

func (w wish) of(at claim.Coordinate) bool {
	return w.protocol == at.Protocol() && (w.class == "" || w.class == at.Class()) && (w.port == 0 || w.port == at.Port())
}

// place is where a point stands, and what it belongs to.
type place struct {
	object Object
	where  claim.Holder
}

// NewFacts are none yet.
func NewFacts() *Facts {
	return &Facts{
		claims: map[claim.Coordinate]*entry{}, streams: map[claim.Holder]wish{}, balancers: map[claim.Holder]balancer{},
		unread: map[claim.Holder]bool{}, standing: map[claim.Coordinate]place{}, absent: map[absence]bool{},
	}
}

// AddClaim adds a claim. promised says that an admission may be about to store its holder: its grace is not over. Claims
// that are not as Portcullis writes them are nobody's to judge.
func (f *Facts) AddClaim(c *v1beta1.EdgeClaim, promised bool) {
	at, err := claim.Of(c)
	if err != nil {
		return
	}
	object := Object{claim.Holder{Group: v1beta1.GroupName, Kind: "EdgeClaim", Name: c.Name}, c.UID}
	_, _, left := claim.Adopted(c) // and about to be given back
	f.claims[at] = &entry{holder: claim.HolderOf(c), object: object, promised: promised, asked: left}
}

// note says that an object asks for a point, or has it.
func (f *Facts) note(holder claim.Holder, at claim.Coordinate) {
	if c := f.claims[at]; c != nil && c.holder == holder {
		c.asked = true
	}
}

// stand says where a point stands. Of several places the first one is told.
func (f *Facts) stand(at claim.Coordinate, where place) {
	if _, known := f.standing[at]; !known && f.claims[at] == nil {
		f.standing[at] = where
	}
}

// AddStream adds a StreamIngress. The status counts where the spec leaves something out.
func (f *Facts) AddStream(s *v1beta1.StreamIngress) {
	w := wish{class: s.Spec.ClassName, protocol: s.ProtocolOrDefault(), port: s.Status.Listen}
	if w.class == "" {
		w.class = s.Status.ClassName
	}
	if s.Spec.Listen != nil {
		w.port = *s.Spec.Listen
	}
	f.streams[claim.StreamHolder(s.Namespace, s.Name)] = w
}

// Targets are the objects that a class writes to, nil where they are missing or it names none.
type Targets struct {
	ConfigMaps map[v1beta1.Protocol]*corev1.ConfigMap
	Service    *corev1.Service
}

// AddClass adds a class and what stands on its proxy. What stands where another class writes is that class's matter.
func (f *Facts) AddClass(class *v1beta1.StreamIngressClass, targets Targets) {
	serves := meta.IsStatusConditionTrue(class.Status.Conditions, v1beta1.ConditionAccepted) && class.DeletionTimestamp == nil
	object := Object{claim.ClassHolder(class.Name), class.UID}
	if class.Spec.Service == nil {
		f.onNodes = append(f.onNodes, class.Name)
	}
	for _, protocol := range []v1beta1.Protocol{v1beta1.TCP, v1beta1.UDP} {
		ref, cm := class.ConfigMap(protocol), targets.ConfigMaps[protocol]
		if ref != nil && (cm == nil || stream.AppliedAlone(cm)) {
			f.absent[absence{class.Name, claim.ConfigMapHolder(ref.Namespace, ref.Name)}] = true
		}
		if cm == nil {
			continue
		}
		target := claim.ConfigMapHolder(cm.Namespace, cm.Name)
		for key := range cm.Data {
			if port, ok := stream.ParseKey(key); ok {
				f.addPoint(claim.Stream(class.Name, protocol, port), target, place{object: object, where: target}, serves)
			}
		}
	}
	if ref := class.Spec.Service; ref != nil && targets.Service == nil {
		f.absent[absence{class.Name, claim.ServiceHolder(ref.Namespace, ref.Name)}] = true
	}
	if svc := targets.Service; svc != nil {
		target := claim.ServiceHolder(svc.Namespace, svc.Name)
		for _, p := range svc.Spec.Ports {
			f.addPoint(claim.Stream(class.Name, v1beta1.Protocol(p.Protocol), p.Port), target, place{object: object, where: target}, serves)
		}
	}
}

// addPoint adds a point that an object may have a claim on, and where it stands if it does.
func (f *Facts) addPoint(at claim.Coordinate, holder claim.Holder, where place, stands bool) {
	if at.IsZero() {
		return // SCTP, for example
	}
	f.note(holder, at)
	if stands {
		f.stand(at, where)
	}
}

// AddService adds what a Service asks for by its annotation; only its metadata counts.
func (f *Facts) AddService(svc metav1.Object, defaults exposure.Defaults) {
	value, asks := svc.GetAnnotations()[v1beta1.AnnotationHTTP]
	if !asks {
		return
	}
	holder := claim.ServiceHolder(svc.GetNamespace(), svc.GetName())
	e, flaws := exposure.Parse(value)
	full, flaw := defaults.Complete(e, svc.GetNamespace(), svc.GetName())
	if len(flaws) > 0 || flaw != nil {
		f.unread[holder] = true
		return
	}
	for _, at := range full.Points() {
		f.note(holder, at)
	}
}

// AddIngress adds what an Ingress serves. The claims may be those of the Service of its name. If it lists more than most
// paths, the claim on a host does for all on it.
func (f *Facts) AddIngress(ing *networkingv1.Ingress, most int) {
	object := Object{claim.IngressHolder(ing.Namespace, ing.Name), ing.UID}
	ofService := claim.ServiceHolder(ing.Namespace, ing.Name)
	claimed := map[string]bool{} // the hosts on which all that it serves has claims
	for _, at := range exposure.PointsOf(ing) {
		f.note(ofService, at)
		f.note(object.Holder, at)
		before, known := claimed[at.Host()]
		claimed[at.Host()] = f.claims[at] != nil && (before || !known)
	}
	for _, at := range exposure.EntriesOf(ing, most) {
		f.note(object.Holder, at)
		if !at.IsHost() || !claimed[at.Host()] { // the claims on all paths, together, do as well as one on their host
			f.stand(at, place{object: object, where: object.Holder})
		}
	}
}

// asks says whether the holder of a claim is there and asks for its point, as far as can be told.
func (f *Facts) asks(c *entry, at claim.Coordinate) bool {
	if w, isStream := f.streams[c.holder]; isStream {
		return w.of(at)
	}
	if at.IsAddress() || at.IsNode() {
		return f.balancers[c.holder].asks(at)
	}
	return f.unread[c.holder] || c.asked || f.absent[absence{at.Class(), c.holder}]
}
