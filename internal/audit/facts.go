package audit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Facts are what was read of the two sides. The claims and the pools are added first, then all else, one by one and in any order.
// Tenants can write any number of points into any number of objects: of a point that has a claim nothing is kept but that it was
// seen.
type Facts struct {
	claims map[claim.Coordinate]*entry
	// paths are those on which a holder has claims.
	paths map[claim.Holder][]claim.Coordinate
	// streams are the StreamIngresses with what they ask for.
	streams map[claim.Holder]wish
	// balancers are the Services of type LoadBalancer.
	balancers map[claim.Holder]balancer
	// unread are the objects of which it can't be told what they ask for.
	unread map[claim.Holder]bool
	// standing are the points that stand somewhere and have no claim, or one that is not for what stands there.
	standing map[claim.Coordinate]place
	// sharesNodes: a pool gives Services the addresses of the nodes.
	sharesNodes bool
	// classes are those that exist, and onNodes those without a Service, whose proxies are on the network of the nodes.
	classes map[string]bool
	// gateways are those with a Gateway.
	gateways map[string]bool
	onNodes  []string
	// claimed are the classes of whose ports somebody has any.
	claimed map[string]bool
	// absent are the objects that a class, which is told by name, names and that are not there. What a Service shares is of no
	// class.
	absent map[absence]bool
	// listening are the Gateways and ListenerSets with what they listen on, and hosts the ports of Gateways at which a host name is claimed.
	listening map[claim.Holder]map[listener]bool
	// routing are the guarded routes.
	routing map[claim.Holder]guard.Route
	hosts   map[claim.Coordinate]bool
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
	// class is that for whose proxy its holder has the point, empty for none.
	class string
	// asked says that its holder is a ConfigMap, a Service or an Ingress that asks for the point, or has it, a namespace in which something
	// does, or a class whose proxy is told to listen there.
	asked bool
}

// wish is what a StreamIngress asks for; an empty class and port 0 stand for any.
type wish struct {
	class    string
	protocol v1beta1.Protocol
	port     int32
	// former is the point at which it is open until it has moved to another class, zero for none.
	former claim.Coordinate
}

func (w wish) of(at claim.Coordinate) bool {
	return w.protocol == at.Protocol() && (w.class == "" || w.class == at.Class()) && (w.port == 0 || w.port == at.Port()) ||
		!w.former.IsZero() && at == w.former
}

// place is where a point stands, and what it belongs to.
type place struct {
	object Object
	where  claim.Holder
}

// NewFacts are none yet.
func NewFacts() *Facts {
	return &Facts{
		claims: map[claim.Coordinate]*entry{}, paths: map[claim.Holder][]claim.Coordinate{},
		streams: map[claim.Holder]wish{}, balancers: map[claim.Holder]balancer{},
		unread: map[claim.Holder]bool{}, standing: map[claim.Coordinate]place{}, absent: map[absence]bool{},
		classes: map[string]bool{}, gateways: map[string]bool{}, claimed: map[string]bool{},
		listening: map[claim.Holder]map[listener]bool{}, routing: map[claim.Holder]guard.Route{}, hosts: map[claim.Coordinate]bool{},
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
	promised = promised || c.Spec.Heir != nil // which is found out to be stored, or forgotten
	_, _, left := claim.Adopted(c)            // and about to be given back
	f.claims[at] = &entry{holder: claim.HolderOf(c), object: object, promised: promised, class: c.Spec.ClassName, asked: left}
	switch {
	case at.IsListener() && at.ListenerHost() != "":
		f.hosts[claim.Listener(at.Gateway(), claim.HTTPListener, at.Port())] = true
	case at.IsStream():
		f.claimed[at.Class()] = true
	case at.IsHTTP() && !at.IsHost():
		f.paths[claim.HolderOf(c)] = append(f.paths[claim.HolderOf(c)], at)
	}
}

// AddPool adds a pool of addresses.
func (f *Facts) AddPool(pool *v1beta1.AddressPool) {
	f.sharesNodes = f.sharesNodes || pool.SourceOrDefault() == v1beta1.SourceNodeIP &&
		meta.IsStatusConditionTrue(pool.Status.Conditions, v1beta1.ConditionAccepted)
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

// standOnNodes says where a proxy that is on the nodes is told to listen: there, too, the port has to be claimed for a class, this
// one or another, if Services can get it.
func (f *Facts) standOnNodes(at claim.Coordinate, where place) {
	on := claim.NodePort(string(at.Protocol()), at.Port())
	if _, known := f.standing[on]; !known && f.sharesNodes && !f.holder(on).IsClass() {
		f.standing[on] = where
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
	if p := s.Status.Previous; p != nil && s.DeletionTimestamp == nil {
		w.former = claim.Stream(p.ClassName, p.Protocol, p.Listen)
	}
	f.streams[claim.StreamHolder(s.Namespace, s.Name)] = w
}

// Targets are the objects that a class writes to, nil where they are missing or it names none.
type Targets struct {
	ConfigMaps map[v1beta1.Protocol]*corev1.ConfigMap
	Service    *corev1.Service
	// Gateway is that of the class, and Sharing are those that have an address in common with it.
	Gateway *gatewayv1.Gateway
	Sharing []*gatewayv1.Gateway
	// ListenerSets are those attached to any of these, Portcullis' and others'.
	ListenerSets []gatewayv1.ListenerSet
}

// AddClass adds a class and what stands on its proxy. What stands where another class writes is that class's matter. A class
// that is being deleted serves its streams until it is gone, which a finalizer may put off for long.
func (f *Facts) AddClass(class *v1beta1.StreamIngressClass, targets Targets) {
	serves := meta.IsStatusConditionTrue(class.Status.Conditions, v1beta1.ConditionAccepted)
	object := Object{claim.ClassHolder(class.Name), class.UID}
	f.classes[class.Name] = true
	f.gateways[class.Name] = class.Spec.Gateway != nil
	f.addAddresses(class)
	if class.OnNodes() {
		f.onNodes = append(f.onNodes, class.Name)
		f.noteOnNodes(targets)
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
				at, where := claim.Stream(class.Name, protocol, port), place{object: object, where: target}
				f.addPoint(at, target, where, serves)
				if serves && class.OnNodes() {
					f.standOnNodes(at, where)
				}
			}
		}
	}
	f.addListeners(class, targets, object, serves)
	if ref := class.Spec.Service; ref != nil && targets.Service == nil {
		f.absent[absence{class.Name, claim.ServiceHolder(ref.Namespace, ref.Name)}] = true
		f.absent[absence{"", claim.ServiceHolder(ref.Namespace, ref.Name)}] = true
	}
	if svc := targets.Service; svc != nil {
		target := claim.ServiceHolder(svc.Namespace, svc.Name)
		for _, p := range svc.Spec.Ports {
			f.addPoint(claim.Stream(class.Name, v1beta1.Protocol(p.Protocol), p.Port), target, place{object: object, where: target}, serves)
		}
	}
}

// noteOnNodes says that a proxy on the nodes is told to listen on ports of them: the class that has such a port there has a use for
// it, whichever of those classes it is.
func (f *Facts) noteOnNodes(targets Targets) {
	for protocol, cm := range targets.ConfigMaps {
		if cm == nil {
			continue
		}
		for key := range cm.Data {
			port, ok := stream.ParseKey(key)
			if c := f.claims[claim.NodePort(string(protocol), port)]; ok && c != nil && c.holder.IsClass() {
				c.asked = true
			}
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
	asked := sets.New[claim.Coordinate]()
	for _, at := range full.Points() {
		asked.Insert(at.ServedBy(""))
	}
	for _, at := range f.paths[holder] { // of its class, if it names one, or of none, by an earlier version
		class := at.IngressClass()
		f.claims[at].asked = f.claims[at].asked || asked.Has(at.ServedBy("")) && (full.Class == "" || class == "" || class == full.Class)
	}
}

// AddIngress adds what an Ingress serves. The claims may be those of the Service of its name. If it lists more than most
// paths, the claim on a host does for all on it, and if it has too many hosts, it needs none. It may be packed.
func (f *Facts) AddIngress(ing *networkingv1.Ingress, most int) {
	object := Object{claim.IngressHolder(ing.Namespace, ing.Name), ing.UID}
	ofService := claim.ServiceHolder(ing.Namespace, ing.Name)
	if exposure.HasManyHosts(ing) {
		held := slices.Concat(f.paths[ofService], f.paths[object.Holder])
		if len(held) > 0 {
			exposure.Pack(ing) // to look each of them up
		}
		for _, at := range held {
			f.claims[at].asked = f.claims[at].asked || exposure.Serves(ing, ofItsClass(at, ing))
		}
		return
	}
	claimed := map[string]bool{} // the hosts on which all that it serves has claims
	for _, at := range exposure.PointsOf(ing) {
		for _, by := range []claim.Holder{ofService, object.Holder} {
			f.note(by, at)
			f.note(by, at.ServedBy("")) // by an earlier version
		}
		before, known := claimed[at.Host()]
		claimed[at.Host()] = f.hasClaim(at) && (before || !known)
	}
	for _, at := range exposure.EntriesOf(ing, most) {
		f.note(object.Holder, at)
		f.note(object.Holder, at.ServedBy(""))
		if !f.hasClaim(at) && (!at.IsHost() || !claimed[at.Host()]) { // the claims on all paths, together, do as well as one on their host
			f.stand(at, place{object: object, where: object.Holder})
		}
	}
}

// hasClaim says whether there is a claim on what an Ingress serves, for its class, or, by an earlier version, for none.
func (f *Facts) hasClaim(at claim.Coordinate) bool {
	return f.claims[at] != nil || f.claims[at.ServedBy("")] != nil
}

// ofItsClass is a point of no class, as earlier versions claim it, as one of the class of an Ingress.
func ofItsClass(at claim.Coordinate, ing *networkingv1.Ingress) claim.Coordinate {
	if at.IngressClass() != "" {
		return at
	}
	return at.ServedBy(exposure.ClassOf(ing))
}

// asks says whether the holder of a claim is there and asks for its point, as far as can be told.
func (f *Facts) asks(c *entry, at claim.Coordinate) bool {
	if w, isStream := f.streams[c.holder]; isStream {
		return w.of(at)
	}
	if at.IsListener() {
		return f.listensAt(c, at)
	}
	if at.IsRoute() {
		return f.routesAt(c, at)
	}
	if at.IsHostname() || at.IsRoutePath() {
		return c.asked
	}
	absent := f.absent[absence{at.Class(), c.holder}]
	if at.IsAddress() || at.IsNode() {
		return absent || c.asked && c.holder.IsService() || f.balancers[c.holder].asks(at)
	}
	return absent || f.unread[c.holder] || c.asked
}
