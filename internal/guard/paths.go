package guard

import (
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/internal/claim"
)

// MostRoutePaths is of how many paths of a route notice is taken: more than the API lets it have.
const MostRoutePaths = 256

// MostPathPoints is how many points a route may have, over all that it attaches to. Of one that comes to have more, by listeners that are
// made later for instance, the first ones count, in the order of Served.
const MostPathPoints = 1024

// Paths are the kinds of routes that serve paths.
func Paths() []Kind { return []Kind{HTTPRoute, GRPCRoute} }

func hasPaths(kind Kind) bool { return slices.Contains(Paths(), kind) }

// RoutePath is a path that a route serves.
type RoutePath struct {
	Path string
	// rule and match say where it stands, match -1 where a rule is for all that comes; child is the field of the match.
	rule, match int
	child       string
}

// PathPoint is a path of a host that a route serves on a Gateway.
type PathPoint struct {
	At   claim.Coordinate
	path RoutePath
	// host and parent are which of the route's host names and references make it be there; host is -1 where the name is the listener's.
	host, parent int
}

// Field is where a route asks for a point.
func (p PathPoint) Field() *field.Path {
	switch {
	case p.path.match >= 0:
		return field.NewPath("spec", "rules").Index(p.path.rule).Child("matches").Index(p.path.match).Child(p.path.child)
	case p.host >= 0:
		return field.NewPath("spec", "hostnames").Index(p.host)
	default:
		return field.NewPath("spec", "parentRefs").Index(p.parent)
	}
}

// PathsOf are the paths that an HTTPRoute or a GRPCRoute serves, each once, as far as they are points: of a pattern nobody can say which it
// is for. Prefix and exact path are one, and so are matches that differ by something else than the path.
func PathsOf(route metav1.Object) (paths []RoutePath) {
	seen := map[string]bool{}
	for m := range Matches(route) {
		if m.Kind == PatternMatch || seen[m.Path] || !claim.IsPath(m.Path) {
			continue
		}
		if len(paths) == MostRoutePaths {
			break
		}
		seen[m.Path] = true
		paths = append(paths, RoutePath{Path: m.Path, rule: m.Rule, match: m.Index, child: m.Child})
	}
	return paths
}

// IsWholeAt says whether listeners of a parent serve a route as far as it asks there: by each of its references to it, and for each of its
// host names. has are the labels of the route's namespace.
func (r Route) IsWholeAt(p *Parent, has labels.Set) bool {
	refs, hosts := sets.New[int](), sets.New[int]()
	for l, i := range r.at(p, has) {
		refs.Insert(i)
		for _, host := range r.hostsAt(l) {
			hosts.Insert(host)
		}
	}
	for i, ref := range r.Parents {
		if r.ParentOf(ref) == p.ParentKey && !refs.Has(i) {
			return false
		}
	}
	for i := range r.Hosts {
		if !hosts.Has(i) {
			return false
		}
	}
	return true
}

// Served is what a route serves on Gateways: each of its paths on each of some hosts. Its points are in that order, of the hosts first.
type Served struct {
	Hosts []ServedHost
	Paths []RoutePath
}

// ServedHost is a host on a Gateway.
type ServedHost struct {
	On   types.NamespacedName
	Host string
	// host and parent are as those of a PathPoint.
	host, parent int
}

func (h ServedHost) key() ServedHost { return ServedHost{On: h.On, Host: h.Host} }

// AddHosts adds the hosts for which a route is served at the listeners of a parent, each of a Gateway once. has are the labels of the
// route's namespace. A route that is for no host name there has none.
func (s *Served) AddHosts(r Route, p *Parent, has labels.Set) {
	for l, parent := range r.at(p, has) {
		for host, i := range r.hostsAt(l) {
			h := ServedHost{p.On, host, i, parent}
			if !slices.ContainsFunc(s.Hosts, func(o ServedHost) bool { return o.key() == h.key() }) {
				s.Hosts = append(s.Hosts, h)
			}
		}
	}
}

// Total is how many points it has, of which no more than MostPathPoints count.
func (s *Served) Total() int { return len(s.Hosts) * len(s.Paths) }

// Points are those of the first MostPathPoints that are on some hosts, or on all for nil, and of some paths, likewise.
func (s *Served) Points(hosts, paths sets.Set[string]) (points []PathPoint) {
	for i, h := range s.Hosts {
		left := MostPathPoints - i*len(s.Paths)
		if left <= 0 {
			break
		}
		if hosts == nil || hosts.Has(h.Host) {
			points = h.add(points, s.Paths[:min(left, len(s.Paths))], func(path string) bool { return paths == nil || paths.Has(path) })
		}
	}
	return points
}

// add adds some paths of a host to points.
func (h ServedHost) add(points []PathPoint, paths []RoutePath, wanted func(string) bool) []PathPoint {
	var root claim.Coordinate
	for _, path := range paths {
		if !wanted(path.Path) {
			continue
		}
		if root.IsZero() {
			root = claim.HTTP(h.Host, "/").OnGateway(h.On)
		}
		if at := root.Sibling(path.Path); !at.IsZero() {
			points = append(points, PathPoint{At: at, path: path, host: h.host, parent: h.parent})
		}
	}
	return points
}

// Since are the points that another version did not have, or the first MostPathPoints of them, but for those on hosts that don't matter.
func (s *Served) Since(before *Served, matters func(host string) bool) (points []PathPoint) {
	hadHosts, hadPaths := sets.New[ServedHost](), sets.New[string]()
	for _, h := range before.Hosts {
		hadHosts.Insert(h.key())
	}
	for _, p := range before.Paths {
		hadPaths.Insert(p.Path)
	}
	for _, h := range s.Hosts {
		if len(points) >= MostPathPoints {
			return points[:MostPathPoints]
		}
		if matters(h.Host) {
			had := hadHosts.Has(h.key())
			points = h.add(points, s.Paths, func(path string) bool { return !had || !hadPaths.Has(path) })
		}
	}
	return points[:min(len(points), MostPathPoints)]
}

// FieldOf is where a route asks for a point, nil where it does not.
func (s *Served) FieldOf(at claim.Coordinate) *field.Path {
	h := slices.IndexFunc(s.Hosts, func(h ServedHost) bool { return h.On == at.Gateway() && h.Host == at.Host() })
	p := slices.IndexFunc(s.Paths, func(p RoutePath) bool { return p.Path == at.Path() })
	if h < 0 || p < 0 {
		return nil
	}
	return PathPoint{path: s.Paths[p], host: s.Hosts[h].host, parent: s.Hosts[h].parent}.Field()
}

// at are the listeners of a parent that serve a route, each with the reference of the route that names it. Those of streams serve none.
func (r Route) at(p *Parent, has labels.Set) iter.Seq2[gatewayv1.Listener, int] {
	return func(yield func(gatewayv1.Listener, int) bool) {
		for l, i := range r.attached(p, has) {
			if p.Class == "" && r.sharesHost(l) && !yield(l, i) {
				return
			}
		}
	}
}

// sharesHost says whether a route and a listener are for a host name that is the same, or one of them is for all.
func (r Route) sharesHost(l gatewayv1.Listener) bool {
	if len(r.Hosts) == 0 {
		return true
	}
	for range r.hostsAt(l) {
		return true
	}
	return false
}

// SlimHTTPPaths and SlimGRPCPaths are rules that serve the same paths as a route does, and say nothing else. share has equal paths take
// memory only once.
func SlimHTTPPaths(o *gatewayv1.HTTPRoute, share func(*string)) []gatewayv1.HTTPRouteRule {
	paths := PathsOf(o)
	if len(paths) == 0 {
		return nil
	}
	matches := make([]gatewayv1.HTTPRouteMatch, 0, len(paths))
	for _, p := range paths {
		path := p.Path
		share(&path)
		matches = append(matches, gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Type: &exactPath, Value: &path}})
	}
	return []gatewayv1.HTTPRouteRule{{Matches: matches}}
}

// exactPath is the type of all paths in the cache: as such, each is what it is.
var exactPath = gatewayv1.PathMatchExact

// SlimGRPCPaths does the same for a GRPCRoute.
func SlimGRPCPaths(o *gatewayv1.GRPCRoute, share func(*string)) []gatewayv1.GRPCRouteRule {
	paths := PathsOf(o)
	if len(paths) == 0 {
		return nil
	}
	matches := make([]gatewayv1.GRPCRouteMatch, 0, len(paths))
	for _, p := range paths {
		service, method, _ := strings.Cut(strings.TrimPrefix(p.Path, "/"), "/")
		if service == "" {
			matches = append(matches, gatewayv1.GRPCRouteMatch{})
			continue
		}
		match := &gatewayv1.GRPCMethodMatch{Service: &service}
		share(&service)
		if method != "" {
			share(&method)
			match.Method = &method
		}
		matches = append(matches, gatewayv1.GRPCRouteMatch{Method: match})
	}
	return []gatewayv1.GRPCRouteRule{{Matches: matches}}
}
