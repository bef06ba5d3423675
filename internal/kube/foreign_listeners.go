package kube

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// ForeignListeners are who has which ports on the Gateway of a class, of all that Portcullis has not made for it: the Gateway's own
// listeners, and those of other ListenerSets that it lets attach; and the same of Gateways that have an address in common with it, whose
// classes claim the ports of their streams themselves. Nobody is told of twice; the Gateway comes first, then the oldest, as it does by the
// Gateway API.
func (g *Gateways) ForeignListeners(
	ctx context.Context, class string, gateway *gatewayv1.Gateway,
) (map[stream.PortKey]claim.Claimant, error) {
	return g.foreignListeners(ctx, class, gateway, "")
}

// foreignListeners does so for those listeners whose ListenerSets are indexed by their Gateway and a suffix.
func (g *Gateways) foreignListeners(
	ctx context.Context, class string, gateway *gatewayv1.Gateway, suffix string,
) (map[stream.PortKey]claim.Claimant, error) {
	foreign := ownListeners(gateway)
	if known, err := g.prepared(ctx); !known || err != nil {
		return foreign, err
	}
	isOwn := func(set *gatewayv1.ListenerSet) bool { return set.Labels[v1beta1.LabelClass] == class }
	if err := g.noteAttached(ctx, foreign, gateway, suffix, isOwn); err != nil {
		return nil, err
	}
	var gateways gatewayv1.GatewayList
	if len(gateway.Status.Addresses) == 0 {
		return foreign, nil
	}
	if err := g.objects.Reader.List(ctx, &gateways); err != nil {
		return nil, err
	}
	for i := range gateways.Items {
		other := &gateways.Items[i]
		if other.UID == gateway.UID || !stream.HaveInCommon(gateway, other) {
			continue
		}
		for at, by := range ownListeners(other) {
			if _, known := foreign[at]; !known {
				foreign[at] = by
			}
		}
		if err := g.noteAttached(ctx, foreign, other, suffix, func(*gatewayv1.ListenerSet) bool { return true }); err != nil {
			return nil, err
		}
	}
	return foreign, nil
}

// onPort is the suffix of a Gateway by which ListenerSets with a listener on a port are indexed.
func onPort(port stream.PortKey) string { return " " + port.String() }

// attachedTo are the keys of a ListenerSet in the index of those: its Gateway, and that with each port.
func attachedTo(set *gatewayv1.ListenerSet) []string {
	gateway := GatewayOf(set).String()
	keys := []string{gateway}
	for _, l := range set.Spec.Listeners {
		for _, port := range stream.PortsOf(l.Port, l.Protocol) {
			keys = append(keys, gateway+onPort(port))
		}
	}
	return keys
}

// noteAttached notes who has the ports of the ListenerSets that a Gateway lets attach, but for those of ours that isOwn is told of.
func (g *Gateways) noteAttached(
	ctx context.Context, to map[stream.PortKey]claim.Claimant, gateway *gatewayv1.Gateway, suffix string,
	isOwn func(*gatewayv1.ListenerSet) bool,
) error {
	var list gatewayv1.ListenerSetList
	key := client.ObjectKeyFromObject(gateway).String() + suffix
	if err := g.objects.Reader.List(ctx, &list, client.MatchingFields{IndexAttached: key}); err != nil {
		return err
	}
	sets := slices.DeleteFunc(list.Items, func(set gatewayv1.ListenerSet) bool {
		return set.Namespace == gateway.Namespace && IsListenerSet(&set) && isOwn(&set)
	})
	slices.SortFunc(sets, compareSets)
	for i := range sets {
		set := &sets[i]
		attaches, err := g.Attaches(ctx, gateway, set)
		if err != nil {
			return err
		}
		if !attaches {
			continue
		}
		for _, l := range set.Spec.Listeners {
			noteListener(to, stored(claim.ListenerSetHolder(set.Namespace, set.Name), set.UID), l.Port, l.Protocol)
		}
	}
	return nil
}

// ownListeners are the ports that a Gateway has itself.
func ownListeners(gateway *gatewayv1.Gateway) map[stream.PortKey]claim.Claimant {
	own := map[stream.PortKey]claim.Claimant{}
	for _, l := range gateway.Spec.Listeners {
		noteListener(own, stored(claim.GatewayHolder(gateway.Namespace, gateway.Name), gateway.UID), l.Port, l.Protocol)
	}
	return own
}

// noteListener notes who has the ports of a listener, unless somebody has come first.
func noteListener(to map[stream.PortKey]claim.Claimant, holder claim.Claimant, port int32, protocol gatewayv1.ProtocolType) {
	for _, at := range stream.PortsOf(port, protocol) {
		if _, known := to[at]; !known {
			to[at] = holder
		}
	}
}

// Attaches says whether a Gateway lets a ListenerSet attach that names it.
func (g *Gateways) Attaches(ctx context.Context, gateway *gatewayv1.Gateway, set *gatewayv1.ListenerSet) (bool, error) {
	has, err := g.objects.NamespaceLabels(ctx, set.Namespace)
	return err == nil && stream.AllowsListeners(gateway, set.Namespace, has), err
}

// Selects says whether a Gateway that is known lets ListenerSets attach by the labels of their namespace.
func (g *Gateways) Selects(ctx context.Context, key types.NamespacedName) bool {
	gateway := &gatewayv1.Gateway{}
	if !g.isAsked() {
		return false
	}
	found, err := g.get(ctx, key, gateway)
	allowed := gateway.Spec.AllowedListeners
	return err == nil && found && allowed != nil && allowed.Namespaces != nil && allowed.Namespaces.Selector != nil
}

// AttachedTo is the Gateway that a ListenerSet attaches to, nil if it names none that lets it.
func (g *Gateways) AttachedTo(ctx context.Context, set *gatewayv1.ListenerSet) (*gatewayv1.Gateway, error) {
	gateway := &gatewayv1.Gateway{}
	if found, err := g.get(ctx, GatewayOf(set), gateway); err != nil || !found {
		return nil, err
	}
	if attaches, err := g.Attaches(ctx, gateway, set); err != nil || !attaches {
		return nil, err
	}
	return gateway, nil
}

// Foreign finds who has a port on the Gateway of a class, of all that Portcullis has not made for it; ok is false for nobody. It has the
// Gateway API read from now on. Until it is, the Gateway's own listeners, which are looked for past the cache, are all that counts.
func (g *Gateways) Foreign(
	ctx context.Context, class *v1beta1.StreamIngressClass, port stream.PortKey,
) (by claim.Claimant, ok bool, err error) {
	g.Ask()
	gateway := &gatewayv1.Gateway{}
	found, err := g.get(ctx, keyOf(*class.Spec.Gateway), gateway)
	if err == nil && !found {
		return by, false, nil
	}
	var all map[stream.PortKey]claim.Claimant
	if err == nil {
		all, err = g.foreignListeners(ctx, class.Name, gateway, onPort(port))
	}
	if IsUnread(err) {
		if gateway, err = readBy[gatewayv1.Gateway](ctx, g.objects.live, keyOf(*class.Spec.Gateway)); gateway != nil {
			all = ownListeners(gateway)
		}
	}
	by, ok = all[port]
	return by, ok && err == nil, err
}
