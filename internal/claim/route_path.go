package claim

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// gatewayPaths is what the scopes of paths begin with that routes serve on a Gateway, whose namespace and name follow. No IngressClass has
// a slash in its name.
const gatewayPaths = HTTPScope + "/gateway/"

// OnGateway is the same path as routes serve it on a Gateway: two Gateways may serve one path, each for other routes. The result is the
// zero Coordinate unless c is a path that no class serves, and the Gateway has the namespace and the name of an object.
func (c Coordinate) OnGateway(gateway types.NamespacedName) Coordinate {
	if !c.IsHTTP() || c.path == "" || c.ingressClass != "" ||
		len(validation.IsDNS1123Subdomain(gateway.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(gateway.Name)) > 0 {
		return Coordinate{}
	}
	c.gateway = gateway.String()
	return c
}

// Sibling is another path of the same host on the same Gateway. The result is the zero Coordinate unless c is such a path, and path can be
// one.
func (c Coordinate) Sibling(path string) Coordinate {
	if !c.IsRoutePath() || !IsPath(path) {
		return Coordinate{}
	}
	c.path = path
	return c
}

// IsRoutePath says whether c is a path that routes serve on a Gateway.
func (c Coordinate) IsRoutePath() bool { return c.gateway != "" && c.path != "" }

// GatewayPathsScope is the scope of all paths that routes serve on a Gateway.
func GatewayPathsScope(gateway types.NamespacedName) string { return gatewayPaths + gateway.String() }

// routePathName is the name of the claim on such a path. It begins with a slash, as no name of a class does: a class "gateway" would have a
// path of the host infra that is taken for one of Gateway infra/edge.
func (c Coordinate) routePathName() string {
	return hashedName(HTTPScope, "/gateway "+c.gateway+" "+c.host+c.path, strings.Replace(c.host, "*", "any", 1), "")
}
