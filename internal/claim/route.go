package claim

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// RouteScope is the first part of the scopes of what routes have of listeners, and of the names of claims there.
const RouteScope = "route"

// Section is a listener of an object of the Gateway API, by its name there.
type Section struct {
	// Kind is Gateway or ListenerSet.
	Kind, Namespace, Name string
	// Listener is the name of the listener.
	Listener string
}

// String is the kind in lower case, the namespace, the name and the listener, with slashes between them.
func (s Section) String() string {
	return strings.ToLower(s.Kind) + "/" + s.Namespace + "/" + s.Name + "/" + s.Listener
}

// Route is the coordinate of all that a listener has for routes of a protocol, TCP or UDP: it is served by one of them. The result is the
// zero Coordinate unless all names are those of objects.
func Route(of Section, protocol v1beta1.Protocol) Coordinate {
	isName := func(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }
	if of.Kind != "Gateway" && of.Kind != "ListenerSet" || protocol != v1beta1.TCP && protocol != v1beta1.UDP ||
		!isName(of.Namespace) || !isName(of.Name) || !isName(of.Listener) {
		return Coordinate{}
	}
	return Coordinate{route: of.String(), protocol: protocol}
}

// HostRoute is the coordinate of a host name at a listener of the protocol TLS: a connection for it goes to one route. The name may have
// a * as its first label, or be AllHosts. The result is the zero Coordinate unless all of it is valid.
func HostRoute(of Section, host string) Coordinate {
	at := Route(of, v1beta1.TCP)
	if at.IsZero() || host != AllHosts && Host(host).IsZero() {
		return Coordinate{}
	}
	at.protocol, at.host = TLSListener, host
	return at
}

// IsRoute says whether c is what a listener has for routes, or a host name there.
func (c Coordinate) IsRoute() bool { return c.route != "" }

// Section is the listener that a route is on.
func (c Coordinate) Section() Section {
	parts := strings.Split(c.route, "/")
	if len(parts) != 4 {
		return Section{}
	}
	kind := "Gateway"
	if parts[0] != "gateway" {
		kind = "ListenerSet"
	}
	return Section{Kind: kind, Namespace: parts[1], Name: parts[2], Listener: parts[3]}
}

// RouteHost is the host name of a route, AllHosts for one that is for all, empty where the listener is not shared by host name.
func (c Coordinate) RouteHost() string {
	if c.route == "" {
		return ""
	}
	return c.host
}

func (c Coordinate) routePoint() string {
	if c.host != "" {
		return string(c.protocol) + "/" + c.host
	}
	return string(c.protocol)
}

// routeName is the listener, the protocol and the host, as far as there is room, and a hash of scope and point.
func (c Coordinate) routeName() string {
	return hashedName(RouteScope, c.Scope()+" "+c.Point(),
		strings.ReplaceAll(c.route, "/", ".")+"."+strings.ToLower(string(c.protocol)), c.host)
}

// hashedName is the name of a claim whose coordinate is too long for one, or has letters that no name has: what people recognize of it, and
// a host, as far as there is room, and a hash of all of it.
func hashedName(scope, all, hint, host string) string {
	sum := sha256.Sum256([]byte(all))
	if host != "" {
		hint += "." + strings.Replace(host, "*", "any", 1)
	}
	if longest := maxName - len(scope) - hashLength - 2; len(hint) > longest {
		hint = strings.TrimRight(hint[:longest], "-.")
	}
	return scope + "." + hint + "." + hex.EncodeToString(sum[:])[:hashLength]
}

// routeOf is the coordinate of a claim in the scope of a listener's routes, no point if the claim says it otherwise than Portcullis does.
func routeOf(c *v1beta1.EdgeClaim) Coordinate {
	of := Coordinate{route: strings.TrimPrefix(c.Spec.Scope, RouteScope+"/")}.Section()
	protocol, host, shared := strings.Cut(c.Spec.Point, "/")
	at := Route(of, v1beta1.Protocol(protocol))
	if shared && protocol == string(TLSListener) {
		at = HostRoute(of, host)
	}
	if at.IsZero() || at.Scope() != c.Spec.Scope || at.Point() != c.Spec.Point {
		return Coordinate{}
	}
	return at
}
