package guard

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Facts are what the rules see of the cluster. What is not there is nil. Whoever answers for a cluster that can't be read answers with
// nothing, and drops what the rule makes of that.
type Facts interface {
	stream.LimitFacts
	Ledger
	// NamespaceLabels are the labels of a namespace.
	NamespaceLabels(name string) labels.Set
	// Unclaimed takes the ports of a class that have a claim out of a set.
	Unclaimed(ports *stream.PortSet, class string, protocol v1beta1.Protocol)
	// Listens says whether anybody is stored with a listener on a port of a Gateway.
	Listens(gateway types.NamespacedName, port stream.PortKey) bool
}

// Judge says what is wrong with what a request asks for anew, as far as is known without asking the API server.
func Judge(f Facts, r *Request, graceLeft func(*v1beta1.EdgeClaim) time.Duration) refusal.Problems {
	all := r.all()
	points := r.new(all)
	if len(points) > 0 && r.Deleting {
		return refusal.Problems{refusal.BeingDeleted(points[0].portPath())}
	}
	for _, class := range r.Classes {
		if problems := policy(f, r, class, points); len(problems) > 0 {
			return problems
		}
	}
	var found refusal.Problems
	for _, a := range points {
		if held := inTheWay(f, r, a.at); held != nil {
			found = append(found, conflict(f, r, a, held, graceLeft(held)))
		}
		if len(found) == mostProblems {
			break
		}
	}
	if len(found) > 0 {
		return found
	}
	return within(r, all, points)
}

// mostProblems is how many conflicts a refusal names: to find out more takes a time that a request could be made to have.
const mostProblems = 8

// Conflict says that a point is held, which was found out as it was claimed.
func Conflict(f Facts, r *Request, at claim.Coordinate, held *v1beta1.EdgeClaim, graceLeft time.Duration) refusal.Problems {
	points := r.new(r.all())
	i := max(slices.IndexFunc(points, func(a asked) bool { return a.at == at }), 0)
	return refusal.Problems{conflict(f, r, points[i], held, graceLeft)}
}

// Within finds listeners of one object that conflict with each other on its own Gateway.
func Within(o Opener) refusal.Problems {
	r := &Request{Opener: o}
	all := r.all()
	return within(r, all, all)
}

// within finds listeners of one object that conflict with each other: then none of them is served, or one at most.
func within(r *Request, all, points []asked) (problems refusal.Problems) {
	has := make(map[claim.Coordinate]int, len(all)) // how often each point, and that which stands for all host names at a port
	for _, a := range all {
		has[a.at]++
		if a.at.ListenerHost() != "" {
			has[hostsAt(a.at)]++
		}
	}
	for _, a := range points {
		if a.at.Gateway() != r.Of {
			continue
		}
		beside := has[a.at] - 1
		for _, other := range a.at.InTheWay() {
			beside += has[other]
		}
		if beside > 0 {
			problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonPortConflict, Err: refusal.Duplicate(a.path(a.at), value(a.at),
				"another listener of this object has it, too; at most one of them can be served")})
		}
	}
	return problems
}

// isBoundBy says whether the rules of a class hold for a request.
func (r *Request) isBoundBy(class *v1beta1.StreamIngressClass) bool {
	ref := class.Spec.Gateway
	return r.Kind == ListenerSet && r.Namespace != r.Of.Namespace && ref != nil && ref.Namespace == r.Of.Namespace && ref.Name == r.Of.Name
}

// policy is what a class that names the Gateway says of the ports of tenants: everybody's but those of the Gateway's own namespace.
func policy(f Facts, r *Request, class *v1beta1.StreamIngressClass, points []asked) refusal.Problems {
	if !r.isBoundBy(class) {
		return nil
	}
	has := f.NamespaceLabels(r.Namespace)
	var problems refusal.Problems
	for _, a := range points {
		at := port(a.at)
		if len(problems) == mostProblems {
			break
		}
		switch {
		case a.at.Gateway() != r.Of:
		case stream.Reserved(class, at.Port):
			problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonPortReserved, Err: field.Invalid(a.portPath(), at.Port,
				fmt.Sprintf("StreamIngressClass %q, which names the Gateway, reserves this port; %s", class.Name, suggest(f, r, at)))})
		case !stream.Allowed(class, at.Protocol, has, at.Port):
			problems = append(problems, refusal.Problem{Reason: v1beta1.ReasonPortNotAllowed, Err: field.Forbidden(a.portPath(),
				fmt.Sprintf("no allow rule of StreamIngressClass %q, which names the Gateway, gives port %s to namespace %q; %s",
					class.Name, at, r.Namespace, suggest(f, r, at)))})
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return limits(f, r, class, has, points)
}
