package doors

import (
	"fmt"
	"strings"
)

// Advice says how somebody gets a point, of which the doors are those that Find has found. installed says that Portcullis is there.
func Advice(p Point, found []Door, installed bool) string {
	if len(found) == 0 {
		return free(p, installed)
	}
	d := &found[0]
	by := "ask the owners of namespace " + d.Namespace
	switch {
	case strings.HasPrefix(d.Holder, "StreamIngress "):
		return fmt.Sprintf("%s: the port is free once %s is deleted, or listens elsewhere; "+
			"or leave spec.listen out of your own StreamIngress, and be given another", by, d.Holder)
	case d.Way == ByEntry && installed:
		return fmt.Sprintf("a StreamIngress of namespace %s that says exactly what the entry says takes it over; "+
			"anybody else can have the port once the entry is out of %s", d.Namespace, d.On)
	case d.Way == ByEntry:
		return fmt.Sprintf("%s, and those who may edit %s: the port is free once the entry is out of it", by, d.On)
	case d.Way == ByIngress:
		return fmt.Sprintf("%s, or choose another host or path: the path is free once no rule of %s has it", by, d.Holder)
	case d.Way == ByListener:
		return fmt.Sprintf("%s: the port is free once %s has no such listener; or attach a route to it", by, d.Holder)
	case d.Way == ByNodePort:
		return fmt.Sprintf("%s, or leave nodePort out of your own Service, and be given another: "+
			"this one is free once %s has it no longer", by, d.Holder)
	}
	return fmt.Sprintf("%s: the port of the address is free once %s has it no longer; or choose another port or address", by, d.Holder)
}

func free(p Point, installed bool) string {
	switch {
	case p.Host != "" && installed:
		return fmt.Sprintf("nobody has it: annotate your Service with ingress/http: host=%s, or create an Ingress", p.Host)
	case p.Host != "":
		return "nobody has it: create an Ingress or a route for it"
	case p.IP.IsValid():
		return "nobody that could be read answers there"
	case installed:
		return fmt.Sprintf("nobody has it: create a StreamIngress with spec.listen: %d, if its class gives the port to your namespace", p.Port)
	}
	return "nobody has it: ask those who run the proxy for an entry and a port on its Service, or use a Service of type LoadBalancer"
}
