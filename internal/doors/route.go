package doors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// rule is a path of a route, empty where the kind has none, and where it leads.
type rule struct {
	path string
	kind pathKind
	to   []gatewayv1.BackendObjectReference
}

// addRoutes adds what routes have of the listeners that they attach to: hosts and paths, or ports.
func (l *list) addRoutes() {
	gateways, parents := snapshot.Index(l.Gateways), l.Parents()
	for _, obj := range l.Routes {
		r, ok := guard.OfRoute(obj)
		if !ok {
			continue
		}
		hosts, rules := served(obj)
		has := l.NamespaceLabels(r.Namespace)
		for _, key := range r.ParentKeys() {
			p, known := parents[key]
			if !known {
				continue
			}
			for _, listener := range p.Listeners {
				if r.IsOn(key, listener) && p.Allows(listener, r, has) {
					l.addRoute(r, obj, p, gateways[p.On], listener, guard.HostsAt(listener, hosts), rules)
				}
			}
		}
	}
}

// addRoute adds what a route has of one listener.
func (l *list) addRoute(
	r guard.Route, obj metav1.Object, p *guard.Parent, of *gatewayv1.Gateway, on gatewayv1.Listener, hosts []string, rules []rule,
) {
	d := Door{
		Way: ByRoute, On: fmt.Sprintf("%s %s, listener %s", p.Kind, p.NamespacedName, on.Name), Addresses: stream.GatewayAddresses(of),
		Holder: r.String(), Namespace: r.Namespace,
	}
	port := stream.PortKey{Protocol: v1beta1.TCP, Port: on.Port}
	section := claim.Section{Kind: string(p.Kind), Namespace: p.Namespace, Name: p.Name, Listener: string(on.Name)}
	switch r.Kind {
	case guard.HTTPRoute, guard.GRPCRoute:
		d.named = true
		for _, d.host = range hosts {
			for _, rule := range rules {
				d.path, d.kind = rule.path, rule.kind
				d.Point = cmp.Or(d.host, "*") + rule.path
				l.addLeading(d, claim.Coordinate{}, obj, rule.to)
			}
		}
	case guard.TLSRoute:
		d.named, d.port = true, port
		for _, d.host = range hosts {
			d.Point = cmp.Or(d.host, "*") + " at " + port.String()
			l.addLeading(d, claim.HostRoute(section, cmp.Or(d.host, claim.AllHosts)), obj, all(rules))
		}
	default:
		if r.Kind == guard.UDPRoute {
			port.Protocol = v1beta1.UDP
		}
		d.port, d.Point = port, port.String()
		l.addLeading(d, claim.Route(section, port.Protocol), obj, all(rules))
	}
}

// addLeading adds a door that leads to backends.
func (l *list) addLeading(d Door, at claim.Coordinate, by metav1.Object, to []gatewayv1.BackendObjectReference) {
	var texts []string
	var services []types.NamespacedName
	for _, ref := range to {
		key := types.NamespacedName{Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(by.GetNamespace()))), Name: string(ref.Name)}
		text := key.String()
		if ptr.Deref(ref.Group, "") == "" && ptr.Deref(ref.Kind, "Service") == "Service" {
			if !slices.Contains(services, key) {
				services = append(services, key)
			}
		} else {
			text = fmt.Sprintf("%s %s", ptr.Deref(ref.Kind, ""), text)
		}
		if ref.Port != nil {
			text += fmt.Sprintf(":%d", *ref.Port)
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	d.LeadsTo = strings.Join(texts, ",")
	l.add(d, at, by, services...)
}

// all are the backends of all rules.
func all(rules []rule) (to []gatewayv1.BackendObjectReference) {
	for _, r := range rules {
		to = append(to, r.to...)
	}
	return to
}

// served are the names that a route says itself, and its rules.
func served(obj metav1.Object) (hosts []gatewayv1.Hostname, rules []rule) {
	switch o := obj.(type) {
	case *gatewayv1.HTTPRoute:
		return o.Spec.Hostnames, pathRules(o, func(i int) (to []gatewayv1.BackendObjectReference) {
			for j := range o.Spec.Rules[i].BackendRefs {
				to = append(to, o.Spec.Rules[i].BackendRefs[j].BackendObjectReference)
			}
			return to
		})
	case *gatewayv1.GRPCRoute:
		return o.Spec.Hostnames, pathRules(o, func(i int) (to []gatewayv1.BackendObjectReference) {
			for j := range o.Spec.Rules[i].BackendRefs {
				to = append(to, o.Spec.Rules[i].BackendRefs[j].BackendObjectReference)
			}
			return to
		})
	case *gatewayv1.TLSRoute:
		hosts = o.Spec.Hostnames
		for i := range o.Spec.Rules {
			rules = append(rules, rule{to: objectsOf(o.Spec.Rules[i].BackendRefs)})
		}
	case *gatewayv1.TCPRoute:
		for i := range o.Spec.Rules {
			rules = append(rules, rule{to: objectsOf(o.Spec.Rules[i].BackendRefs)})
		}
	case *gatewayv1.UDPRoute:
		for i := range o.Spec.Rules {
			rules = append(rules, rule{to: objectsOf(o.Spec.Rules[i].BackendRefs)})
		}
	}
	return hosts, rules
}

func objectsOf(refs []gatewayv1.BackendRef) (to []gatewayv1.BackendObjectReference) {
	for i := range refs {
		to = append(to, refs[i].BackendObjectReference)
	}
	return to
}

// pathRules are the paths of a route, and where each leads. What else a rule asks of a request is not looked at.
func pathRules(route metav1.Object, backends func(rule int) []gatewayv1.BackendObjectReference) (rules []rule) {
	for m := range guard.Matches(route) {
		rules = merge(rules, rule{path: m.Path, kind: kindOf[m.Kind], to: backends(m.Rule)})
	}
	return rules
}

// kindOf are the kinds of matches as paths answer.
var kindOf = map[guard.MatchKind]pathKind{guard.PrefixMatch: below, guard.ExactMatch: exactly, guard.PatternMatch: pattern}

// merge adds a rule to others: those of one path may differ in what else they ask of a request, and are one door.
func merge(rules []rule, r rule) []rule {
	i := slices.IndexFunc(rules, func(o rule) bool { return o.path == r.path && o.kind == r.kind })
	if i < 0 {
		return append(rules, r)
	}
	rules[i].to = append(rules[i].to, r.to...)
	return rules
}
