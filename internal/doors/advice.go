package doors

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Advice says how somebody gets a point of a snapshot, of which the doors are those that Find has found. It says that nobody has the point
// only if all was read that could have it.
func Advice(p Point, found []Door, s *snapshot.Snapshot) string {
	installed := len(s.Classes) > 0
	if len(found) == 0 {
		return free(p, installed, doubt(p, s))
	}
	d := decisive(found)
	by := "ask the owners of namespace " + d.Namespace
	switch {
	case d.held != nil && claim.HolderOf(d.held).IsStream():
		text := fmt.Sprintf("%s; %s: the port is free once %s is deleted, or listens elsewhere; "+
			"or leave spec.listen out of your own StreamIngress, and be given another", stream.HeldBy(d.held, d.at), by, d.Holder)
		if claim.HeirOf(d.held) == (claim.Holder{}) {
			text += refusal.HandOver(types.NamespacedName{Namespace: "<namespace>", Name: "<name>"})
		}
		return text + ofOtherClasses(found, d)
	case d.Way == ByEntry && installed:
		return fmt.Sprintf("a StreamIngress of namespace %s that says exactly what the entry says takes it over; "+
			"anybody else can have the port once the entry is out of %s", d.Namespace, d.On)
	case d.Way == ByEntry:
		return fmt.Sprintf("%s, and those who may edit %s: the port is free once the entry is out of it", by, d.On)
	case d.named:
		return named(p, d, doubt(p, s))
	case d.Way == ByListener:
		return fmt.Sprintf("%s: the port is free once %s has no such listener; or attach a route to it", by, d.Holder)
	case d.Way == ByRoute:
		return fmt.Sprintf("%s: the listener is free once %s does not name it any more; or attach your route to another one", by, d.Holder)
	case d.Way == ByClusterIP:
		return fmt.Sprintf("%s: the address is one of the cluster's own, and %s has it until it is deleted", by, d.Holder)
	case d.Way == ByNodePort:
		return fmt.Sprintf("%s, or leave nodePort out of your own Service, and be given another: "+
			"this one is free once %s has it no longer", by, d.Holder)
	}
	return fmt.Sprintf("%s: the port of the address is free once %s has it no longer; or choose another port or address", by, d.Holder)
}

// ofOtherClasses is who is to be asked for the same port of other classes, as the end of a sentence; empty for nobody.
func ofOtherClasses(found []Door, but *Door) string {
	var text strings.Builder
	told := map[claim.Coordinate]bool{but.at: true}
	for i := range found {
		if d := &found[i]; d.held != nil && !told[d.at] {
			told[d.at] = true
			fmt.Fprintf(&text, "; %s: ask the owners of namespace %s", stream.HeldBy(d.held, d.at), d.Namespace)
		}
	}
	return text.String()
}

// decisive is the first door that is in front of no other: a Service has the port at its address, but it is free once what has it behind
// the Service, such as an entry of a proxy, has it no longer.
func decisive(found []Door) *Door {
	for i := range found {
		isBehind := func(d Door) bool { return found[i].isInFrontOf(&d) }
		if !slices.ContainsFunc(found, isBehind) {
			return &found[i]
		}
	}
	return &found[0]
}

// isInFrontOf says whether a door is a Service's at whose address a proxy, or a Gateway, answers with another door.
func (d *Door) isInFrontOf(other *Door) bool {
	isService := d.Way == ByLoadBalancer || d.Way == ByExternalIP
	isBehind := other.Way == ByEntry || other.Way == ByListener || other.Way == ByRoute
	return isService && isBehind && d.port == other.port &&
		slices.ContainsFunc(d.Addresses, func(a string) bool { return slices.Contains(other.Addresses, a) })
}

// named is the advice about a host, or about the port of a listener that serves hosts.
func named(p Point, d *Door, doubt string) string {
	by := "ask the owners of namespace " + d.Namespace
	hosts := "all hosts"
	if d.host != "" {
		hosts = d.host
	}
	switch {
	case p.Host != "" && d.host != p.Host && p.isPort(d):
		return fmt.Sprintf("%s: %s answers at the address, for %s", by, d.Holder, hosts)
	case d.Way == ByListener && p.Host == "":
		return fmt.Sprintf("%s: the port is free once %s has no such listener; or attach a route to it", by, d.Holder)
	case d.Way == ByListener:
		return fmt.Sprintf("%s has a listener for %s, and no route that was found has the point: attach one to it%s", d.Holder, hosts, doubt)
	case p.Host != "" && d.host != p.Host:
		return fmt.Sprintf("%s answers, as it serves %s: create an Ingress or a route for %s itself%s", d.Holder, hosts, p.Host, doubt)
	}
	return fmt.Sprintf("%s, or choose another host or path: the path is free once no rule of %s has it", by, d.Holder)
}

// doubt is what may have a point and could not be read, as the end of a sentence; empty for nothing.
func doubt(p Point, s *snapshot.Snapshot) string {
	kinds := []string{"ConfigMap", "Service", "Gateway", "ListenerSet", "TCPRoute", "UDPRoute"}
	if p.Host != "" {
		kinds = []string{"Ingress", "Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute", "TLSRoute", "Service"} // whose address may be a name
	}
	if len(s.Gateways) > 0 { // whose listeners may choose namespaces by their labels
		kinds = append(kinds, "Namespace")
	}
	var unread []string
	for _, kind := range kinds {
		if !s.Knows(kind, "") {
			unread = append(unread, kind)
		}
	}
	if len(unread) == 0 {
		return ""
	}
	return fmt.Sprintf("; somebody else may have it: not every %s could be read", strings.Join(unread, ", "))
}

func free(p Point, installed bool, doubt string) string {
	if p.IP.IsValid() {
		return "nobody that could be read answers there" + doubt
	}
	nobody := "nobody has it"
	if doubt != "" {
		nobody = "nobody was found that has it"
	}
	var then string
	switch {
	case p.Host != "" && installed:
		then = fmt.Sprintf("annotate your Service with ingress/http: host=%s, or create an Ingress", p.Host)
	case p.Host != "":
		then = "create an Ingress or a route for it"
	case installed:
		then = fmt.Sprintf("create a StreamIngress with spec.listen: %d, if its class gives the port to your namespace", p.Port)
	default:
		then = "ask those who run the proxy for an entry and a port on its Service, or use a Service of type LoadBalancer"
	}
	return nobody + ": " + then + doubt
}
