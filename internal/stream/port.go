package stream

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

var (
	specPath   = field.NewPath("spec")
	classPath  = specPath.Child("className")
	listenPath = specPath.Child("listen")
)

// ClassOf finds the class of a stream: the one it names; else the one that serves it already, so that a new default
// class moves no port; else the default class.
func ClassOf(f Facts, s *v1beta1.StreamIngress) (*v1beta1.StreamIngressClass, refusal.Problems) {
	name := cmp.Or(s.Spec.ClassName, s.Status.ClassName)
	if name == "" {
		if held := f.Held(claim.StreamHolder(s.Namespace, s.Name)); len(held) > 0 {
			name = held[0].Class()
		}
	}
	if name == "" {
		return defaultClass(f)
	}
	if class := f.Class(name); class != nil {
		return class, nil
	}
	return nil, refusal.One(v1beta1.ReasonClassNotFound, refusal.Detailed(field.NotFound(classPath, name),
		"there is no StreamIngressClass of this name; "+classNames(f)))
}

func defaultClass(f ClassFacts) (*v1beta1.StreamIngressClass, refusal.Problems) {
	classes := f.Classes()
	var found []*v1beta1.StreamIngressClass
	var names []string
	for i := range classes {
		if classes[i].IsDefault() {
			found = append(found, &classes[i])
			names = append(names, classes[i].Name)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, refusal.One(v1beta1.ReasonClassNotFound, field.Required(classPath,
			"no class is named, and no StreamIngressClass is annotated "+v1beta1.AnnotationDefaultClass+`: "true"; `+classNames(f)))
	default:
		return nil, refusal.One(v1beta1.ReasonClassAmbiguous, field.Required(classPath,
			"no class is named, and several are marked as default: name one of "+strings.Join(names, ", ")))
	}
}

func classNames(f ClassFacts) string {
	classes := f.Classes()
	if len(classes) == 0 {
		return "there are no classes yet"
	}
	names := make([]string, 0, len(classes))
	for i := range classes {
		names = append(names, classes[i].Name)
	}
	return "name one of " + strings.Join(names, ", ")
}

// Wanted is the point that a stream asks for in its class, given the points that it holds. A stream without listen
// wants the port that it has; it is the zero Coordinate when it has none yet.
func Wanted(s *v1beta1.StreamIngress, class string, held []claim.Coordinate) claim.Coordinate {
	if s.Spec.Listen != nil {
		return claim.Stream(class, s.ProtocolOrDefault(), *s.Spec.Listen)
	}
	var first claim.Coordinate
	for _, at := range held {
		if at.Class() != class || at.Protocol() != s.ProtocolOrDefault() {
			continue
		}
		if at.Port() == s.Status.Listen {
			return at
		}
		if first.IsZero() || claim.Compare(at, first) < 0 {
			first = at
		}
	}
	return first
}

// Request is what a stream asks of a class.
type Request struct {
	Class *v1beta1.StreamIngressClass
	// At is the point that it wants, zero when a port is to be auto-assigned.
	At claim.Coordinate
	// Free are, when a port is to be auto-assigned, those to choose from.
	Free *PortSet
	// Front is where the port has to be free, too; nil for nowhere.
	Front *Front
}

// PortFor decides whether the policy of the class gives a stream the port it asks for. It says nothing about who holds the
// port: that is for the ledger to say. It is for streams that do not hold the port yet; one that does is never judged
// again.
func PortFor(f Facts, s *v1beta1.StreamIngress, class *v1beta1.StreamIngressClass) (Request, refusal.Problems) {
	protocol := s.ProtocolOrDefault()
	req := Request{Class: class}
	if !class.Serves(protocol) {
		return req, refusal.One(v1beta1.ReasonProtocolNotSupported, field.Invalid(specPath.Child("protocol"), protocol,
			fmt.Sprintf("class %q has no %s ports: its %sConfigMap is not set", class.Name, protocol, strings.ToLower(string(protocol)))))
	}
	held := f.Held(claim.StreamHolder(s.Namespace, s.Name))
	req.Front = FrontOf(f, class)
	req.At = Wanted(s, class.Name, held)
	has := slices.Contains(held, req.At)
	if s.DeletionTimestamp != nil && !has {
		return req, refusal.Problems{refusal.BeingDeleted(listenPath)}
	}
	if s.Spec.Listen == nil {
		if !req.At.IsZero() {
			return req, nil
		}
		return automatic(f, s, req)
	}
	if problems := roomFor(class); len(problems) > 0 && !has {
		return req, problems
	}
	port := *s.Spec.Listen
	if Reserved(class, port) {
		return req, refusal.One(v1beta1.ReasonPortReserved, field.Invalid(listenPath, port,
			fmt.Sprintf("class %q reserves this port for itself; %s", class.Name, suggest(f, s, req.At))))
	}
	namespace := f.NamespaceLabels(s.Namespace)
	if !Allowed(class, protocol, namespace, port) {
		return req, refusal.One(v1beta1.ReasonPortNotAllowed, field.Invalid(listenPath, port,
			fmt.Sprintf("class %q does not give %s/%d to namespace %q; %s", class.Name, protocol, port, s.Namespace, suggest(f, s, req.At))))
	}
	if !has {
		if problems := portLimit(f, s, class, namespace, req.At); len(problems) > 0 {
			return req, problems
		}
	}
	problems := req.Front.Conflicts(f, req.At)
	if len(problems) > 0 {
		problems[0].Err.Detail += "; " + suggest(f, s, req.At)
	}
	return req, problems
}

// roomFor says whether a class can have one more stream. What it last saw of the cluster is in its status.
func roomFor(class *v1beta1.StreamIngressClass) refusal.Problems {
	programmed := meta.FindStatusCondition(class.Status.Conditions, v1beta1.ConditionProgrammed)
	if class.Spec.AddressPool == nil || programmed == nil || exhausted[programmed.Reason] == "" {
		return nil
	}
	return refusal.One(programmed.Reason, field.Invalid(classPath, class.Name, exhausted[programmed.Reason]))
}

// exhausted says, by the reason of the condition, what the cluster has none left of.
var exhausted = map[string]string{
	v1beta1.ReasonClusterIPsExhausted: "each stream of the class takes a cluster IP, and the cluster has none left: delete Services, or " +
		"have a ServiceCIDR added",
	v1beta1.ReasonNodePortsExhausted: "each stream of the class takes a node port for its health check (externalTrafficPolicy: Local), and " +
		"the cluster has none left: delete Services that have some, or use another class",
}

// automatic finds the ports of which a stream without listen may be assigned one.
func automatic(f Facts, s *v1beta1.StreamIngress, req Request) (Request, refusal.Problems) {
	class := req.Class
	if problems := roomFor(class); len(problems) > 0 {
		return req, problems
	}
	if class.Spec.AutoAssign == nil {
		return req, refusal.One(v1beta1.ReasonAutoAssignDisabled, field.Required(listenPath,
			fmt.Sprintf("class %q has no autoAssign range to draw a port from, so the port must be named", class.Name)))
	}
	namespace := f.NamespaceLabels(s.Namespace)
	shares := portShares(f, s, class, namespace)
	req.Free = Automatic(class, s.ProtocolOrDefault(), namespace, spent(shares)...)
	f.Unclaimed(req.Free, class.Name, s.ProtocolOrDefault())
	req.Front.Free(f, s.ProtocolOrDefault(), req.Free)
	if req.Free.Next(1) != 0 {
		return req, nil
	}
	if problems := automaticLimit(f, s, class, namespace, shares); len(problems) > 0 {
		return req, problems
	}
	return req, NoFreePort(s, class)
}

// Moves says whether a change of a stream can move it to another point.
func Moves(before, after *v1beta1.StreamIngress) bool {
	return before.Spec.ClassName != after.Spec.ClassName ||
		before.ProtocolOrDefault() != after.ProtocolOrDefault() ||
		!ptr.Equal(before.Spec.Listen, after.Spec.Listen)
}

// Redirects says whether a change of a stream sends its traffic elsewhere.
func Redirects(before, after *v1beta1.StreamIngress) bool {
	return before.UpstreamNamespace() != after.UpstreamNamespace() ||
		before.UpstreamService() != after.UpstreamService() ||
		before.Spec.Upstream.Port != after.Spec.Upstream.Port ||
		before.Outside() != after.Outside() ||
		after.Outside() && before.Spec.Upstream.Host != after.Spec.Upstream.Host
}

// AsksProxyProtocol says whether a stream asks for the PROXY protocol otherwise than it did before; before is nil for a new one.
func AsksProxyProtocol(before, after *v1beta1.StreamIngress) bool {
	asked := speaksProxy(after)
	return asked && (before == nil || !speaksProxy(before))
}

func speaksProxy(s *v1beta1.StreamIngress) bool {
	pp := s.Spec.ProxyProtocol
	return pp != nil && (pp.Accept || pp.Send) && s.ProtocolOrDefault() == v1beta1.TCP
}
