// Package claim is the ledger of the edge: who holds which externally visible point.
//
// A claim is an EdgeClaim object whose name is the coordinate of the point. Creating an object that exists fails, in
// etcd, for all but one of any number of creators; that is what makes the ledger race-free. The protocol around it:
//
//	admission     creates the claim, or renews it when the holder has it already, before it answers yes;
//	              a claim of another holder is a no.
//	reconcilers   claim for objects that are stored without a claim, under the same rules.
//	both          look for a claim on the other form of the same thing, once their own is stored: an address is held whole,
//	              or by its ports, a port of a Gateway whole, or by host names, a host name by itself, or by a
//	              wildcard. Who finds somebody else's takes its own back.
//	release       reads the claim, then its holder (live), then deletes the claim with a precondition on the version
//	              it read. An admission that renews in between makes the delete fail.
//
// An admission promises a point to an object that is not stored yet, and that may never be. So a claim records for
// which UID and generation it was promised, and when. It is settled, that is no such admission is in flight any more,
// when its holder has been seen stored with that UID and that generation or a later one: the API server admits every
// attempt to store an object anew, and numbers it. A claim that is not settled is kept for a grace period, longer than
// any API request lives plus the skew between two clocks.
//
// Several admissions of one name can be in flight at once, and a claim has room for one promise. So a renewal keeps the
// later time and generation of the two; and where an earlier creation may still be stored, it leaves out the UID, so
// that only the grace settles the claim.
package claim

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// Coordinate is one point of the edge: a port on the proxy of a class, a host or a path on one, an address or one of its
// ports, a port of the nodes, a port of a Gateway or a host name at one, what a listener has for routes, a path that routes serve on a
// Gateway, or a host name as such. It is comparable; the zero value is no point.
type Coordinate struct {
	class    string
	protocol v1beta1.Protocol
	port     uint16
	// host is set for HTTP, and only there, and path for a path. ingressClass is that which serves them, empty for none.
	host, path, ingressClass string
	// address is set for addresses and their ports.
	address netip.Addr
	// node is set for the ports of the nodes.
	node bool
	// gateway is the namespace/name of the Gateway, set for what it listens on, where host is that of a listener, and for paths that routes
	// serve there.
	gateway string
	// named says that the host is meant as such, whatever serves it.
	named bool
	// route is the listener that a route is on, as Section has it; there, host is one that the route is for.
	route string
}

// streamScope is the first part of the names of claims on the ports of a class.
const streamScope = "stream"

// Stream is the coordinate of a port on the proxy of a class. The result is the zero Coordinate unless class is not
// empty, the protocol is TCP or UDP and port is 1 to 65535.
func Stream(class string, protocol v1beta1.Protocol, port int32) Coordinate {
	if class == "" || (protocol != v1beta1.TCP && protocol != v1beta1.UDP) || port < 1 || port > 65535 {
		return Coordinate{}
	}
	return Coordinate{class: class, protocol: protocol, port: uint16(port)}
}

// Parse reads the name of a claim on a port or an address. It is the inverse of Name. The names of claims on hosts and paths have
// a hash, and can't be read: see Of.
func Parse(name string) (Coordinate, error) {
	parts := strings.Split(name, ".")
	if parts[0] == addressScope || parts[0] == NodeScope {
		return parseAddress(name, parts)
	}
	if len(parts) < 4 || parts[0] != streamScope {
		return Coordinate{}, fmt.Errorf("%q is not a coordinate: want %s.<class>.<tcp|udp>.<port>", name, streamScope)
	}
	last := len(parts) - 1
	port, err := strconv.ParseUint(parts[last], 10, 16)
	c := Stream(strings.Join(parts[1:last-1], "."), v1beta1.Protocol(strings.ToUpper(parts[last-1])), int32(port)) //nolint:gosec // 16 bits
	if err != nil || c.Name() != name {
		return Coordinate{}, fmt.Errorf("%q is not a coordinate: want %s.<class>.<tcp|udp>.<port>", name, streamScope)
	}
	return c, nil
}

// IsZero says whether c is no point.
func (c Coordinate) IsZero() bool { return c == Coordinate{} }

// IsStream says whether c is a port on the proxy of a class.
func (c Coordinate) IsStream() bool { return c.class != "" }

// Class is the StreamIngressClass on whose proxy the point lies.
func (c Coordinate) Class() string { return c.class }

// Protocol of the port.
func (c Coordinate) Protocol() v1beta1.Protocol { return c.protocol }

// Port number, 1 to 65535; 0 for paths and for whole addresses.
func (c Coordinate) Port() int32 { return int32(c.port) }

// Name is the name of the claim on the point, for example stream.public.tcp.8080. It is empty for no point.
func (c Coordinate) Name() string {
	switch {
	case c.IsZero():
		return ""
	case c.IsRoutePath():
		return c.routePathName()
	case c.IsListener():
		return c.listenerName()
	case c.IsRoute():
		return c.routeName()
	case c.IsHostname():
		return c.hostnameName()
	case c.IsHTTP():
		return c.httpName()
	case c.IsAddress(), c.IsNode():
		return c.addressName()
	}
	return streamScope + "." + c.class + "." + strings.ToLower(string(c.protocol)) + "." + strconv.Itoa(int(c.port))
}

// Scope is the space in which the point is unique, for example stream/public or http/nginx.
func (c Coordinate) Scope() string {
	switch {
	case c.IsRoutePath():
		return gatewayPaths + c.gateway
	case c.IsListener():
		return c.listenerScope()
	case c.IsRoute():
		return RouteScope + "/" + c.route
	case c.IsHostname():
		return HostnameScope
	case c.IsHTTP():
		return c.httpScope()
	case c.IsAddress():
		return c.addressScope()
	case c.IsNode():
		return NodeScope
	}
	return StreamScope(c.class)
}

// Point is the point within its scope, for example TCP/8080 or shop.example.com/api.
func (c Coordinate) Point() string {
	switch {
	case c.IsListener():
		return c.listenerPoint()
	case c.IsRoute():
		return c.routePoint()
	case c.IsHostname(), c.IsHTTP(), c.IsRoutePath():
		return c.host + c.path
	case c.IsAddress() && c.port == 0:
		return c.address.String()
	}
	return string(c.protocol) + "/" + strconv.Itoa(int(c.port))
}

// String is the scope and the point.
func (c Coordinate) String() string { return c.Scope() + " " + c.Point() }

// StreamScope is the scope of all ports of a class.
func StreamScope(class string) string { return streamScope + "/" + class }

// Compare orders coordinates by class, Gateway, listener, address, port and protocol, and those of HTTP by host, path and class.
func Compare(a, b Coordinate) int {
	order := cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.gateway, b.gateway), cmp.Compare(a.route, b.route),
		a.address.Compare(b.address), cmp.Compare(a.port, b.port), cmp.Compare(a.protocol, b.protocol),
		cmp.Compare(a.host, b.host), cmp.Compare(a.path, b.path), cmp.Compare(a.ingressClass, b.ingressClass))
	if order != 0 || a == b {
		return order
	}
	return cmp.Compare(a.Scope(), b.Scope()) // which has to be made
}
