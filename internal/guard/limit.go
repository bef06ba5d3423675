package guard

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// limits refuses what is more than a rule of a class gives to one namespace. Its streams and its listeners count alike, and a port once,
// however many host names it has there.
func limits(
	f Facts, r *Request, class *v1beta1.StreamIngressClass, has labels.Set, points []asked,
) refusal.Problems {
	rules := stream.RulesFor(class, has)
	if !slices.ContainsFunc(rules, func(rule *v1beta1.PortAllowance) bool { return rule != nil && rule.MaxPerNamespace > 0 }) {
		return nil
	}
	others, own := claimedPorts(f, r, class)
	all := others.Clone()
	for _, l := range r.Listeners { // what it has no longer it gives up
		for _, at := range l.Points(r.Of) {
			all.Insert(port(at))
		}
	}
	for i, rule := range rules {
		if rule == nil || rule.MaxPerNamespace == 0 {
			continue
		}
		gives := func(at stream.PortKey) bool { return rules.Giving(at.Protocol, at.Port) == i }
		given := 0
		for at := range all {
			if gives(at) {
				given++
			}
		}
		more := slices.IndexFunc(points, func(a asked) bool {
			at := port(a.at)
			return a.at.Gateway() == r.Of && gives(at) && !others.Has(at) && !own.Has(at)
		})
		if given <= int(rule.MaxPerNamespace) || more < 0 {
			continue
		}
		from, to := stream.AllowedEnds(rule)
		return refusal.One(v1beta1.ReasonNamespaceLimitReached, field.Invalid(
			points[more].portPath(), points[more].Port,
			fmt.Sprintf("StreamIngressClass %q, which names the Gateway, gives at most %d port(s) of %d-%d to one namespace "+
				"(spec.allow[%d].maxPerNamespace), and namespace %q would have %d: delete a stream or a listener",
				class.Name, rule.MaxPerNamespace, from, to, i, r.Namespace, given)))
	}
	return nil
}

// claimedPorts are those that the namespace of a request has on its Gateway: by others of its objects, and by this one.
func claimedPorts(f Facts, r *Request, class *v1beta1.StreamIngressClass) (others, own sets.Set[stream.PortKey]) {
	others, own = sets.New[stream.PortKey](), sets.New[stream.PortKey]()
	for _, c := range f.ClaimsOfNamespace(r.Namespace, claim.StreamScope(class.Name)) {
		if at, err := claim.Of(c); err == nil && claim.HolderOf(c).IsStream() {
			others.Insert(stream.PortKey{Protocol: at.Protocol(), Port: at.Port()})
		}
	}
	for _, c := range f.ClaimsOfNamespace(r.Namespace, claim.GatewayScope) {
		at, err := claim.Of(c)
		switch {
		case err != nil || at.Gateway() != r.Of:
		case claim.HolderOf(c) == r.Holder:
			own.Insert(port(at))
		default:
			others.Insert(port(at))
		}
	}
	return others, own
}
