package claim

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

const (
	// GatewayScope is the first part of the scopes of what Gateways listen on, and of the names of claims there.
	GatewayScope = "gateway"
	// AllHosts is the host of a listener that names none.
	AllHosts = "*"
)

// The protocols of listeners that share a port by host name. HTTPS is TLS: what a client says first of the host is the same.
const (
	HTTPListener v1beta1.Protocol = "HTTP"
	TLSListener  v1beta1.Protocol = "TLS"
)

// Listener is the coordinate of a port of a Gateway, all of it: that of a listener whose protocol is TCP or UDP. With the protocol HTTP it
// stands for all listeners that share the port by host name, so that nobody gets it whole. The result is the zero Coordinate unless the
// Gateway has a namespace and a name, neither with a slash, and the port is 1 to 65535.
func Listener(gateway types.NamespacedName, protocol v1beta1.Protocol, port int32) Coordinate {
	if gateway.Namespace == "" || gateway.Name == "" || strings.Count(gateway.String(), "/") != 1 || port < 1 || port > 65535 {
		return Coordinate{}
	}
	switch protocol {
	case v1beta1.TCP, v1beta1.UDP, HTTPListener:
		return Coordinate{gateway: gateway.String(), protocol: protocol, port: uint16(port)}
	default:
		return Coordinate{}
	}
}

// HostListener is the coordinate of a host name at a port of a Gateway: that of a listener whose protocol is HTTP or TLS, which shares the
// port with those of other names. The name may have a * as its first label, or be AllHosts. The result is the zero Coordinate unless all of
// it is valid.
func HostListener(gateway types.NamespacedName, protocol v1beta1.Protocol, port int32, host string) Coordinate {
	at := Listener(gateway, HTTPListener, port)
	if at.IsZero() || protocol != HTTPListener && protocol != TLSListener || host != AllHosts && Host(host).IsZero() {
		return Coordinate{}
	}
	at.protocol, at.host = protocol, host
	return at
}

// IsListener says whether c is a port of a Gateway, or a host name at one.
func (c Coordinate) IsListener() bool { return c.gateway != "" && c.path == "" }

// IsHosts says whether c stands for all listeners that share a port of a Gateway by host name.
func (c Coordinate) IsHosts() bool {
	return c.gateway != "" && c.host == "" && c.protocol == HTTPListener
}

// Gateway is the one that a listener is of, or on which routes serve a path.
func (c Coordinate) Gateway() types.NamespacedName {
	namespace, name, _ := strings.Cut(c.gateway, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// ListenerHost is the host name of a listener, AllHosts for one that names none, empty for a whole port.
func (c Coordinate) ListenerHost() string {
	if !c.IsListener() {
		return ""
	}
	return c.host
}

// HostsScope is the scope of the host names at a port of a Gateway.
func (c Coordinate) HostsScope() string {
	return GatewayScope + "/" + c.gateway + "/" + strconv.Itoa(int(c.port))
}

func (c Coordinate) listenerScope() string {
	if c.host != "" {
		return c.HostsScope()
	}
	return GatewayScope + "/" + c.gateway
}

func (c Coordinate) listenerPoint() string {
	if c.host != "" {
		return string(c.protocol) + "/" + c.host
	}
	return string(c.protocol) + "/" + strconv.Itoa(int(c.port))
}

// listenerName is the Gateway, the port and the host, as far as there is room, and a hash of scope and point.
func (c Coordinate) listenerName() string {
	return hashedName(GatewayScope, c.listenerScope()+" "+c.listenerPoint(),
		strings.ReplaceAll(c.gateway, "/", ".")+"."+strings.ToLower(string(c.protocol))+"."+strconv.Itoa(int(c.port)), c.host)
}

// listenerOf is the coordinate of a claim in the scope of a Gateway, no point if the claim says it otherwise than Portcullis does.
func listenerOf(c *v1beta1.EdgeClaim) Coordinate {
	parts := strings.Split(c.Spec.Scope, "/")
	protocol, rest, _ := strings.Cut(c.Spec.Point, "/")
	var at Coordinate
	switch len(parts) {
	case 3:
		port, _ := strconv.ParseInt(rest, 10, 32)
		at = Listener(types.NamespacedName{Namespace: parts[1], Name: parts[2]}, v1beta1.Protocol(protocol), int32(port))
	case 4:
		port, _ := strconv.ParseInt(parts[3], 10, 32)
		at = HostListener(types.NamespacedName{Namespace: parts[1], Name: parts[2]}, v1beta1.Protocol(protocol), int32(port), rest)
	}
	if at.IsZero() || at.Scope() != c.Spec.Scope || at.Point() != c.Spec.Point || len(validation.IsDNS1123Subdomain(c.Name)) > 0 {
		return Coordinate{}
	}
	return at
}

// InTheWay are the points that nobody else may have beside a listener: another has the whole port, or host names at it.
func (c Coordinate) InTheWay() []Coordinate {
	switch {
	case c.host != "":
		return []Coordinate{Listener(c.Gateway(), v1beta1.TCP, c.Port())}
	case c.protocol == v1beta1.TCP:
		return []Coordinate{Listener(c.Gateway(), HTTPListener, c.Port())}
	default:
		return nil
	}
}

// listenerRival finds a claim of somebody else that a listener can't be beside, nil for none. version is that of the holder's own claim.
//
// Whoever claims a host name has the claim that stands for all of them at the port made before it looks here, see shares. So without
// that, nobody has one; with it, all of them are looked at.
func (l *Ledger) listenerRival(ctx context.Context, at Coordinate, holder Holder, version string) (*v1beta1.EdgeClaim, error) {
	for _, other := range at.InTheWay() {
		found, err := l.HeldAt(ctx, other, holder, version)
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

// HeldAt finds, past any cache, a claim of somebody else on a port of a Gateway, or on a host name at it where the point stands for these;
// nil for none. version is one of claims that the answer may not be older than, empty for now.
func (l *Ledger) HeldAt(ctx context.Context, at Coordinate, but Holder, version string) (*v1beta1.EdgeClaim, error) {
	found, err := l.live(ctx, at.Name())
	switch {
	case err != nil || found == nil:
		return nil, err
	case !at.IsHosts() && HolderOf(found) == but:
		return nil, nil
	case !at.IsHosts():
		return found, nil
	}
	hosts, err := l.Store.List(ctx, at.HostsScope(), version)
	for i := range hosts {
		if HolderOf(&hosts[i]) != but {
			return &hosts[i], err
		}
	}
	return nil, err
}

// shares makes sure that the claim exists which says of a port that it is shared by host name. It is the Gateway's, and nobody's promise:
// it says no more than that host names have to be looked for. It is renewed before it is so old that it could be released (see
// Reconcile of package claims), so that of those who share a port most write nothing.
func (l *Ledger) shares(ctx context.Context, at Coordinate) error {
	hosts := Listener(at.Gateway(), HTTPListener, at.Port())
	by := Claimant{Holder: GatewayHolder(at.Gateway().Namespace, at.Gateway().Name)}
	for range attempts {
		found, err := l.live(ctx, hosts.Name())
		switch {
		case err != nil:
		case found == nil:
			next := New(hosts, by)
			next.Spec.Renewed = l.now()
			err = l.Store.Create(ctx, next)
		case l.GraceLeft(found) <= l.Grace/2:
			next := found.DeepCopy()
			next.Spec.Renewed = l.now()
			err = l.Store.Update(ctx, next)
		}
		if err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("claiming %s: %w", hosts, err)
		}
	}
	return tooFast(hosts)
}
