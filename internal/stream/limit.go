package stream

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// portShare is what the streams of a namespace have of an allow rule that gives it a limited number of ports, as one of
// them asks for one port.
type portShare struct {
	refusal.Share
	// claims are those on the ports.
	claims []*v1beta1.EdgeClaim
}

// portShares are those of all rules of a class that are limited, by the place of the rule.
func portShares(
	f LimitFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, namespace labels.Set,
) map[int]portShare {
	if !slices.ContainsFunc(class.Spec.Allow, func(rule v1beta1.PortAllowance) bool { return rule.MaxPerNamespace > 0 }) {
		return nil
	}
	rules, shares := RulesFor(class, namespace), map[int]portShare{}
	for i, rule := range rules {
		if rule != nil && rule.MaxPerNamespace > 0 {
			shares[i] = portShare{Share: refusal.Share{Limit: int(rule.MaxPerNamespace), Wanted: 1, Added: 1}}
		}
	}
	if len(shares) == 0 {
		return nil
	}
	count := func(protocol v1beta1.Protocol, port int32, c *v1beta1.EdgeClaim, isOwn bool) {
		i := rules.Giving(protocol, port)
		if of, limited := shares[i]; limited {
			of.claims = append(of.claims, c)
			of.All++
			if isOwn {
				of.Own++
			}
			shares[i] = of
		}
	}
	for _, c := range f.ClaimsOfNamespace(s.Namespace, claim.StreamScope(class.Name)) {
		at, err := claim.Of(c)
		holder := inNamespace(c, s.Namespace)
		if err != nil || !holder.IsStream() {
			continue
		}
		count(at.Protocol(), at.Port(), c, holder.Name == s.Name && !isGivenAway(c, s))
	}
	for at, c := range listenedPorts(f, s.Namespace, class) {
		count(at.Protocol, at.Port, c, false)
	}
	return shares
}

// isGivenAway says whether a stream has a claim that another has yet to get.
func isGivenAway(c *v1beta1.EdgeClaim, s *v1beta1.StreamIngress) bool {
	heir := claim.HeirOf(c)
	return heir != (claim.Holder{}) && heir != claim.StreamHolder(s.Namespace, s.Name)
}

// inNamespace is who has a claim in a namespace, or is about to have it there.
func inNamespace(c *v1beta1.EdgeClaim, namespace string) claim.Holder {
	if holder := claim.HolderOf(c); holder.Namespace == namespace {
		return holder
	}
	return claim.HeirOf(c)
}

// listenedPorts are the ports that ListenerSets of a namespace have on the Gateway of a class, as far as that is guarded, with a claim on
// each.
func listenedPorts(f LimitFacts, namespace string, class *v1beta1.StreamIngressClass) map[PortKey]*v1beta1.EdgeClaim {
	ports := map[PortKey]*v1beta1.EdgeClaim{}
	ref := class.Spec.Gateway
	if ref == nil || ref.Namespace == namespace { // where nobody is a tenant
		return ports
	}
	for _, c := range f.ClaimsOfNamespace(namespace, claim.GatewayScope) {
		at, err := claim.Of(c)
		holder := claim.HolderOf(c)
		if err != nil || holder != claim.ListenerSetHolder(holder.Namespace, holder.Name) ||
			at.Gateway().Namespace != ref.Namespace || at.Gateway().Name != ref.Name {
			continue
		}
		key := PortKey{Protocol: v1beta1.TCP, Port: at.Port()}
		if at.Protocol() == v1beta1.UDP {
			key.Protocol = v1beta1.UDP
		}
		ports[key] = c
	}
	return ports
}

// spent are the places of the rules that give a stream no port any more.
func spent(shares map[int]portShare) []int {
	return slices.DeleteFunc(slices.Collect(maps.Keys(shares)), func(i int) bool { return !shares[i].Exceeded() })
}

// portLimit refuses a stream a port that it names, where the rule that gives it gives the namespace no more.
func portLimit(
	f Facts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, namespace labels.Set, at claim.Coordinate,
) refusal.Problems {
	shares := portShares(f, s, class, namespace)
	if len(shares) == 0 {
		return nil
	}
	rule := RulesFor(class, namespace).Giving(at.Protocol(), at.Port())
	of, limited := shares[rule]
	if c := f.Claim(at.Name()); limited && c != nil && claim.HolderOf(c) != claim.StreamHolder(s.Namespace, s.Name) &&
		inNamespace(c, s.Namespace).IsStream() {
		of.All-- // it can only be had by being handed over, and is no one more then
	}
	if !of.Exceeded() {
		return nil
	}
	text := limitText(f, s, class, rule, shares[rule])
	return refusal.One(v1beta1.ReasonNamespaceLimitReached, field.Invalid(listenPath, at.Port(), text+"; "+suggest(f, s, at)))
}

// automaticLimit refuses a stream any port of the autoAssign range, where the rule that gives the first free one gives the
// namespace no more.
func automaticLimit(
	f Facts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, namespace labels.Set, shares map[int]portShare,
) refusal.Problems {
	if len(shares) == 0 {
		return nil
	}
	free := Automatic(class, s.ProtocolOrDefault(), namespace)
	f.Unclaimed(free, class.Name, s.ProtocolOrDefault())
	rule := RulesFor(class, namespace).Giving(s.ProtocolOrDefault(), free.Next(1))
	if !shares[rule].Exceeded() {
		return nil
	}
	text := limitText(f, s, class, rule, shares[rule])
	return refusal.One(v1beta1.ReasonNamespaceLimitReached, field.Required(listenPath, text+", or name a port that another rule gives"))
}

// limitText says that a rule gives no more ports to the namespace of a stream, and what can be done.
func limitText(
	f LimitFacts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, rule int, of portShare,
) string {
	from, to := AllowedEnds(&class.Spec.Allow[rule])
	leaving := 0
	for _, c := range of.claims {
		if at, err := claim.Of(c); err == nil && isLeaving(f, claim.HolderOf(c), at) {
			leaving++
		}
	}
	return fmt.Sprintf("class %q gives at most %d port(s) of %d-%d to one namespace (spec.allow[%d].maxPerNamespace), "+
		"and namespace %q has %d%s", class.Name, of.Limit, from, to, rule, s.Namespace, of.All, refusal.WayOut(leaving, "a stream"))
}
