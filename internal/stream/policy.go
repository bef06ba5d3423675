package stream

import (
	"hash/fnv"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Ends are the first and the last port of a range, which may leave out the last.
func Ends(r v1beta1.PortRange) (from, to int32) {
	if r.To == 0 {
		return r.From, r.From
	}
	return r.From, r.To
}

// Reserved says whether the class keeps the port for itself.
func Reserved(class *v1beta1.StreamIngressClass, port int32) bool {
	return slices.ContainsFunc(class.Spec.Reserved, func(r v1beta1.PortRange) bool {
		from, to := Ends(r)
		return from <= port && port <= to
	})
}

// Permitted is the set of ports that the class's policy gives to a namespace with these labels, whether they are free
// or not.
func Permitted(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, namespace labels.Set) *PortSet {
	ports := &PortSet{}
	if len(class.Spec.Allow) == 0 {
		ports.AddRange(1, maxPort)
	}
	for i := range class.Spec.Allow {
		rule := &class.Spec.Allow[i]
		if applies(rule, protocol, namespace) {
			ports.AddRange(allowedEnds(rule))
		}
	}
	for _, r := range class.Spec.Reserved {
		ports.RemoveRange(Ends(r))
	}
	return ports
}

// Allowed says whether the class's allow rules give the port to a namespace with these labels.
func Allowed(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, namespace labels.Set, port int32) bool {
	if len(class.Spec.Allow) == 0 {
		return true
	}
	return slices.ContainsFunc(class.Spec.Allow, func(rule v1beta1.PortAllowance) bool {
		from, to := allowedEnds(&rule)
		return from <= port && port <= to && applies(&rule, protocol, namespace)
	})
}

// Automatic is the set of ports that a stream without listen may get in a namespace with these labels, whether they
// are free or not.
func Automatic(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, namespace labels.Set) *PortSet {
	if class.Spec.AutoAssign == nil {
		return &PortSet{}
	}
	ports := Permitted(class, protocol, namespace)
	from, to := Ends(*class.Spec.AutoAssign)
	ports.RemoveRange(1, from-1)
	ports.RemoveRange(min(to, maxPort)+1, maxPort)
	return ports
}

// Drawable says whether a stream without listen may get one of these permitted ports.
func Drawable(class *v1beta1.StreamIngressClass, permitted *PortSet) bool {
	if class.Spec.AutoAssign == nil {
		return false
	}
	from, to := Ends(*class.Spec.AutoAssign)
	port := permitted.Next(from)
	return port != 0 && port <= to
}

// Draw picks a port of the set for a stream, 0 when the set is empty. The same stream draws the same port as long as it
// is free, so that a stream that is deleted and re-created most often gets its port back; different streams start at
// different places, so that they seldom race for one.
func Draw(free *PortSet, namespace, name string) int32 {
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

func allowedEnds(rule *v1beta1.PortAllowance) (from, to int32) {
	from, to = rule.From, rule.To
	if from == 0 {
		from = 1
	}
	if to == 0 {
		to = maxPort
	}
	return from, to
}

// applies says whether a rule speaks about a protocol and a namespace. A selector that can't be read selects nothing:
// admission refuses it, and if it was bypassed, nobody gets more than a readable rule gives.
func applies(rule *v1beta1.PortAllowance, protocol v1beta1.Protocol, namespace labels.Set) bool {
	if len(rule.Protocols) > 0 && !slices.Contains(rule.Protocols, protocol) {
		return false
	}
	if rule.NamespaceSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(rule.NamespaceSelector)
	return err == nil && selector.Matches(namespace)
}
