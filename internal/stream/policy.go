package stream

import (
	"cmp"
	"hash/fnv"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Ends are the first and the last port of a range, which may leave out the last.
func Ends(r v1beta1.PortRange) (from, to int32) {
	return r.From, cmp.Or(r.To, r.From)
}

// Reserved says whether the class keeps the port for itself.
func Reserved(class *v1beta1.StreamIngressClass, port int32) bool {
	return slices.ContainsFunc(class.Spec.Reserved, func(r v1beta1.PortRange) bool {
		from, to := Ends(r)
		return from <= port && port <= to
	})
}

// Rules are the allow rules of a class for one namespace, each at its place in the list; nil stands for those that are not
// for it.
type Rules []*v1beta1.PortAllowance

// RulesFor are the allow rules of a class for a namespace with these labels. A selector that can't be read selects
// nothing: admission refuses it, and if it was bypassed, nobody gets more than a readable rule gives.
func RulesFor(class *v1beta1.StreamIngressClass, namespace labels.Set) Rules {
	rules := make(Rules, len(class.Spec.Allow))
	for i := range class.Spec.Allow {
		rule := &class.Spec.Allow[i]
		if rule.NamespaceSelector != nil {
			selector, err := metav1.LabelSelectorAsSelector(rule.NamespaceSelector)
			if err != nil || !selector.Matches(namespace) {
				continue
			}
		}
		rules[i] = rule
	}
	return rules
}

// Giving is the place of the rule that gives a port, the first of several; -1 when none does.
func (r Rules) Giving(protocol v1beta1.Protocol, port int32) int {
	return slices.IndexFunc(r, func(rule *v1beta1.PortAllowance) bool {
		if rule == nil || !speaksOf(rule, protocol) {
			return false
		}
		from, to := AllowedEnds(rule)
		return from <= port && port <= to
	})
}

// Permitted is the set of ports that the class's policy gives to a namespace with these labels, whether they are free
// or not. The rules at the places spent give none, and no later rule gives one of theirs.
func Permitted(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, namespace labels.Set, spent ...int) *PortSet {
	ports := &PortSet{}
	if len(class.Spec.Allow) == 0 {
		ports.AddRange(1, maxPort)
	}
	for i, rule := range slices.Backward(RulesFor(class, namespace)) { // the first that gives a port has the last word
		switch {
		case rule == nil || !speaksOf(rule, protocol):
		case slices.Contains(spent, i):
			ports.RemoveRange(AllowedEnds(rule))
		default:
			ports.AddRange(AllowedEnds(rule))
		}
	}
	for _, r := range class.Spec.Reserved {
		ports.RemoveRange(Ends(r))
	}
	return ports
}

// Allowed says whether the class's allow rules give the port to a namespace with these labels.
func Allowed(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, namespace labels.Set, port int32) bool {
	return len(class.Spec.Allow) == 0 || RulesFor(class, namespace).Giving(protocol, port) >= 0
}

// Automatic is the set of ports that a stream without listen may get in a namespace with these labels, whether they
// are free or not. The rules at the places spent give none.
func Automatic(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, namespace labels.Set, spent ...int) *PortSet {
	if class.Spec.AutoAssign == nil {
		return &PortSet{}
	}
	ports := Permitted(class, protocol, namespace, spent...)
	from, to := Ends(*class.Spec.AutoAssign)
	ports.RemoveRange(1, from-1)
	ports.RemoveRange(min(to, maxPort)+1, maxPort)
	return ports
}

// MayAutoAssign says whether a stream without listen may get one of these permitted ports.
func MayAutoAssign(class *v1beta1.StreamIngressClass, permitted *PortSet) bool {
	if class.Spec.AutoAssign == nil {
		return false
	}
	from, to := Ends(*class.Spec.AutoAssign)
	port := permitted.Next(from)
	return port != 0 && port <= to
}

// PickPort picks a port of the set for a stream, 0 when the set is empty. The same stream is given the same port as long as it
// is free, so that a stream that is deleted and re-created most often gets its port back; different streams start at
// different places, so that they seldom race for one.
func PickPort(free *PortSet, namespace, name string) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(namespace + "/" + name))
	first := free.Next(1)
	if first == 0 {
		return 0
	}
	span := free.Previous(maxPort) - first + 1
	start := first + int32(h.Sum32()%uint32(span)) //nolint:gosec // span is 1 to 65535
	if port := free.Next(start); port != 0 {
		return port
	}
	return first
}

// AllowedEnds are the first and the last port that a rule gives.
func AllowedEnds(rule *v1beta1.PortAllowance) (from, to int32) {
	return cmp.Or(rule.From, 1), cmp.Or(rule.To, maxPort)
}

// speaksOf says whether a rule gives ports of a protocol.
func speaksOf(rule *v1beta1.PortAllowance, protocol v1beta1.Protocol) bool {
	return len(rule.Protocols) == 0 || slices.Contains(rule.Protocols, protocol)
}
