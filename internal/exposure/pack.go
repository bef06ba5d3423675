package exposure

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sort"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// mark begins the first host of an Ingress that is packed: digests of all that it serves follow, in ascending order. No
// API server stores such a host.
const mark = "\x00"

// digestLength is how many bytes a digest has.
const digestLength = 8

// seed keeps anybody from finding two points of one digest: one would be taken for the other.
var seed = maphash.MakeSeed()

// Pack makes an Ingress small, however large a tenant has made it, and changes nothing of what Serves, EntriesOf and
// HasManyHosts say of it. Of one that lists more than MostEntries paths it leaves digests of them, and the hosts if they are not
// more either; of others all but paths that are too long for a point. What it changes no annotation asks for, before and after.
// packed says that it has left only digests and hosts, now or before.
func Pack(ing *networkingv1.Ingress) (packed bool) {
	switch {
	case isPacked(ing):
		return true
	case listsMore(ing, MostEntries):
		leaveDigests(ing)
		return true
	}
	dropLongPaths(ing)
	return false
}

func isPacked(ing *networkingv1.Ingress) bool {
	return len(ing.Spec.Rules) > 0 && strings.HasPrefix(ing.Spec.Rules[0].Host, mark)
}

func leaveDigests(ing *networkingv1.Ingress) {
	var digests []uint64
	for host, path := range Served(ing) {
		digests = append(digests, digest(host, path.Value), digest(host, ""))
	}
	slices.Sort(digests)
	digests = slices.Compact(digests)
	var text strings.Builder
	text.Grow(len(mark) + len(digests)*digestLength)
	text.WriteString(mark)
	for _, d := range digests {
		text.Write(binary.BigEndian.AppendUint64(nil, d))
	}
	rules := []networkingv1.IngressRule{withoutPaths(text.String())}
	if hosts := hostsOf(ing); len(hosts) <= MostEntries {
		for _, host := range hosts {
			rules = append(rules, withoutPaths(strings.Clone(host)))
		}
	}
	ing.Spec.Rules = rules
}

func withoutPaths(host string) networkingv1.IngressRule {
	return networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{}}}
}

// digest of a path, or, with the path "", of anything on a host.
func digest(host, path string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(host) // never fails
	_, _ = h.WriteString(path)
	return h.Sum64()
}

func packedServes(ing *networkingv1.Ingress, at claim.Coordinate) bool {
	digests := ing.Spec.Rules[0].Host[len(mark):]
	wanted := string(binary.BigEndian.AppendUint64(nil, digest(at.Host(), at.Path())))
	_, found := sort.Find(len(digests)/digestLength, func(i int) int {
		return strings.Compare(wanted, digests[i*digestLength:(i+1)*digestLength])
	})
	return found
}

// dropLongPaths puts in the place of each path that is too long for a point one that is none, either: it still is one that the
// Ingress lists. Of a long path that is a point, as it has many slashes at its ends, only the point is left.
func dropLongPaths(ing *networkingv1.Ingress) {
	exact := networkingv1.PathTypeExact
	for _, r := range ing.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for i := range r.HTTP.Paths {
			path := &r.HTTP.Paths[i]
			if len(path.Path) <= maxPath {
				continue
			}
			if path.Path = pathOf(path).point(); len(path.Path) > maxPath {
				path.Path, path.PathType = "", &exact
			}
		}
	}
}
