package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
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
		var named types.NamespacedName
		named, _, err = v.heirNow(ctx, giver.Holder)
		return named == heir
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
		return h.pathLook().having(ctx, namespace, at)
	default:
		return h.using(ctx, at.Host(), namespace)
	}
}

// stated is a user of a name with the one to whom it hands over what it has, with nobody while replicas run that know of no heirs.
func (h *Hosts) stated(ctx context.Context, user hostname.User) hostname.User {
	if user.HandsOver() && h.http.withoutHeirs.run(ctx) {
		user.Heir = types.NamespacedName{}
	}
	return user
}

// having are the routes of a namespace that serve a path.
func (l *pathLook) having(ctx context.Context, namespace string, at claim.Coordinate) (users []hostname.User, err error) {
	err = l.hosts.each(ctx, l.hosts.pathKinds(), namespace, []string{at.Host()}, func(obj client.Object) error {
		serves, err := l.serves(ctx, obj, at)
		if err == nil && serves {
			user, _ := hostname.Of(obj, l.hosts.http.Defaults)
			users = append(users, l.hosts.stated(ctx, user))
		}
		return err
	})
	return users, err
}

// Having are the objects of a namespace that have a point.
func (f *Facts) Having(namespace string, at claim.Coordinate) []hostname.User {
	return once(f, func(ctx context.Context) ([]hostname.User, error) { return f.ask.hosts.having(ctx, namespace, at) })
}

// Names says whether an object says that it hands over what it has to another one. Of one that does not, as far as the cache knows,
// admission asks past that, as HandsOver does.
func (f *Facts) Names(giver *hostname.User, heir types.NamespacedName) bool {
	return giver.Heir == heir || f.namesNow(giver.Holder, heir)
}
