package stream

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// CheckClass decides what one class alone can get wrong beyond its schema.
func CheckClass(class *v1beta1.StreamIngressClass) refusal.Problems {
	_, problems := RequestedAddresses(class)
	for i, rule := range class.Spec.Allow {
		if rule.NamespaceSelector == nil {
			continue
		}
		if _, err := metav1.LabelSelectorAsSelector(rule.NamespaceSelector); err != nil {
			path := specPath.Child("allow").Index(i).Child("namespaceSelector")
			problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonInvalid, Err: field.Invalid(path, "", err.Error())})
		}
	}
	return problems
}

// ClassTargets decides whether another class writes to a ConfigMap or Service of this one. yields says to which other
// classes this one has to give way; nil stands for all.
func ClassTargets(
	f ClassFacts, class *v1beta1.StreamIngressClass, yields func(other *v1beta1.StreamIngressClass) bool,
) refusal.Problems {
	classes := f.Classes()
	var problems refusal.Problems
	for i := range classes {
		other := &classes[i]
		if other.Name == class.Name || yields != nil && !yields(other) {
			continue
		}
		theirs := targets(other)
		for _, t := range targets(class) {
			if slices.ContainsFunc(theirs, t.sameObject) {
				problems = append(problems, refusal.One(v1beta1.ReasonTargetConflict, refusal.Duplicate(specPath.Child(t.field), refText(&t.ref),
					fmt.Sprintf("held by StreamIngressClass %s; two classes can't share it, their ports would collide", other.Name)))...)
			}
		}
	}
	return problems
}

// NewTargets is a class with those targets only that it did not have before: what it has already is not judged again.
// before is nil for a new class.
func NewTargets(before, after *v1beta1.StreamIngressClass) *v1beta1.StreamIngressClass {
	if before == nil {
		return after
	}
	had := targets(before)
	added := func(kind string, ref *v1beta1.ObjectReference) *v1beta1.ObjectReference {
		if ref == nil || slices.ContainsFunc(had, target{kind: kind, ref: *ref}.sameObject) {
			return nil
		}
		return ref
	}
	next := after.DeepCopy()
	next.Spec.TCPConfigMap = added("ConfigMap", after.Spec.TCPConfigMap)
	next.Spec.UDPConfigMap = added("ConfigMap", after.Spec.UDPConfigMap)
	next.Spec.Service = added("Service", after.Spec.Service)
	next.Spec.Gateway = added("Gateway", after.Spec.Gateway)
	return next
}

// ClassChange decides whether a change of a class would take the door away from streams that are behind it. served is
// the number of streams that hold a port of the class.
func ClassChange(before, after *v1beta1.StreamIngressClass, served map[v1beta1.Protocol]int) refusal.Problems {
	var problems refusal.Problems
	keep := func(name string, was, is *v1beta1.ObjectReference, n int) {
		problems = append(problems, keeps(specPath.Child(name), refText(was), refText(is), n)...)
	}
	tcp, udp := served[v1beta1.TCP], served[v1beta1.UDP]
	keep("tcpConfigMap", before.Spec.TCPConfigMap, after.Spec.TCPConfigMap, tcp)
	keep("udpConfigMap", before.Spec.UDPConfigMap, after.Spec.UDPConfigMap, udp)
	keep("service", before.Spec.Service, after.Spec.Service, tcp+udp)
	keep("gateway", before.Spec.Gateway, after.Spec.Gateway, tcp+udp)
	return append(problems, poolChange(before, after, tcp+udp)...)
}

// keeps refuses a class another value of a field while it serves so many streams.
func keeps(path *field.Path, was, is string, served int) refusal.Problems {
	if served == 0 || was == is {
		return nil
	}
	return refusal.One(v1beta1.ReasonClassInUse, field.Forbidden(path, fmt.Sprintf(
		"can't be changed from %s to %s while the class serves %d stream(s): create another class and move them there, or delete them first",
		was, is, served)))
}

// target is an object that a class writes to, and the field that names it.
type target struct {
	kind, field string
	ref         v1beta1.ObjectReference
}

func (t target) sameObject(other target) bool { return t.kind == other.kind && t.ref == other.ref }

// targets are the objects that a class writes to.
func targets(class *v1beta1.StreamIngressClass) []target {
	var all []target
	add := func(kind, field string, ref *v1beta1.ObjectReference) {
		if ref != nil {
			all = append(all, target{kind: kind, field: field, ref: *ref})
		}
	}
	add("ConfigMap", "tcpConfigMap", class.Spec.TCPConfigMap)
	add("ConfigMap", "udpConfigMap", class.Spec.UDPConfigMap)
	add("Service", "service", class.Spec.Service)
	add("Gateway", "gateway", class.Spec.Gateway)
	return all
}

func refText(ref *v1beta1.ObjectReference) string {
	if ref == nil {
		return "none"
	}
	return ref.Namespace + "/" + ref.Name
}

// ClassConsent decides whether a change of upstreamNamespaces or outsideUpstreams would cut streams off from upstreams in
// other namespaces, or outside. streams are those of the class.
func ClassConsent(
	f UpstreamFacts, before, after *v1beta1.StreamIngressClass, streams []v1beta1.StreamIngress,
) refusal.Problems {
	if before.Spec.UpstreamNamespaces == after.Spec.UpstreamNamespaces && before.Spec.OutsideUpstreams == after.Spec.OutsideUpstreams {
		return nil
	}
	var inside, outside []string
	for i := range streams {
		s := &streams[i]
		if len(Consent(f, s, before)) > 0 {
			continue
		}
		name := s.Namespace + "/" + s.Name
		if len(enters(f, s, after)) > 0 {
			inside = append(inside, name)
		}
		if len(leaves(f, s, after)) > 0 {
			outside = append(outside, name)
		}
	}
	var problems refusal.Problems
	if len(inside) > 0 {
		problems = refusal.One(v1beta1.ReasonClassInUse, field.Forbidden(specPath.Child("upstreamNamespaces"), fmt.Sprintf(
			"can't be changed from %s to %s while %d stream(s) send their traffic to namespaces that have not consented, the first is %s: "+
				"have ReferenceGrants created there, or delete the streams first",
			before.Spec.UpstreamNamespaces, after.Spec.UpstreamNamespaces, len(inside), slices.Min(inside))))
	}
	if len(outside) > 0 {
		problems = append(problems, refusal.One(v1beta1.ReasonClassInUse, field.Forbidden(specPath.Child("outsideUpstreams"), fmt.Sprintf(
			"can't be changed to %s while %d stream(s) lead out of the cluster, the first is %s: delete them first",
			after.Spec.OutsideUpstreams, len(outside), slices.Min(outside))))...)
	}
	return problems
}
