package claim

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

const (
	// addressScope is the scope of all addresses, and the first part of the scopes of their ports and of the names of
	// claims on either.
	addressScope = "addr"
	// NodeScope is the scope of all ports of the nodes.
	NodeScope = "node"
)

// Address is the coordinate of a whole address. The result is the zero Coordinate unless ip is a valid address without
// a zone. An IPv4 address that is mapped to IPv6 is the IPv4 address.
func Address(ip netip.Addr) Coordinate {
	if !ip.IsValid() || ip.Zone() != "" {
		return Coordinate{}
	}
	return Coordinate{address: ip.Unmap()}
}

// AddressPort is the coordinate of one port of an address that several Services share. The result is the zero
// Coordinate unless the address is one, the protocol is TCP, UDP or SCTP, and port is 1 to 65535.
func AddressPort(ip netip.Addr, protocol string, port int32) Coordinate {
	at, on := Address(ip), NodePort(protocol, port)
	if at.IsZero() || on.IsZero() {
		return Coordinate{}
	}
	at.protocol, at.port = on.protocol, on.port
	return at
}

// NodePort is the coordinate of a port of the nodes: all nodes at once. The result is the zero Coordinate unless the
// protocol is TCP, UDP or SCTP, and port is 1 to 65535.
func NodePort(protocol string, port int32) Coordinate {
	if (protocol != "TCP" && protocol != "UDP" && protocol != "SCTP") || port < 1 || port > 65535 {
		return Coordinate{}
	}
	return Coordinate{node: true, protocol: v1beta1.Protocol(protocol), port: uint16(port)}
}

// IsAddress says whether c is an address or a port of one.
func (c Coordinate) IsAddress() bool { return c.address.IsValid() }

// IsNode says whether c is a port of the nodes.
func (c Coordinate) IsNode() bool { return c.node }

// Address of an address or of its port, the zero Addr for other points.
func (c Coordinate) Address() netip.Addr { return c.address }

// ScopeFamily is the scope itself, addr for the scope of the ports of an address, gateway for those of what Gateways listen on, and route
// for those of their routes: there are as many of those as addresses, as Gateways, and as listeners.
func ScopeFamily(scope string) string {
	for _, family := range []string{addressScope, GatewayScope, RouteScope, HTTPScope} {
		if strings.HasPrefix(scope, family+"/") {
			return family
		}
	}
	return scope
}

// PortsScope is the scope of all ports of an address.
func PortsScope(ip netip.Addr) string { return addressScope + "/" + ip.String() }

func (c Coordinate) addressScope() string {
	if c.port == 0 {
		return addressScope
	}
	return PortsScope(c.address)
}

// addressName is addr.192-0-2-7, addr.192-0-2-7.tcp.443 or node.tcp.80.
func (c Coordinate) addressName() string {
	var parts []string
	if c.node {
		parts = append(parts, NodeScope)
	} else {
		parts = append(parts, addressScope, dashed(c.address))
	}
	if c.port != 0 {
		parts = append(parts, strings.ToLower(string(c.protocol)), strconv.Itoa(int(c.port)))
	}
	return strings.Join(parts, ".")
}

// dashed writes an address as part of a name: dots and colons become dashes, and an IPv6 address that would begin or end
// with one gets a 0 there, as in 0--1 for ::1.
func dashed(ip netip.Addr) string {
	if ip.Is4() {
		return strings.ReplaceAll(ip.String(), ".", "-")
	}
	if ip.Is4In6() { // Unmap leaves none
		return ""
	}
	s := strings.ReplaceAll(ip.String(), ":", "-")
	if strings.HasPrefix(s, "-") {
		s = "0" + s
	}
	if strings.HasSuffix(s, "-") {
		s += "0"
	}
	return s
}

// parseAddress is the inverse of addressName.
func parseAddress(name string, parts []string) (Coordinate, error) {
	var c Coordinate
	rest := parts[1:]
	if parts[0] == NodeScope {
		c.node = true
	} else if len(rest) > 0 {
		separator := ":"
		if strings.Count(rest[0], "-") == 3 && !strings.Contains(rest[0], "--") {
			separator = "."
		}
		if ip, err := netip.ParseAddr(strings.ReplaceAll(rest[0], "-", separator)); err == nil {
			c = Address(ip)
		}
		rest = rest[1:]
	}
	if len(rest) == 2 {
		port, err := strconv.ParseUint(rest[1], 10, 16)
		on := NodePort(strings.ToUpper(rest[0]), int32(port)) //nolint:gosec // 16 bits
		if err == nil {
			c.protocol, c.port = on.protocol, on.port
		}
	}
	if (c.node && c.port == 0) || c.IsZero() || c.Name() != name {
		return Coordinate{}, fmt.Errorf("%q is not a coordinate: want %s.<address> or %s.<address>.<protocol>.<port> or %s.<protocol>.<port>",
			name, addressScope, addressScope, NodeScope)
	}
	return c, nil
}
