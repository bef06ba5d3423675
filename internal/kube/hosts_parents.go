package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
)

// OnParent are the host names that routes of guarded kinds say which name a Gateway, or one of its ListenerSets, or a ListenerSet: they may
// come to be served there, or be served there no longer. While a kind is yet to be read there are none: all is looked at when it has been.
func (h *Hosts) OnParent(ctx context.Context, parent client.Object) []string {
	key := guard.ParentKey{Kind: guard.ListenerSet, NamespacedName: client.ObjectKeyFromObject(parent)}
	if _, is := parent.(*gatewayv1.Gateway); !is {
		return h.onParents(ctx, []guard.ParentKey{key})
	}
	key.Kind = guard.Gateway
	sets := h.sets(ctx, client.MatchingFields{IndexAttached: client.ObjectKeyFromObject(parent).String()})
	return h.onParents(ctx, append(keysOf(sets), key))
}

// OnSetsIn are those of the ListenerSets of a namespace, which Gateways may let attach by its labels.
func (h *Hosts) OnSetsIn(ctx context.Context, namespace string) []string {
	return h.onParents(ctx, keysOf(h.sets(ctx, client.InNamespace(namespace))))
}

// GatewaysOfSetsIn are the Gateways that the ListenerSets of a namespace name.
func (h *Hosts) GatewaysOfSetsIn(ctx context.Context, namespace string) (gateways []types.NamespacedName) {
	sets := h.sets(ctx, client.InNamespace(namespace))
	for i := range sets {
		gateways = append(gateways, GatewayOf(&sets[i]))
	}
	return gateways
}

// onParents are the host names that routes say which name some parents.
func (h *Hosts) onParents(ctx context.Context, parents []guard.ParentKey) []string {
	hosts := sets.New[string]()
	h.eachOn(ctx, parents, func(obj client.Object) {
		user, _ := hostname.Of(obj, h.http.Defaults)
		for _, n := range user.Names {
			hosts.Insert(n.Host)
		}
	})
	return sets.List(hosts)
}

// NamespacesOn are those of the routes with guarded paths that name a ListenerSet.
func (h *Hosts) NamespacesOn(ctx context.Context, set *gatewayv1.ListenerSet) []string {
	namespaces := sets.New[string]()
	h.eachOn(ctx, keysOf([]gatewayv1.ListenerSet{*set}), func(obj client.Object) { namespaces.Insert(obj.GetNamespace()) })
	return sets.List(namespaces)
}

// eachOn calls a function with the routes that name some parents.
func (h *Hosts) eachOn(ctx context.Context, parents []guard.ParentKey, do func(client.Object)) {
	for _, k := range h.pathKinds() {
		if known, err := h.prepared(ctx, k.object); err != nil || !known {
			continue
		}
		for _, key := range parents {
			_ = h.eachIn(ctx, k, []client.ListOption{client.MatchingFields{indexParent: indexedParent(key)}}, func(obj client.Object) error {
				do(obj)
				return nil
			})
		}
	}
}

// sets are some ListenerSets.
func (h *Hosts) sets(ctx context.Context, selected client.ListOption) []gatewayv1.ListenerSet {
	var list gatewayv1.ListenerSetList
	if !h.GuardsPaths() {
		return nil
	}
	if known, err := h.gateways.prepared(ctx); !known || err != nil || h.objects.Reader.List(ctx, &list, selected) != nil {
		return nil
	}
	return list.Items
}

func keysOf(sets []gatewayv1.ListenerSet) (keys []guard.ParentKey) {
	for i := range sets {
		keys = append(keys, guard.ParentKey{Kind: guard.ListenerSet, NamespacedName: client.ObjectKeyFromObject(&sets[i])})
	}
	return keys
}
