package kube

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
)

// pathKinds are the kinds of routes whose paths are guarded.
func (h *Hosts) pathKinds() []routeKind {
	return slices.DeleteFunc(h.routes(), func(k routeKind) bool { return !slices.Contains(guard.Paths(), k.kind) })
}

// GuardsPaths says whether the paths of routes are guarded.
func (h *Hosts) GuardsPaths() bool { return h.Guarded.Guards(guard.Paths()...) }

// HasPaths says whether an object is a route whose paths are guarded.
func (h *Hosts) HasPaths(obj client.Object) bool {
	route, _ := guard.OfRoute(obj)
	return h.judgesPathsOf(route.Kind)
}

func (h *Hosts) judgesPathsOf(kind guard.Kind) bool {
	return slices.Contains(guard.Paths(), kind) && h.Guarded.Guards(kind)
}

// readParent reads what a route attaches to, nil for what is not there.
type readParent func(context.Context, guard.ParentKey) (*guard.Parent, error)

// readLabels reads the labels of a namespace.
type readLabels func(ctx context.Context, namespace string) (labels.Set, error)

// asked are the points that somebody asks for: those of some hosts, or of all for nil, and of some paths, likewise.
type asked struct {
	hosts, paths sets.Set[string]
}

// askedFor are some points, and all others of their hosts and paths.
func askedFor(points []claim.Coordinate) asked {
	of := asked{sets.New[string](), sets.New[string]()}
	for _, at := range points {
		of.hosts.Insert(at.Host())
		of.paths.Insert(at.Path())
	}
	return of
}

// served is what an object, if it is a route of a guarded kind, serves at its parents, but for its paths. has are the labels of its
// namespace.
func (h *Hosts) served(ctx context.Context, obj metav1.Object, has labels.Set, read readParent) (served guard.Served, err error) {
	route, _ := guard.OfRoute(obj)
	if !h.judgesPathsOf(route.Kind) {
		return served, nil
	}
	parents, err := parentsOf(ctx, route, read)
	for _, parent := range parents {
		served.AddHosts(route, parent, has)
	}
	return served, err
}

// parentsOf reads what a route attaches to, as far as it is there.
func parentsOf(ctx context.Context, route guard.Route, read readParent) (parents []*guard.Parent, err error) {
	for _, key := range route.ParentKeys() {
		parent, err := read(ctx, key)
		if err != nil {
			return nil, err
		}
		if parent != nil {
			parents = append(parents, parent)
		}
	}
	return parents, nil
}

// paths are those that an object serves, as far as they are asked for, each once.
func (h *Hosts) paths(ctx context.Context, obj metav1.Object, has labels.Set, of asked, read readParent) ([]guard.PathPoint, error) {
	served, err := h.served(ctx, obj, has, read)
	if err != nil || !slices.ContainsFunc(served.Hosts, func(on guard.ServedHost) bool { return of.hosts == nil || of.hosts.Has(on.Host) }) {
		return nil, err // of most routes no paths are asked for
	}
	served.Paths = guard.PathsOf(obj)
	return served.Points(of.hosts, of.paths), nil
}

// ServedNow is what some versions of a route serve, by the same parents, at admission. has are the labels of its namespace. A parent of
// which the cache shows no listener for one of the route's references or host names is looked for past it, as any may have been made, or
// changed, a moment ago.
func (h *Hosts) ServedNow(ctx context.Context, has labels.Set, versions ...metav1.Object) (all []guard.Served, err error) {
	known, looks := map[guard.ParentKey]*guard.Parent{}, 0
	for _, version := range versions {
		route, _ := guard.OfRoute(version)
		served, err := h.served(ctx, version, has, func(ctx context.Context, key guard.ParentKey) (*guard.Parent, error) {
			if parent, read := known[key]; read {
				return parent, nil
			}
			parent, err := h.gateways.Parent(ctx, key)
			if err == nil && (parent == nil || !route.IsWholeAt(parent, has)) && looks < mostLooks {
				looks++
				parent, err = h.gateways.parentNow(ctx, key)
			}
			known[key] = parent
			return parent, err
		})
		if err != nil {
			return nil, err
		}
		served.Paths = guard.PathsOf(version)
		all = append(all, served)
	}
	return all, nil
}

// parentsOnce reads what routes attach to of the cache, each once for one look: thousands of routes may share it.
func (h *Hosts) parentsOnce() readParent {
	parents := map[guard.ParentKey]*guard.Parent{}
	return func(ctx context.Context, key guard.ParentKey) (*guard.Parent, error) {
		return readOnce(ctx, parents, key, h.gateways.Parent)
	}
}

// readOnce reads what is not known yet, and keeps it unless that fails.
func readOnce[K comparable, V any](ctx context.Context, known map[K]V, key K, read func(context.Context, K) (V, error)) (V, error) {
	if value, is := known[key]; is {
		return value, nil
	}
	value, err := read(ctx, key)
	if err == nil {
		known[key] = value
	}
	return value, err
}

// pathLook is one look at the routes of the cache: each parent is read once for it.
type pathLook struct {
	hosts   *Hosts
	parents readParent
}

func (h *Hosts) pathLook() *pathLook { return &pathLook{h, h.parentsOnce()} }

// users are the routes that serve points that are asked for, with these. Any number of routes may be on a host, or have those of listeners:
// each is looked at once, however many hosts are asked for, and nothing is kept of those that serve other paths.
func (l *pathLook) users(ctx context.Context, of asked) (users []hostname.PathUser, err error) {
	err = l.hosts.each(ctx, l.hosts.pathKinds(), "", sets.List(of.hosts), func(obj client.Object) error {
		points, err := l.points(ctx, obj, of)
		if err == nil && len(points) > 0 {
			user, _ := hostname.Of(obj, l.hosts.http.Defaults)
			users = append(users, hostname.PathUser{User: l.hosts.stated(ctx, user), Points: points})
		}
		return err
	})
	return users, err
}

// isServed says whether a route of a namespace serves a point.
func (l *pathLook) isServed(ctx context.Context, namespace string, at claim.Coordinate) (served bool, err error) {
	if namespace == "" { // which stands for all
		return false, nil
	}
	err = l.hosts.each(ctx, l.hosts.pathKinds(), namespace, []string{at.Host()}, func(obj client.Object) (err error) {
		if !served {
			served, err = l.serves(ctx, obj, at)
		}
		return err
	})
	return served, err
}

// serves says whether a route serves a point.
func (l *pathLook) serves(ctx context.Context, obj client.Object, at claim.Coordinate) (bool, error) {
	points, err := l.points(ctx, obj, asked{sets.New(at.Host()), sets.New(at.Path())})
	return slices.ContainsFunc(points, func(p guard.PathPoint) bool { return p.At == at }), err
}

// points are those of a route that are asked for.
func (l *pathLook) points(ctx context.Context, obj client.Object, of asked) ([]guard.PathPoint, error) {
	has, err := l.hosts.objects.NamespaceLabels(ctx, obj.GetNamespace())
	if err != nil {
		return nil, err
	}
	return l.hosts.paths(ctx, obj, has, of, l.parents)
}

var _ hostname.PathFacts = &Facts{}

// PathUsers are the routes that serve paths of a host, with these.
func (f *Facts) PathUsers(host string) []hostname.PathUser {
	return once(f, func(ctx context.Context) ([]hostname.PathUser, error) {
		return f.pathsLook().users(ctx, asked{hosts: sets.New(host)})
	})
}

// Serving are the routes that serve any of some points, with those of their hosts and paths.
func (f *Facts) Serving(points []claim.Coordinate) []hostname.PathUser {
	of := askedFor(points)
	return once(f, func(ctx context.Context) ([]hostname.PathUser, error) { return f.pathsLook().users(ctx, of) })
}

// IsPathServed says whether a route of a namespace serves a point.
func (f *Facts) IsPathServed(namespace string, at claim.Coordinate) bool {
	return once(f, func(ctx context.Context) (bool, error) { return f.pathsLook().isServed(ctx, namespace, at) })
}

// pathsLook is the one look of a decision.
func (f *Facts) pathsLook() *pathLook {
	if f.paths == nil {
		f.paths = f.ask.hosts.pathLook()
	}
	return f.paths
}

// PathsIn are the paths that the routes of a namespace serve.
func (h *Hosts) PathsIn(ctx context.Context, namespace string) (map[claim.Coordinate]bool, error) {
	paths, read := map[claim.Coordinate]bool{}, h.parentsOnce()
	err := h.each(ctx, h.pathKinds(), namespace, nil, func(obj client.Object) error {
		return h.notePaths(ctx, obj, h.objects.NamespaceLabels, read, paths)
	})
	return paths, err
}

// notePaths notes the paths that an object serves.
func (h *Hosts) notePaths(
	ctx context.Context, obj client.Object, labelsOf readLabels, read readParent, noted map[claim.Coordinate]bool,
) error {
	if !h.HasPaths(obj) {
		return nil
	}
	has, err := labelsOf(ctx, obj.GetNamespace())
	if err != nil {
		return err
	}
	points, err := h.paths(ctx, obj, has, asked{}, read)
	for _, p := range points {
		noted[p.At] = true
	}
	return err
}

// EachPath calls a function with each path that routes serve, and the route, as the cache has them.
func (h *Hosts) EachPath(ctx context.Context, do func(hostname.User, claim.Coordinate)) error {
	read := h.parentsOnce()
	return h.each(ctx, h.pathKinds(), "", nil, func(obj client.Object) error {
		paths := map[claim.Coordinate]bool{}
		err := h.notePaths(ctx, obj, h.objects.NamespaceLabels, read, paths)
		user, _ := hostname.Of(obj, h.http.Defaults)
		for at := range paths {
			do(user, at)
		}
		return err
	})
}
