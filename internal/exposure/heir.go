package exposure

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// A Service that says to whom it hands over what it holds asks for nothing any more that it doesn't have: what it has given is not asked
// for again, be it free by now, for as long as it says so. A Service has no status that would keep what that was. So nothing is asked for
// that nobody has a claim on, and its Ingress does not serve, for whatever class; but only what somebody else has a claim on is lost to it,
// and taken off its Ingress.

// yields says whether the holder of a claim gives a point to one of some others, as far as is known: the claim is promised to that one, or
// the holder names it, and nobody has been promised it. A claim that names no class gives nothing of one. The ledger has the last word.
func yields(facts Facts, at claim.Coordinate, held *v1beta1.EdgeClaim, to ...claim.Holder) bool {
	if held.Name != at.Name() {
		return false
	}
	if heir := claim.HeirOf(held); heir != (claim.Holder{}) {
		return slices.Contains(to, heir)
	}
	from := claim.HolderOf(held)
	return slices.ContainsFunc(to, func(heir claim.Holder) bool { return isOfKind(from, heir) && facts.HandsOver(from, heir) })
}

func isOfKind(a, b claim.Holder) bool { return a.Group == b.Group && a.Kind == b.Kind }

// handOver is how the holder of a claim could let somebody have the point, empty where it can't: it is of another kind, or gone, or
// hands the point over to another already.
func handOver(at claim.Coordinate, held *v1beta1.EdgeClaim, to claim.Holder, leaving bool) string {
	from, heir := claim.HolderOf(held), claim.HeirOf(held)
	if leaving || !isOfKind(from, to) || from == to || heir != (claim.Holder{}) && heir != to || held.Name != at.Name() {
		return ""
	}
	return refusal.HandOver(to.Key())
}

// seenBy is a claim as who asks for its point is told of it: that it was promised the point itself, which is so no longer if it is refused,
// is nothing to tell.
func seenBy(asks claim.Holder, held *v1beta1.EdgeClaim) *v1beta1.EdgeClaim {
	if claim.HeirOf(held) != asks {
		return held
	}
	next := held.DeepCopy()
	next.Spec.Heir = nil
	return next
}

// Asks says whether a Service asks for a point that is handed over to it, by a request that can be read. Unlike one that has the point, it
// does not by what its Ingress serves.
func Asks(svc *corev1.Service, defaults Defaults, at claim.Coordinate) bool {
	if _, requests := Annotation(svc); !requests || svc.DeletionTimestamp != nil {
		return false
	}
	e, problems := RequestOf(svc, defaults)
	return len(problems) == 0 && slices.Contains(e.Points(), at)
}

// HandsOver says whether a Service, or an Ingress that somebody writes, says to whom it hands over what it holds. Such an Ingress takes
// nothing over: two that name each other would take it from each other for ever, and so would any ring of them.
func HandsOver(obj metav1.Object) bool {
	_, named := claim.NamedHeir(obj)
	return named
}

// Lost are those of the points of a complete exposure on which somebody else has a claim, of a Service that hands over what it holds. Of
// one that hands over nothing there are none.
func Lost(facts Facts, svc *corev1.Service, e Exposure) (lost []claim.Coordinate) {
	if !HandsOver(svc) {
		return nil
	}
	for _, at := range e.Points() {
		if c := facts.Claim(at.Name()); c != nil && !IsOf(c, svc) {
			lost = append(lost, at)
		}
	}
	return lost
}

// Withheld are those of the points of a complete exposure that a Service which hands over what it holds does not ask for: nobody has a
// claim on them, and its Ingress does not serve them for any class.
func Withheld(facts Facts, svc *corev1.Service, e Exposure) (withheld []claim.Coordinate) {
	if !HandsOver(svc) {
		return nil
	}
	ing := ownIngress(facts, svc)
	for _, at := range e.Points() {
		if facts.Claim(at.Name()) == nil && (ing == nil || !Serves(ing, at.ServedBy(ClassOf(ing)))) {
			withheld = append(withheld, at)
		}
	}
	return withheld
}

// UnservedOn are those of the points of a complete exposure on some hosts, which are its namespace's no longer, that the Ingress of the
// Service does not serve for that class. What it serves stays, as it does of other objects that use such a host.
func UnservedOn(facts Facts, svc *corev1.Service, e Exposure, hosts []string) (unserved []claim.Coordinate) {
	if len(hosts) == 0 {
		return nil
	}
	ing := ownIngress(facts, svc)
	for _, at := range e.Points() {
		if slices.Contains(hosts, at.Host()) && (ing == nil || !Serves(ing, at)) {
			unserved = append(unserved, at)
		}
	}
	return unserved
}

// ownIngress is the Ingress of a Service, nil for none, and for one that is somebody else's.
func ownIngress(facts Facts, svc *corev1.Service) *networkingv1.Ingress {
	ing := facts.Ingress(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
	if ing == nil || !IsOwn(ing, svc) {
		return nil
	}
	return ing
}

// Keeps is a point that the own Ingress of a Service serves and nobody else has a claim on, if there is one: such an Ingress is not deleted
// because a Service that hands over what it holds asks for nothing else.
func Keeps(facts Facts, svc *corev1.Service) (at claim.Coordinate, keeps bool) {
	ing := ownIngress(facts, svc)
	if ing == nil {
		return at, false
	}
	for _, at := range PointsOf(ing) {
		if c := facts.Claim(at.Name()); c == nil || IsOf(c, svc) {
			return at, true
		}
	}
	return at, false
}

// IsOf says whether a claim is a Service's, or that of the Ingress of its name, which gives way to it.
func IsOf(c *v1beta1.EdgeClaim, svc *corev1.Service) bool {
	return claim.HolderOf(c) == claim.ServiceHolder(svc.Namespace, svc.Name) || MayTake(svc)(c)
}

// LostBefore are the points that a Service, as it is stored, has lost and is not to ask for again by a change of what it requests. before
// is nil for a Service that is not stored yet: it asks for everything.
func LostBefore(facts Facts, before, after *corev1.Service) []claim.Coordinate {
	if before == nil || !HandsOver(after) {
		return nil
	}
	if _, requested := Annotation(before); !requested {
		return nil
	}
	e, problems := RequestOf(before, facts.Defaults(types.NamespacedName{Namespace: before.Namespace, Name: before.Name}))
	if len(problems) > 0 {
		return nil
	}
	return append(Lost(facts, before, e), Withheld(facts, before, e)...)
}

// ServedForOthers are those of the points that the own Ingress of a Service serves on which another Service has a claim: it has handed
// them over, whatever it says by now. There are none in an Ingress that is not the Service's.
func ServedForOthers(facts Facts, svc *corev1.Service) (lost []claim.Coordinate) {
	ing := ownIngress(facts, svc)
	if ing == nil || listsMore(ing, MostEntries) {
		return nil
	}
	for _, at := range PointsOf(ing) {
		if c := facts.Claim(at.Name()); c != nil && claim.HolderOf(c).IsService() && !IsOf(c, svc) {
			lost = append(lost, at)
		}
	}
	return lost
}

// But are those of some points that are not among others, whatever class either is of.
func But(points, others []claim.Coordinate) []claim.Coordinate {
	if len(others) == 0 {
		return points
	}
	return slices.DeleteFunc(slices.Clone(points), func(at claim.Coordinate) bool {
		return slices.ContainsFunc(others, func(other claim.Coordinate) bool { return other.ServedBy("") == at.ServedBy("") })
	})
}

// Without is what an Ingress says without some of its points. Of a host that loses all its paths nothing is left.
func Without(spec *networkingv1.IngressSpec, lost []claim.Coordinate) networkingv1.IngressSpec {
	left := *spec.DeepCopy()
	if len(lost) == 0 {
		return left
	}
	isLost := func(host, path string) bool {
		return slices.ContainsFunc(lost, func(at claim.Coordinate) bool { return at.Host() == host && at.Path() == path })
	}
	left.Rules = slices.DeleteFunc(left.Rules, func(r networkingv1.IngressRule) bool {
		if r.HTTP == nil {
			return isLost(r.Host, "/")
		}
		r.HTTP.Paths = slices.DeleteFunc(r.HTTP.Paths, func(p networkingv1.HTTPIngressPath) bool { return isLost(r.Host, pathOf(&p).point()) })
		return len(r.HTTP.Paths) == 0
	})
	for i := range left.TLS {
		left.TLS[i].Hosts = slices.DeleteFunc(left.TLS[i].Hosts, func(host string) bool {
			return lists(spec.Rules, host) && !lists(left.Rules, host)
		})
	}
	left.TLS = slices.DeleteFunc(left.TLS, func(t networkingv1.IngressTLS) bool { return len(t.Hosts) == 0 })
	return left
}

func lists(rules []networkingv1.IngressRule, host string) bool {
	return slices.ContainsFunc(rules, func(r networkingv1.IngressRule) bool { return r.Host == host })
}
