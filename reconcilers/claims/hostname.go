package claims

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// hostnameWants says whether anything in the namespace that holds a host name uses it, and a policy still gives names to namespaces there.
// Of a name that is used no longer, the object for which it was promised may be stored without it.
func (s *holderReading) hostnameWants(ctx context.Context, c *v1beta1.EdgeClaim, at claim.Coordinate) (seen claim.HolderState, err error) {
	namespace := s.holder.Name
	used := s.stored.Hosts[at.Host()]
	if !s.isLive {
		if used, err = s.view.Hosts.UsedIn(ctx, namespace, at.Host()); err != nil {
			return seen, err
		}
	}
	if used && s.view.Hosts.Policies().Owner(at.Host()) != nil {
		return claim.HolderState{Exists: true, Wants: true}, nil
	}
	if version, there := s.stored.Versions[c.Spec.Holder.UID]; there {
		return claim.HolderState{Exists: true, UID: c.Spec.Holder.UID, Generation: claim.Version(version)}, nil
	}
	return seen, nil
}

// routePathWants says whether a route in the namespace that holds a path serves it. Of one that is served no longer, the object for which
// it was promised may be stored without it.
func (s *holderReading) routePathWants(c *v1beta1.EdgeClaim, at claim.Coordinate) claim.HolderState {
	if s.stored.Paths[at] {
		return claim.HolderState{Exists: true, Wants: true}
	}
	if version, there := s.stored.Versions[c.Spec.Holder.UID]; there {
		return claim.HolderState{Exists: true, UID: c.Spec.Holder.UID, Generation: claim.Version(version)}
	}
	return claim.HolderState{}
}

// namespaceAsks says whether the object for which a namespace was promised a host name, or a path, is stored as it was admitted then, and
// the namespace uses it.
func (s *holderReading) namespaceAsks(ctx context.Context, c *v1beta1.EdgeClaim) (claim.HolderState, error) {
	at, promised := coordinateOf(c), c.Spec.Holder
	seen := claim.HolderState{UID: promised.UID, Generation: promised.Generation}
	if s.isLive {
		version, there := s.stored.Versions[promised.UID]
		seen.Exists = there && claim.Version(version) >= promised.Generation
		seen.Wants = seen.Exists && (s.stored.Hosts[at.Host()] && at.IsHostname() || s.stored.Paths[at])
		return seen, nil
	}
	seen.Exists = s.view.Claims.Stored(ctx, claim.Claimant{Holder: s.holder, UID: promised.UID, Generation: promised.Generation})
	if !seen.Exists {
		return seen, nil
	}
	var err error
	if seen.Wants = s.stored.Paths[at]; at.IsHostname() {
		seen.Wants, err = s.view.Hosts.UsedIn(ctx, s.holder.Name, at.Host())
	}
	return seen, err
}

// readNamespace reads, past the cache, which host names and paths a namespace uses; of the cache each name is asked for by itself.
func (s *holderReading) readNamespace(ctx context.Context) (err error) {
	paths, names := slices.ContainsFunc(s.held, claim.Coordinate.IsRoutePath), slices.ContainsFunc(s.held, claim.Coordinate.IsHostname)
	switch {
	case s.isLive && (paths || names):
		s.stored, err = s.view.Hosts.Look(s.reader).In(ctx, s.holder.Name, names, paths)
	case paths:
		s.stored.Paths, err = s.view.Hosts.PathsIn(ctx, s.holder.Name)
	}
	return err
}

// mergeRoutes is how long a namespace is left alone whose route is gone, or one of whose claims on paths is new: others are about to go, or
// come, with it, and each look reads the whole namespace.
const mergeRoutes = 250 * time.Millisecond

// onHostUser looks at the host names of the namespace of an object that uses some no longer, or comes to use some that are handed over to
// the namespace, and at the paths of routes. Of these one look is for all that go at a time: which have gone kube.Claims.Departed knows.
func (r *claimReconciler) onHostUser() handler.TypedEventHandler[client.Object, claimRequest] {
	look := func(q claimQueue, obj client.Object, gone types.UID) {
		holder := claim.NamespaceHolder(obj.GetNamespace())
		if _, isRoute := guard.OfRoute(obj); isRoute {
			q.AddAfter(claimRequest{Holder: holder}, mergeRoutes)
			return
		}
		q.Add(claimRequest{Holder: holder, Gone: gone})
	}
	return handler.TypedFuncs[client.Object, claimRequest]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q claimQueue) {
			holder := claim.NamespaceHolder(e.Object.GetNamespace())
			if promised, err := r.View.Claims.ToInherit(ctx, holder); err != nil || len(promised) > 0 {
				look(q, e.Object, "")
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q claimQueue) {
			if !sameHosts(r.View, e.ObjectOld, e.ObjectNew) {
				look(q, e.ObjectNew, goneBy(e))
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q claimQueue) {
			if user, _ := hostname.Of(e.Object, r.View.Ingresses.Defaults); len(user.Names) > 0 || user.IsRoute() {
				look(q, e.Object, e.Object.GetUID())
			}
		},
	}
}

// sameHosts says whether two versions of an object use the same host names, and serve the same paths, as far as these follow from the
// object. Routes may take some over from what they attach to.
func sameHosts(view *kube.View, before, after client.Object) bool {
	was, _ := hostname.Of(before, view.Ingresses.Defaults)
	is, _ := hostname.Of(after, view.Ingresses.Defaults)
	return was.UID == is.UID && was.Same(is) && (!is.IsRoute() || kube.IsSameRoute(before, after))
}

// onHostParent looks at the claims on host names of the listeners of a Gateway or a ListenerSet that has them no longer, or lets others
// attach: routes may have taken them over from there. So it does at those on paths that routes serve on a Gateway, or by a ListenerSet: any
// tenant may change one of its own, again and again.
func (r *claimReconciler) onHostParent() handler.TypedEventHandler[client.Object, claimRequest] {
	changed := func(before, after client.Object) bool { return before.GetGeneration() != after.GetGeneration() }
	return onLost(changed, func(ctx context.Context, obj client.Object, q claimQueue) {
		for _, req := range r.holdersOf(ctx, r.View.Hosts.Beneath(ctx, obj)) {
			q.Add(req)
		}
		for _, req := range r.pathHoldersBy(ctx, obj) {
			q.AddAfter(req, mergeRoutes)
		}
	})
}

// holdersOf are those who hold some host names.
func (r *claimReconciler) holdersOf(ctx context.Context, hosts []string) (requests []claimRequest) {
	for _, host := range hosts {
		if c, err := r.View.Claim(ctx, claim.Hostname(host).Name()); err == nil && c != nil {
			requests = append(requests, claimRequest{Holder: claim.HolderOf(c)})
		}
	}
	return requests
}

// pathHoldersBy are those who hold paths that routes serve on a Gateway, or may hold some by a ListenerSet that their routes name.
func (r *claimReconciler) pathHoldersBy(ctx context.Context, parent client.Object) (requests []claimRequest) {
	set, is := parent.(*gatewayv1.ListenerSet)
	if !is {
		return r.pathHoldersOn(ctx, client.ObjectKeyFromObject(parent))
	}
	for _, namespace := range r.View.Hosts.NamespacesOn(ctx, set) {
		requests = append(requests, claimRequest{Holder: claim.NamespaceHolder(namespace)})
	}
	return requests
}

// pathHoldersOn are those who hold paths that routes serve on some Gateways.
func (r *claimReconciler) pathHoldersOn(ctx context.Context, gateways ...types.NamespacedName) []claimRequest {
	var all []*v1beta1.EdgeClaim
	for _, gateway := range gateways {
		held, err := r.View.Claims.OnGatewayPaths(ctx, gateway)
		if err != nil {
			log.FromContext(ctx).Error(err, "could not list the claims on paths of a Gateway", "gateway", gateway)
		}
		all = append(all, held...)
	}
	return requestsOf(all)
}

// onHostPolicies looks at all host names that are held: the policies may give them to nobody any longer.
func (r *claimReconciler) onHostPolicies(ctx context.Context) []claimRequest {
	held, err := r.View.Hosts.Claims(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the claims on host names")
	}
	return requestsOf(held)
}
