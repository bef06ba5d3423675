package doors

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// addIngresses adds hosts and paths, and what serves all hosts.
func (l *list) addIngresses() {
	classes := l.ClassesOf()
	for _, ing := range l.Ingresses {
		d := Door{
			Way: ByIngress, On: snapshot.ClassName(classes.Of(ing)), Addresses: snapshot.AddressesOfIngress(ing), named: true,
			Holder: claim.IngressHolder(ing.Namespace, ing.Name).String(), Namespace: ing.Namespace,
		}
		backends := backendsOf(ing)
		i := 0
		for host, path := range exposure.Served(ing) {
			d.Point, d.LeadsTo, d.host = cmp.Or(host, "*")+path.Value, backends[i].text, host
			d.path, d.kind = answering(ing, path)
			l.add(d, claim.HTTP(host, path.Value), ing, backends[i].key)
			i++
		}
		if to := ing.Spec.DefaultBackend; to != nil && len(ing.Spec.Rules) == 0 {
			b := backendOf(ing, to)
			d.LeadsTo, d.path, d.Point = b.text, "/", "*/"
			l.add(d, claim.Coordinate{}, ing, b.key)
		}
	}
}

// The annotations by which ingress-nginx takes the paths of an Ingress as patterns.
const (
	useRegexAnnotation = "nginx.ingress.kubernetes.io/use-regex"
	rewriteAnnotation  = "nginx.ingress.kubernetes.io/rewrite-target"
)

// answering is a path of an Ingress as it answers. What its controller may read as a pattern is one, but for what ends with /*: that is
// what is below it.
func answering(ing *networkingv1.Ingress, path exposure.Path) (string, pathKind) {
	const special = `()[]^$+?|\*`
	usesRegex, err := strconv.ParseBool(ing.Annotations[useRegexAnnotation])
	isOther := path.Type == networkingv1.PathTypeImplementationSpecific || err == nil && usesRegex || ing.Annotations[rewriteAnnotation] != ""
	above, hasStar := strings.CutSuffix(path.Value, "/*")
	switch {
	case path.Type == networkingv1.PathTypeExact:
		return path.Value, exactly
	case isOther && hasStar && !strings.ContainsAny(above, special):
		return cmp.Or(above, "/"), below
	case isOther && strings.ContainsAny(path.Value, special):
		return path.Value, pattern
	}
	return path.Value, below
}

// backend is where a path leads.
type backend struct {
	key  types.NamespacedName
	text string
}

// backendOf is one of an Ingress, zero for what is no Service.
func backendOf(ing *networkingv1.Ingress, b *networkingv1.IngressBackend) backend {
	if b == nil || b.Service == nil {
		return backend{}
	}
	key := types.NamespacedName{Namespace: ing.Namespace, Name: b.Service.Name}
	return backend{key, key.String() + ":" + cmp.Or(b.Service.Port.Name, fmt.Sprint(b.Service.Port.Number))}
}

// backendsOf are those of the paths of an Ingress, in the order of exposure.Served.
func backendsOf(ing *networkingv1.Ingress) (backends []backend) {
	for i := range ing.Spec.Rules {
		if ing.Spec.Rules[i].HTTP == nil {
			backends = append(backends, backendOf(ing, ing.Spec.DefaultBackend))
			continue
		}
		for j := range ing.Spec.Rules[i].HTTP.Paths {
			backends = append(backends, backendOf(ing, &ing.Spec.Rules[i].HTTP.Paths[j].Backend))
		}
	}
	return backends
}
