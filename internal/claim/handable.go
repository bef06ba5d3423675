package claim

import "jeffthecoder.xyz/portcullis/api/v1beta1"

// mayBeHandedTo says whether a claim is one that its holder can hand over to the claimant, which is of its kind: the port of a class that a
// stream has, a host or path that a Service or an Ingress has, a host name as such, or a path of routes, that a namespace has, what a route
// has of a listener, and what a Service was given as a load balancer. What a Service names in
// spec.externalIPs it has for as long as it does, and what it has in front of a proxy is that of streams.
func mayBeHandedTo(found *v1beta1.EdgeClaim, by Claimant) bool {
	at, err := Of(found)
	from := HolderOf(found)
	if err != nil || from.Group != by.Group || from.Kind != by.Kind {
		return false
	}
	switch {
	case at.IsStream():
		return from.IsStream()
	case at.IsHTTP():
		return from.IsService() || from.IsIngress()
	case at.IsHostname(), at.IsRoutePath():
		return from.IsNamespace()
	case at.IsRoute():
		return from.IsRoute()
	default:
		return IsHandable(found) && !by.ExternalIP && by.ClassName == ""
	}
}
