package guard

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/internal/stream"
)

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
