package guard

import (
	"fmt"
	"slices"
	"strings"
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
	// NamespaceLabels are the labels of a namespace.
	NamespaceLabels(name string) labels.Set
	// Claim is the claim of a name.
	Claim(name string) *v1beta1.EdgeClaim
	// HostClaims are the claims on host names at a port of a Gateway.
	HostClaims(hosts claim.Coordinate) []*v1beta1.EdgeClaim
	// Standing are those that are stored with a listener at a point of a Gateway, or of one that has an address in common with it; or, where
	// that stands for all that share a port by host name, with any there.
	Standing(at claim.Coordinate) []Opener
	// Unclaimed takes the ports of a class that have a claim out of a set.
	Unclaimed(ports *stream.PortSet, class string, protocol v1beta1.Protocol)
	// Listens says whether anybody is stored with a listener on a port of a Gateway.
	Listens(gateway types.NamespacedName, port stream.PortKey) bool
}

// Request is what an object with listeners asks for.
type Request struct {
	Opener
	// Before are the listeners that it has been stored with on the same Gateway.
	Before []Listener
	// Deleting says that it is being deleted.
	Deleting bool
	// Scopes are the Gateways on which it has to be alone, and Classes those whose streams are there.
	Scopes  []types.NamespacedName
	Classes []*v1beta1.StreamIngressClass
}

// asked is a listener that is new, with a point that it asks for.
type asked struct {
	Listener
	at claim.Coordinate
}

// all are the points that a request asks for on its own Gateway.
func (r *Request) all() (points []asked) {
	points = make([]asked, 0, len(r.Listeners))
	for _, l := range r.Listeners {
		for _, at := range l.Points(r.Of) {
			points = append(points, asked{l, at})
		}
	}
	return points
}

// new are those of all points of a request that it asks for anew, on every Gateway where it has to be alone. A listener that merely has
// another name, or place, is not new.
func (r *Request) new(all []asked) (points []asked) {
	had := map[claim.Coordinate]bool{}
	for _, l := range r.Before {
		for _, at := range l.Points(r.Of) {
			had[at] = true
		}
	}
	points = make([]asked, 0, len(all)*len(r.Scopes))
	for _, a := range all {
		if had[a.at] {
			continue
		}
		for _, scope := range r.Scopes {
			points = append(points, asked{a.Listener, On(scope, a.at)})
		}
	}
	return points
}

// On is the same point of a Gateway as one of another.
func On(gateway types.NamespacedName, at claim.Coordinate) claim.Coordinate {
	switch host := at.ListenerHost(); {
	case at.Gateway() == gateway:
		return at
	case host != "":
		return claim.HostListener(gateway, at.Protocol(), at.Port(), host)
	default:
		return claim.Listener(gateway, at.Protocol(), at.Port())
	}
}

// Points are those that a request asks for anew.
func (r *Request) Points() []claim.Coordinate {
	var points []claim.Coordinate
	for _, a := range r.new(r.all()) {
		points = append(points, a.at)
	}
	return points
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

// within finds listeners of one object that conflict with each other: then none of them is served, or one at most.
func within(r *Request, all, points []asked) (problems refusal.Problems) {
	has := make(map[claim.Coordinate]int, len(all))  // how often each point
	whole, names := map[int32]int{}, map[int32]int{} // how often each port of TCP, as a whole and by name
	for _, a := range all {
		has[a.at]++
		switch {
		case a.at.ListenerHost() != "":
			names[a.at.Port()]++
		case a.at.Protocol() == v1beta1.TCP:
			whole[a.at.Port()]++
		}
	}
	for _, a := range points {
		if a.at.Gateway() != r.Of {
			continue
		}
		beside := has[a.at] - 1
		switch {
		case a.at.ListenerHost() != "":
			beside += whole[a.at.Port()]
		case a.at.Protocol() == v1beta1.TCP:
			beside += names[a.at.Port()]
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

// inTheWay is the claim, or what stands without one, that keeps a request from a point; nil for none.
func inTheWay(f Facts, r *Request, at claim.Coordinate) *v1beta1.EdgeClaim {
	stays := func(*v1beta1.EdgeClaim) bool { return false }
	if held := heldAt(f, r.Holder, at, stays); held != nil {
		return held
	}
	if held := heldByStream(f, r.Classes, at); held != nil {
		return held
	}
	for _, o := range f.Standing(at) {
		if o.Holder != r.Holder {
			return claim.New(at, o.Claimant)
		}
	}
	for _, other := range at.InTheWay() {
		for _, o := range f.Standing(other) {
			if o.Holder != r.Holder {
				return claim.New(other, o.Claimant)
			}
		}
	}
	return nil
}

// heldByStream is the claim of a stream on a port of a Gateway, nil for none.
func heldByStream(f interface {
	Claim(name string) *v1beta1.EdgeClaim
}, classes []*v1beta1.StreamIngressClass, at claim.Coordinate) *v1beta1.EdgeClaim {
	for _, point := range Streams(classes, at) {
		if held := f.Claim(point.Name()); held != nil && claim.HolderOf(held).IsStream() {
			return held
		}
	}
	return nil
}

// Streams are the points of classes that a listener can't be beside.
func Streams(classes []*v1beta1.StreamIngressClass, at claim.Coordinate) (points []claim.Coordinate) {
	for _, class := range classes {
		on := port(at)
		points = append(points, claim.Stream(class.Name, on.Protocol, on.Port))
	}
	return points
}

// heldAt is a claim of somebody else on a point, or on what it can't be beside; nil for none. Of several, one that is not leaving.
func heldAt(f interface {
	Claim(name string) *v1beta1.EdgeClaim
	HostClaims(hosts claim.Coordinate) []*v1beta1.EdgeClaim
}, but claim.Holder, at claim.Coordinate, isLeaving func(*v1beta1.EdgeClaim) bool) *v1beta1.EdgeClaim {
	if held := f.Claim(at.Name()); held != nil && claim.HolderOf(held) != but {
		return held
	}
	for _, other := range at.InTheWay() {
		if !other.IsHosts() {
			if held := f.Claim(other.Name()); held != nil && claim.HolderOf(held) != but {
				return held
			}
			continue
		}
		// Whether the claim is there that stands for them does not matter here: who claims one may end before that is made.
		if held := firstHost(f.HostClaims(other), but, isLeaving); held != nil {
			return held
		}
	}
	return nil
}

// firstHost is the one of some claims that is not of a holder, the first by name of those that stay, or of all; nil for none.
func firstHost(claims []*v1beta1.EdgeClaim, but claim.Holder, isLeaving func(*v1beta1.EdgeClaim) bool) (first *v1beta1.EdgeClaim) {
	leaves := false
	for _, held := range claims {
		if claim.HolderOf(held) == but || first != nil && !leaves && held.Name > first.Name {
			continue
		}
		if is := isLeaving(held); first == nil || leaves && !is || leaves == is && held.Name < first.Name {
			first, leaves = held, is
		}
	}
	return first
}

// value is a point as users write it.
func value(at claim.Coordinate) string {
	if host := at.ListenerHost(); host != "" && host != claim.AllHosts {
		return host
	}
	return port(at).String()
}

// conflict says who has what a listener asks for.
func conflict(f Facts, r *Request, a asked, held *v1beta1.EdgeClaim, graceLeft time.Duration) refusal.Problem {
	on, err := claim.Of(held)
	if err != nil {
		on = a.at
	}
	leaving := isLeaving(f, held, on)
	text := refusal.Held(held, leaving, graceLeft)
	switch {
	case leaving:
	case on.IsStream():
		text += fmt.Sprintf(", of StreamIngressClass %q", on.Class())
	case on.ListenerHost() == claim.AllHosts && on == a.at:
		text += " for all host names that no other listener has"
	case on.ListenerHost() != "" && on != a.at:
		text += fmt.Sprintf(", which shares the port by host name (it has %s)", on.Point())
	}
	text += fmt.Sprintf(", on port %s of Gateway %s", port(a.at), a.at.Gateway())
	if a.at.Gateway() != r.Of {
		text += ", which has an address in common with " + r.Of.String()
	}
	path, what := a.portPath(), port(a.at).String()
	if on == a.at {
		path, what = a.path(on), value(on)
	}
	text += "; " + suggest(f, r, port(a.at))
	if len(r.Before) > 0 {
		text += "; for two to change places, one of them first moves to a free port"
	}
	return refusal.Problem{Reason: v1beta1.ReasonPortConflict, Err: refusal.Duplicate(path, what, text)}
}

// isLeaving says whether the holder of a claim is not stored with it, or not any longer.
func isLeaving(f Facts, held *v1beta1.EdgeClaim, on claim.Coordinate) bool {
	if held.CreationTimestamp.IsZero() || !on.IsListener() {
		return false
	}
	return !slices.ContainsFunc(f.Standing(on), func(o Opener) bool { return o.Holder == claim.HolderOf(held) })
}

// suggestions is how many free ports a refusal names.
const suggestions = 3

// suggest names the free ports next to one that the namespace may use.
func suggest(f Facts, r *Request, at stream.PortKey) string {
	free := &stream.PortSet{}
	free.AddRange(1, maxPort)
	for _, class := range r.Classes {
		if r.isBoundBy(class) {
			others := &stream.PortSet{}
			others.AddRange(1, maxPort)
			others.Subtract(stream.Permitted(class, at.Protocol, f.NamespaceLabels(r.Namespace)))
			free.Subtract(others)
		}
	}
	for _, class := range r.Classes {
		f.Unclaimed(free, class.Name, at.Protocol)
	}
	free.Remove(at.Port)
	for _, l := range r.Listeners { // what it asks for itself is not free for another listener of it
		for _, has := range l.Points(r.Of) {
			if port(has).Protocol == at.Protocol {
				free.Remove(has.Port())
			}
		}
	}
	nearest, all := unlistened(f, r, free, at)
	if len(nearest) == 0 && !all {
		return "many ports around it have listeners: take one that is farther away"
	}
	if len(nearest) == 0 {
		return fmt.Sprintf("no port of this Gateway is free for namespace %q", r.Namespace)
	}
	numbers := make([]string, len(nearest))
	for i, n := range nearest {
		numbers[i] = stream.Key(n)
	}
	return fmt.Sprintf("free for namespace %q nearby: %s", r.Namespace, strings.Join(numbers, ", "))
}

// unlistened are the ports of a set next to one that have no listener. Those that have are taken out of it. It gives up where many around
// have: tenants can listen on as many as they like, and whoever is refused is not to wait for that.
func unlistened(f Facts, r *Request, of *stream.PortSet, at stream.PortKey) (free []int32, all bool) {
	for range mostLooks {
		nearest := of.Nearest(at.Port, suggestions)
		free = slices.DeleteFunc(slices.Clone(nearest), func(port int32) bool {
			return slices.ContainsFunc(r.Scopes, func(scope types.NamespacedName) bool {
				return f.Listens(scope, stream.PortKey{Protocol: at.Protocol, Port: port})
			})
		})
		if len(free) == len(nearest) {
			return free, true
		}
		for _, port := range nearest {
			if !slices.Contains(free, port) {
				of.Remove(port)
			}
		}
	}
	return free, false
}

// mostLooks is how often the nearest free ports are looked for.
const mostLooks = 8

const maxPort = 65535
