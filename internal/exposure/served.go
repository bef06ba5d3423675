package exposure

import (
	"iter"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// MostEntries is how many points the ledger has of one Ingress at most. An object has room for some 100,000 hosts, and each
// claim takes several times the memory of its host, on each replica and in etcd.
const MostEntries = 1024

// Served are the hosts and paths that an Ingress lists, as the ledger writes them, each with the type of its path, in the order of the
// list. A rule for all hosts has an empty one. The Ingress is not packed.
func Served(ing *networkingv1.Ingress) iter.Seq2[string, Path] {
	return func(yield func(host string, path Path) bool) {
		for i := range ing.Spec.Rules {
			r := &ing.Spec.Rules[i]
			paths := []networkingv1.HTTPIngressPath{{}} // all of the host, as a path that is left empty is
			if r.HTTP != nil {
				paths = r.HTTP.Paths
			}
			for j := range paths {
				p := pathOf(&paths[j])
				if !yield(r.Host, Path{Type: p.Type, Value: p.point()}) {
					return
				}
			}
		}
	}
}

func pathOf(listed *networkingv1.HTTPIngressPath) Path {
	return Path{Type: ptr.Deref(listed.PathType, networkingv1.PathTypePrefix), Value: listed.Path}
}

// PointsOf are the points of the edge that an Ingress serves, in ascending order and without repetition. What no
// annotation could ask for is no point: rules for all hosts, and paths that are longer than the ledger keeps.
func PointsOf(ing *networkingv1.Ingress) []claim.Coordinate {
	var points []claim.Coordinate
	class := ClassOf(ing)
	for host, path := range Served(ing) {
		if at := claim.HTTP(host, path.Value); !at.IsZero() {
			points = append(points, at.ServedBy(class))
		}
	}
	slices.SortFunc(points, claim.Compare)
	return slices.Compact(points)
}

// EntriesOf are the points under which the ledger has what an Ingress serves, in ascending order and without repetition:
// those that it serves, or, if it lists more than most paths, its hosts, or, if those are more than MostEntries, none. With
// most 0 no number up to MostEntries is too many.
func EntriesOf(ing *networkingv1.Ingress, most int) []claim.Coordinate {
	if most == 0 || most > MostEntries {
		most = MostEntries
	}
	if !listsMore(ing, most) {
		return PointsOf(ing)
	}
	if HasManyHosts(ing) {
		return nil
	}
	var entries []claim.Coordinate
	class := ClassOf(ing)
	for _, host := range hostsOf(ing) {
		if at := claim.Host(host); !at.IsZero() {
			entries = append(entries, at.ServedBy(class))
		}
	}
	return entries
}

// HasManyHosts says whether an Ingress has more hosts than the ledger enters: it has no claim, whatever it serves.
func HasManyHosts(ing *networkingv1.Ingress) bool {
	if isPacked(ing) {
		return len(ing.Spec.Rules) == 1
	}
	return len(hostsOf(ing)) > MostEntries
}

// listsMore says whether an Ingress lists more than so many paths, at most MostEntries.
func listsMore(ing *networkingv1.Ingress, most int) bool {
	if isPacked(ing) {
		return true
	}
	n := 0
	for range Served(ing) {
		n++
		if n > most {
			return true
		}
	}
	return false
}

// hostsOf are the hosts of an Ingress, in ascending order and without repetition. If it is packed and has many, none are left.
func hostsOf(ing *networkingv1.Ingress) []string {
	var hosts []string
	for i := range ing.Spec.Rules {
		if host := ing.Spec.Rules[i].Host; !strings.HasPrefix(host, mark) {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// Serves says whether an Ingress serves a point: a path, or anything on a host, for the class that the point is of.
func Serves(ing *networkingv1.Ingress, at claim.Coordinate) bool {
	if ClassOf(ing) != at.IngressClass() {
		return false
	}
	if isPacked(ing) {
		return packedServes(ing, at)
	}
	for host, path := range Served(ing) {
		if host == at.Host() && (path.Value == at.Path() || at.IsHost()) {
			return true
		}
	}
	return false
}
