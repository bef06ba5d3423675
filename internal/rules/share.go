package rules

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// share is what there is of something that only so much may be had of, in points: by an object that is judged, and by the
// others that share the limit with it.
type share struct {
	// limit is how many all of them may have, 0 for any number, and all how many they have.
	limit, all int
	// own is how many of these the object has; wanted is how many it is to have, and added how many of those are new to it.
	own, wanted, added int
}

// exceeded says whether the object may not have what is new to it. A point for a point that it leaves is not one more: that
// much is nobody's loss, even where there is more than the limit by now. What an object holds beyond what it is to have
// counts until it is released.
func (s share) exceeded() bool {
	moved := min(max(s.own-s.wanted+s.added, 0), s.added)
	if s.limit == 0 || s.added == 0 || s.added == moved && s.own <= s.wanted {
		return false
	}
	return s.all+s.added-moved > s.limit
}

// portShare is what the streams of a namespace have of an allow rule that gives it a limited number of ports, as one of
// them asks for one port.
type portShare struct {
	share
	// claims are those on the ports.
	claims []*v1beta1.EdgeClaim
}

// portShares are those of all rules of a class that are limited, by the place of the rule.
func portShares(
	ctx context.Context, v View, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, namespace labels.Set,
) (map[int]portShare, error) {
	if !slices.ContainsFunc(class.Spec.Allow, func(rule v1beta1.PortAllowance) bool { return rule.MaxPerNamespace > 0 }) {
		return nil, nil
	}
	rules, shares := stream.RulesFor(class, namespace), map[int]portShare{}
	for i, rule := range rules {
		if rule != nil && rule.MaxPerNamespace > 0 {
			shares[i] = portShare{share: share{limit: int(rule.MaxPerNamespace), wanted: 1, added: 1}}
		}
	}
	if len(shares) == 0 {
		return nil, nil
	}
	claims, err := v.ClaimsOfNamespace(ctx, s.Namespace, claim.StreamScope(class.Name))
	for _, c := range claims {
		at, err := claim.Of(c)
		holder := claim.HolderOf(c)
		if err != nil || !holder.IsStream() {
			continue
		}
		i := rules.Giving(at.Protocol(), at.Port())
		if of, limited := shares[i]; limited {
			of.claims = append(of.claims, c)
			of.all++
			if holder.Name == s.Name {
				of.own++
			}
			shares[i] = of
		}
	}
	return shares, err
}

// spent are the places of the rules that give a stream no port any more.
func spent(shares map[int]portShare) []int {
	return slices.DeleteFunc(slices.Collect(maps.Keys(shares)), func(i int) bool { return !shares[i].exceeded() })
}

// portLimit refuses a stream a port that it names, where the rule that gives it gives the namespace no more.
func portLimit(
	ctx context.Context, v View, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, namespace labels.Set, at claim.Coordinate,
) (Problems, error) {
	shares, err := portShares(ctx, v, s, class, namespace)
	if err != nil || len(shares) == 0 {
		return nil, err
	}
	rule := stream.RulesFor(class, namespace).Giving(at.Protocol(), at.Port())
	if !shares[rule].exceeded() {
		return nil, nil
	}
	text, err := limitText(ctx, v, s, class, rule, shares[rule])
	if err != nil {
		return nil, err
	}
	suggestion, err := suggest(ctx, v, s, at)
	return one(v1beta1.ReasonNamespaceLimitReached, field.Invalid(listenPath, at.Port(), text+"; "+suggestion)), err
}

// drawLimit refuses a stream any port of the autoAssign range, where the rule that gives the first free one gives the
// namespace no more.
func drawLimit(
	ctx context.Context, v View, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, namespace labels.Set, shares map[int]portShare,
) (Problems, error) {
	if len(shares) == 0 {
		return nil, nil
	}
	free := stream.Automatic(class, s.ProtocolOrDefault(), namespace)
	v.Unclaimed(free, class.Name, s.ProtocolOrDefault())
	rule := stream.RulesFor(class, namespace).Giving(s.ProtocolOrDefault(), free.Next(1))
	if !shares[rule].exceeded() {
		return nil, nil
	}
	text, err := limitText(ctx, v, s, class, rule, shares[rule])
	return one(v1beta1.ReasonNamespaceLimitReached, field.Required(listenPath, text+", or name a port that another rule gives")), err
}

// limitText says that a rule gives no more ports to the namespace of a stream, and what can be done.
func limitText(
	ctx context.Context, v View, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass, rule int, of portShare,
) (string, error) {
	from, to := stream.AllowedEnds(&class.Spec.Allow[rule])
	leaving := 0
	for _, c := range of.claims {
		at, err := claim.Of(c)
		if err != nil {
			continue
		}
		leaves, err := isLeaving(ctx, v, claim.HolderOf(c), at)
		if err != nil {
			return "", err
		}
		if leaves {
			leaving++
		}
	}
	return fmt.Sprintf("class %q gives at most %d port(s) of %d-%d to one namespace (spec.allow[%d].maxPerNamespace), "+
		"and namespace %q has %d%s", class.Name, of.limit, from, to, rule, s.Namespace, of.all, wayOut(leaving, "a stream")), nil
}

// wayOut says what who has reached a limit can do. leaving is how many points are about to be free.
func wayOut(leaving int, what string) string {
	if leaving > 0 {
		return fmt.Sprintf(", of which %d will be free again soon: try again then, or delete %s", leaving, what)
	}
	return ": delete " + what
}
