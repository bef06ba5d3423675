package claims

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
)

// listenerWants says whether a Gateway or a ListenerSet that holds a point of a Gateway is there, and listens at it. Nobody wants any while
// listeners are not guarded.
func (s *holderReading) listenerWants(ctx context.Context, at claim.Coordinate) (seen claim.HolderState, err error) {
	if !s.view.Gateways.Guarded.Guards(guard.Listeners()...) {
		return seen, nil
	}
	if at.IsHosts() {
		var names v1beta1.EdgeClaimList
		err := s.reader.List(ctx, &names, client.MatchingFields{kube.IndexScope: at.HostsScope()}, client.Limit(1))
		return claim.HolderState{Exists: true, Wants: len(names.Items) > 0}, err
	}
	opener, gateway, err := s.opener(ctx)
	if err != nil || opener == nil {
		return seen, err
	}
	seen = claim.HolderState{Exists: true, UID: opener.UID, Generation: opener.Generation}
	if gateway == nil || !opener.Stands(at) {
		return seen, nil
	}
	scopes, _, err := s.view.Gateways.Reach(ctx, gateway)
	for _, scope := range scopes {
		seen.Wants = seen.Wants || scope == at.Gateway()
	}
	return seen, err
}

// opener is the holder with its listeners, nil if it is not there, and the Gateway that they are on, nil for none.
func (s *holderReading) opener(ctx context.Context) (*guard.Opener, *gatewayv1.Gateway, error) {
	if s.holder == claim.GatewayHolder(s.holder.Namespace, s.holder.Name) {
		gateway := &gatewayv1.Gateway{}
		found, err := s.readLate(ctx, s.holder.Key(), gateway)
		if err != nil || !found {
			return nil, nil, err
		}
		opener := guard.OfGateway(gateway)
		return &opener, gateway, nil
	}
	set := &gatewayv1.ListenerSet{}
	found, err := s.readLate(ctx, s.holder.Key(), set)
	if err != nil || !found {
		return nil, nil, err
	}
	opener := guard.OfListenerSet(set, kube.GatewayOf(set))
	gateway, err := s.attachedTo(ctx, set)
	return &opener, gateway, err
}

// attachedTo is the Gateway that lets a ListenerSet attach, nil for none, and for one of ours: on the listeners of streams nobody holds
// anything.
func (s *holderReading) attachedTo(ctx context.Context, set *gatewayv1.ListenerSet) (*gatewayv1.Gateway, error) {
	if own, err := s.view.Gateways.IsOwn(ctx, set); err != nil || own {
		return nil, err
	}
	gateway := &gatewayv1.Gateway{}
	if found, err := s.readLate(ctx, kube.GatewayOf(set), gateway); err != nil || !found {
		return nil, err
	}
	if attaches, err := s.view.Gateways.Attaches(ctx, gateway, set); err != nil || !attaches {
		return nil, err
	}
	return gateway, nil
}

// readLate reads an object of a kind that may not be installed; found is false then, too.
func (s *holderReading) readLate(ctx context.Context, key types.NamespacedName, obj client.Object) (found bool, err error) {
	found, err = s.read(ctx, key, obj)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return found, err
}

// enqueueHosts asks for a look at the claim which says of a port that it is shared by host name, as one of the names there is gone.
func enqueueHosts(q claimQueue, at claim.Coordinate) {
	if at.IsListener() && at.ListenerHost() != "" {
		gateway := at.Gateway()
		q.Add(claimRequest{
			Holder: claim.GatewayHolder(gateway.Namespace, gateway.Name), At: claim.Listener(gateway, claim.HTTPListener, at.Port()),
		})
	}
}

// guarded are all who listen on Gateways, or route from there, those of a namespace, or all of them for "", of whom it has changed which
// Gateway lets them attach, and with which others that is at an address.
func (r *claimReconciler) guarded(ctx context.Context, namespace string) []claimRequest {
	if len(r.View.Gateways.Guarded.Among(slices.Concat(guard.Listeners(), guard.Routes())...)) == 0 {
		return nil
	}
	by := []client.ListOption{client.InNamespace("")} // all of them
	if namespace != "" {
		by = []client.ListOption{
			client.MatchingFields{kube.IndexShare: kube.ShareOf(namespace, claim.GatewayScope)},
			client.MatchingFields{kube.IndexShare: kube.ShareOf(namespace, claim.RouteScope)},
		}
	}
	holders := sets.New[claimRequest]()
	for _, selected := range by {
		var claims v1beta1.EdgeClaimList
		if err := r.View.Reader.List(ctx, &claims, selected); err != nil {
			log.FromContext(ctx).Error(err, "could not list claims")
		}
		for i := range claims.Items {
			if at := coordinateOf(&claims.Items[i]); at.IsListener() || at.IsRoute() {
				holders.Insert(claimRequest{Holder: claim.HolderOf(&claims.Items[i])})
			}
		}
	}
	return holders.UnsortedList()
}
