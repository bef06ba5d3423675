package findings

import (
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// entryPointsAnnotation says on which ports of Traefik an Ingress is served; without it, that is on all that it has by default.
const entryPointsAnnotation = "traefik.ingress.kubernetes.io/router.entrypoints"

// places tell which Ingresses of one class may meet: some controllers give each a load balancer of its own.
type places struct {
	classes snapshot.Classes
	// several are the classes with Ingresses that have no address in common.
	several map[string]bool
}

func placesOf(s *snapshot.Snapshot) places {
	p := places{classes: s.ClassesOf(), several: map[string]bool{}}
	first := map[string][]string{}
	for _, ing := range s.Ingresses {
		class, addresses := p.classes.Of(ing), snapshot.AddressesOfIngress(ing)
		switch one := first[class]; {
		case len(addresses) == 0:
		case one == nil:
			first[class] = addresses
		case !slices.ContainsFunc(addresses, func(a string) bool { return slices.Contains(one, a) }):
			p.several[class] = true
		}
	}
	return p
}

// isNowhere says whether nobody can tell where an Ingress is served: it has no address yet, and others of its class have their own.
func (p places) isNowhere(ing *networkingv1.Ingress) bool {
	return p.several[p.classes.Of(ing)] && len(snapshot.AddressesOfIngress(ing)) == 0
}

// meeting are those Ingresses, of some of one class, that may meet: at an address, and on an entry point of Traefik.
func meeting(all []*networkingv1.Ingress) (groups [][]*networkingv1.Ingress) {
	for _, at := range parted(all, snapshot.AddressesOfIngress) {
		groups = append(groups, parted(at, entryPoints)...)
	}
	return groups
}

// entryPoints are those that an Ingress names.
func entryPoints(ing *networkingv1.Ingress) []string {
	return strings.FieldsFunc(ing.Annotations[entryPointsAnnotation], func(r rune) bool { return r == ',' || r == ' ' })
}

// parted are Ingresses in groups that have something in common. What has nothing may be with any.
func parted(all []*networkingv1.Ingress, of func(*networkingv1.Ingress) []string) (groups [][]*networkingv1.Ingress) {
	above := map[string]string{} // in trees, one for each group
	root := func(word string) string {
		for above[word] != word {
			above[word] = above[above[word]]
			word = above[word]
		}
		return word
	}
	for _, ing := range all {
		words := of(ing)
		for _, word := range words {
			if _, known := above[word]; !known {
				above[word] = word
			}
			above[root(word)] = root(words[0])
		}
	}
	members := map[string][]*networkingv1.Ingress{}
	var anywhere []*networkingv1.Ingress
	for _, ing := range all {
		if words := of(ing); len(words) > 0 {
			members[root(words[0])] = append(members[root(words[0])], ing)
		} else {
			anywhere = append(anywhere, ing)
		}
	}
	if len(members) == 0 {
		return [][]*networkingv1.Ingress{anywhere}
	}
	for _, group := range members {
		groups = append(groups, append(group, anywhere...))
	}
	return groups
}
