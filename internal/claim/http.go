package claim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

const (
	// HTTPScope is the scope of the hosts, and of the paths on them, that no IngressClass is named for. Those of a class have one of their
	// own: http/nginx.
	HTTPScope = "http"

	// maxPath is how long the path of a coordinate may be.
	maxPath = 512
	// hashLength is how many hexadecimal digits the name of a claim has: with 128 bits, nobody finds two paths of one hash.
	hashLength = 32
	maxName    = 253
)

// HTTP is the coordinate of a path on a host. The host may have a * as its first label. The result is the zero
// Coordinate unless host is a DNS name in lower case and path begins with a slash and has at most 512 bytes.
func HTTP(host, path string) Coordinate {
	if !IsPath(path) || Host(host).IsZero() {
		return Coordinate{}
	}
	return Coordinate{host: host, path: path}
}

// IsPath says whether the ledger has room for a path: it begins with a slash and has at most 512 bytes.
func IsPath(path string) bool {
	return strings.HasPrefix(path, "/") && len(path) <= maxPath && utf8.ValidString(path)
}

// Host is the coordinate of a host, for an Ingress with so many paths that it does not have a claim on each. It is a point
// of its own: it keeps nobody from a path, as that the Ingress itself does. The host may have a * as its first label. The
// result is the zero Coordinate unless host is a DNS name in lower case.
func Host(host string) Coordinate {
	// validation.IsWildcardDNS1123Subdomain says the same of a wildcard, and compiles its expression each time.
	if len(host) > validation.DNS1123SubdomainMaxLength || len(validation.IsDNS1123Subdomain(strings.TrimPrefix(host, "*."))) > 0 {
		return Coordinate{}
	}
	return Coordinate{host: host}
}

// ServedBy is the same host or path as an IngressClass serves it: two classes may serve one path, each by its own proxy. The class is a
// name that an object can have, or empty for none. Of what is neither host nor path it is c itself.
func (c Coordinate) ServedBy(class string) Coordinate {
	if c.IsHTTP() {
		c.ingressClass = class
	}
	return c
}

// IngressClass is the class that serves a host or path, empty for none.
func (c Coordinate) IngressClass() string { return c.ingressClass }

// classlessRival finds a claim of somebody else on a path of no class, as earlier versions make them for whichever class it is. One whose
// holder has the path for another class keeps nobody from it. It is not handed over: its holder is about to have one of that class in its
// place, and hands over that one.
func (l *Ledger) classlessRival(ctx context.Context, at Coordinate, holder Holder) (*v1beta1.EdgeClaim, error) {
	found, err := l.live(ctx, at.ServedBy("").Name())
	if err != nil || found == nil || !MayBeOfAnyClass(found) || HolderOf(found).Key() == holder.Key() || l.ClassFor == nil {
		return nil, err // a Service, and the Ingress of its name, make way for each other
	}
	class, known, err := l.ClassFor(ctx, HolderOf(found))
	if err != nil || known && class != at.IngressClass() {
		return nil, err
	}
	return found, nil
}

// MayBeOfAnyClass says of a claim that names no class whether it may be for any, as those are that earlier versions made. They promised
// nothing to Ingresses: such a claim is for what has no class.
func MayBeOfAnyClass(c *v1beta1.EdgeClaim) bool {
	return c.Spec.Renewed == nil || HolderOf(c).IsService()
}

// Of is the coordinate of a claim that is stored. The error says that the claim is not as Portcullis writes claims.
func Of(c *v1beta1.EdgeClaim) (Coordinate, error) {
	var at Coordinate
	switch scope := c.Spec.Scope; {
	case strings.HasPrefix(scope, GatewayScope+"/"):
		at = listenerOf(c)
	case strings.HasPrefix(scope, RouteScope+"/"):
		at = routeOf(c)
	case scope == HostnameScope:
		at = Hostname(c.Spec.Point)
	case strings.HasPrefix(scope, gatewayPaths):
		namespace, name, _ := strings.Cut(strings.TrimPrefix(scope, gatewayPaths), "/")
		at = hostOrPath(c.Spec.Point).OnGateway(types.NamespacedName{Namespace: namespace, Name: name})
	case ScopeFamily(scope) != HTTPScope:
		return Parse(c.Name)
	default:
		if _, class, named := strings.Cut(scope, "/"); !named || len(validation.IsDNS1123Subdomain(class)) == 0 {
			at = hostOrPath(c.Spec.Point).ServedBy(class)
		}
	}
	if at.IsZero() || at.Name() != c.Name {
		return Coordinate{}, fmt.Errorf("%q is not the name of a claim on %q of %q", c.Name, c.Spec.Point, c.Spec.Scope)
	}
	return at, nil
}

// hostOrPath is the coordinate of a point that no class serves.
func hostOrPath(point string) Coordinate {
	if slash := strings.IndexByte(point, '/'); slash >= 0 {
		return HTTP(point[:slash], point[slash:])
	}
	return Host(point)
}

// IsHTTP says whether c is a host, or a path on one, as Ingresses serve them.
func (c Coordinate) IsHTTP() bool {
	return c.host != "" && c.gateway == "" && c.route == "" && !c.named
}

// HostOf is the host of a path, as a coordinate.
func HostOf(path Coordinate) Coordinate {
	path.path = ""
	return path
}

// IsHost says whether c is a host as such.
func (c Coordinate) IsHost() bool { return c.IsHTTP() && c.path == "" }

// Host of a path or as such, empty for a port.
func (c Coordinate) Host() string { return c.host }

// Path on the host, empty for a port and for the host as such.
func (c Coordinate) Path() string { return c.path }

// httpScope is the scope of what a class serves.
func (c Coordinate) httpScope() string {
	if c.ingressClass == "" {
		return HTTPScope
	}
	return HTTPScope + "/" + c.ingressClass
}

// httpName is the name of the claim on a host or path: the host, for people, and a hash of class, host and path. A host that has a *,
// or that leaves no room for the hash, is only hinted at. No host has a blank, so that no host of a class is one of none.
func (c Coordinate) httpName() string {
	var buffer [2*maxName + 1 + maxPath]byte // neither class nor host nor path is longer
	text := buffer[:0]
	if c.ingressClass != "" {
		text = append(append(text, c.ingressClass...), ' ')
	}
	sum := sha256.Sum256(append(append(text, c.host...), c.path...))
	hint := strings.Replace(c.host, "*", "any", 1)
	if longest := maxName - len(HTTPScope) - hashLength - 2; len(hint) > longest {
		hint = strings.TrimRight(hint[:longest], "-.")
	}
	var hash [2 * sha256.Size]byte
	hex.Encode(hash[:], sum[:])
	return HTTPScope + "." + hint + "." + string(hash[:hashLength])
}
