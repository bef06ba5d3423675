package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/hostname"
)

// namespaceHandsOver says whether a namespace hands over a host name, or a path of routes, to an object of another one: all of its objects
// that have the point say so now. Which those are the cache knows: one that it does not show yet is in flight, and then nothing is handed
// over; see claim.Ledger.
func (v *View) namespaceHandsOver(
	ctx context.Context, namespace string, at claim.Coordinate, to claim.Holder, promised bool,
) (bool, error) {
	having, err := v.Hosts.having(ctx, namespace, at)
	if err != nil || len(having) == 0 {
		return err == nil && promised, err
	}
	if to == (claim.Holder{}) {
		return false, nil
	}
	names := hostname.AllName(having, to.Key(), func(giver *hostname.User, heir types.NamespacedName) bool {
		if err != nil {
			return false
		}
		var now namedHeir
		now, err = v.heirNow(ctx, giver.Holder)
		return now.NamespacedName == heir
	})
	return err == nil && names, err
}

// having are the objects of a namespace that have a point: that use a host name, as far as it is judged in them, or routes that serve a
// path.
func (h *Hosts) having(ctx context.Context, namespace string, at claim.Coordinate) ([]hostname.User, error) {
	switch {
	case namespace == "": // which stands for all
		return nil, nil
	case at.IsRoutePath():
		points := claim.PointsWith(ctx, at)
		look := func() (map[claim.Coordinate][]hostname.User, error) {
			return h.pathLook().having(ctx, namespace, points)
		}
		if len(points) == 1 {
			having, err := look()
			return having[at], err
		}
		type question struct{ namespace string }
		having, err := claim.Once(ctx, question{namespace}, look)
		return having[at], err
	default:
		return h.using(ctx, at.Host(), namespace)
	}
}

// stated is a user of a name with the one to whom it hands over what it has, with nobody unless all replicas that run know of heirs.
func (h *Hosts) stated(ctx context.Context, user hostname.User) hostname.User {
	if user.HandsOver() && !h.http.HeirsKnown(ctx) {
		user.Heir = types.NamespacedName{}
	}
	return user
}

// having are the routes of a namespace that serve some paths, by these: of each as many as tell that they are more than hand one over. Each
// route is looked at once, however many paths are asked for.
func (l *pathLook) having(
	ctx context.Context, namespace string, points []claim.Coordinate,
) (map[claim.Coordinate][]hostname.User, error) {
	users, of := map[claim.Coordinate][]hostname.User{}, askedFor(points)
	err := l.hosts.each(ctx, l.hosts.pathKinds(), namespace, sets.List(of.hosts), func(obj client.Object) error {
		served, err := l.points(ctx, obj, of)
		if err != nil || len(served) == 0 {
			return err
		}
		user, _ := hostname.Of(obj, l.hosts.http.Defaults)
		user = l.hosts.stated(ctx, user)
		for _, p := range served {
			if len(users[p.At]) <= hostname.MostGivers {
				users[p.At] = append(users[p.At], user)
			}
		}
		return nil
	})
	return users, err
}

// Having are the objects of a namespace that have a point.
func (f *Facts) Having(namespace string, at claim.Coordinate) []hostname.User {
	return once(f, func(ctx context.Context) ([]hostname.User, error) { return f.ask.hosts.having(ctx, namespace, at) })
}

// HavingPaths are the routes of a namespace that serve some paths, by these; of very many that serve one not all.
func (f *Facts) HavingPaths(namespace string, points []claim.Coordinate) map[claim.Coordinate][]hostname.User {
	if namespace == "" { // which stands for all
		return nil
	}
	return once(f, func(ctx context.Context) (map[claim.Coordinate][]hostname.User, error) {
		return f.pathsLook().having(ctx, namespace, points)
	})
}

// Names says whether an object says that it hands over what it has to another one. Of one that does not, as far as the cache knows,
// admission asks past that, as HandsOver does.
func (f *Facts) Names(giver *hostname.User, heir types.NamespacedName) bool {
	return (giver.Heir == heir || f.namesNow(giver.Holder, heir)) && f.heirsKnown()
}
