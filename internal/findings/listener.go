package findings

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// book is the ledger that guard.Settle fills, of a cluster that has none: Gateways are entered one by one, the oldest first.
type book struct {
	claims map[string]*v1beta1.EdgeClaim
	hosts  map[claim.Coordinate][]*v1beta1.EdgeClaim
	by     map[claim.Coordinate]guard.Opener
}

// Claim is the claim of a name, nil for none.
func (b *book) Claim(name string) *v1beta1.EdgeClaim { return b.claims[name] }

// HostClaims are the claims on host names at a port of a Gateway.
func (b *book) HostClaims(hosts claim.Coordinate) []*v1beta1.EdgeClaim { return b.hosts[hosts] }

// Standing is who was entered at a point: whoever is in the ledger is there.
func (b *book) Standing(at claim.Coordinate) []guard.Opener {
	if o, there := b.by[at]; there {
		return []guard.Opener{o}
	}
	return nil
}

func (b *book) enter(entries []claim.Entry) {
	for _, e := range entries {
		held := claim.New(e.At, e.By)
		b.claims[e.At.Name()], b.by[e.At] = held, guard.Opener{Claimant: e.By}
		if e.At.ListenerHost() != "" {
			hosts := claim.Listener(e.At.Gateway(), claim.HTTPListener, e.At.Port())
			b.hosts[hosts] = append(b.hosts[hosts], held)
		}
	}
}

// listeners are those that can't be beside each other, on one Gateway or on several that have an address in common.
func listeners(s *snapshot.Snapshot) (found []Finding) {
	ledger := &book{
		claims: map[string]*v1beta1.EdgeClaim{}, hosts: map[claim.Coordinate][]*v1beta1.EdgeClaim{}, by: map[claim.Coordinate]guard.Opener{},
	}
	created, attached, sharing := map[claim.Holder]metav1.Object{}, attachedTo(s), sharingAddress(s.Gateways)
	gateways := slices.Clone(s.Gateways)
	slices.SortFunc(gateways, func(a, b *gatewayv1.Gateway) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(snapshot.Key(a).String(), snapshot.Key(b).String()))
	})
	for _, g := range gateways {
		own := guard.OfGateway(g)
		created[own.Holder] = g
		openers := []guard.Opener{own}
		for _, set := range attached[snapshot.Key(g)] {
			o := guard.OfListenerSet(set, snapshot.Key(g))
			created[o.Holder] = set
			openers = append(openers, o)
		}
		slices.SortFunc(openers, guard.CompareOpeners)
		entries, lost := guard.Settle(ledger, openers, guard.Scopes(g, sharing(g)), nil)
		ledger.enter(entries)
		for i := range lost {
			found = append(found, listenerLost(s, &lost[i], created))
		}
		for _, o := range openers {
			found = append(found, within(o, created[o.Holder])...)
		}
	}
	return found
}

// attachedTo are the ListenerSets of each Gateway that lets them attach.
func attachedTo(s *snapshot.Snapshot) map[types.NamespacedName][]*gatewayv1.ListenerSet {
	gateways, attached := snapshot.Index(s.Gateways), map[types.NamespacedName][]*gatewayv1.ListenerSet{}
	for _, set := range s.ListenerSets {
		ref := set.Spec.ParentRef
		key := types.NamespacedName{Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(set.Namespace))), Name: string(ref.Name)}
		if g := gateways[key]; g != nil && stream.AllowsListeners(g, set.Namespace, s.NamespaceLabels(set.Namespace)) {
			attached[key] = append(attached[key], set)
		}
	}
	return attached
}

// sharingAddress finds the Gateways that have an address in common with one.
func sharingAddress(gateways []*gatewayv1.Gateway) func(*gatewayv1.Gateway) []gatewayv1.Gateway {
	oldest := map[string]*gatewayv1.Gateway{}
	for _, g := range gateways {
		for _, ip := range stream.GatewayAddresses(g) {
			o := oldest[ip]
			if o == nil || g.CreationTimestamp.Before(&o.CreationTimestamp) ||
				g.CreationTimestamp.Equal(&o.CreationTimestamp) && snapshot.Key(g).String() < snapshot.Key(o).String() {
				oldest[ip] = g
			}
		}
	}
	return func(g *gatewayv1.Gateway) (others []gatewayv1.Gateway) {
		for _, ip := range stream.GatewayAddresses(g) {
			others = append(others, *oldest[ip]) // all that guard.Scopes asks of others
		}
		return others
	}
}

func listenerLost(s *snapshot.Snapshot, lost *guard.Loss, created map[claim.Holder]metav1.Object) Finding {
	holder := claim.HolderOf(lost.Held)
	objects := []Object{objectOf(holder.Kind, created[holder]), objectOf(lost.Opener.Holder.Kind, created[lost.Opener.Holder])}
	point := lost.At.Point()
	if lost.At.ListenerHost() != "" {
		point = fmt.Sprintf("%s at port %d", point, lost.At.Port())
	}
	return Finding{
		Rule: ListenerConflict, Point: point, Scope: "Gateway " + lost.At.Gateway().String(), Objects: objects,
		Wins: winner(s, "Gateway", winner(s, "ListenerSet", holder.String())),
		Text: fmt.Sprintf("spec.listeners[%d] of %s can't be beside what %s has there: the Gateway API serves the one who was first",
			lost.Listener.Index, lost.Opener.Holder, holder),
		Advice: "choose another port or host name for one of them, or remove the listener that is not served",
	}
}

// within are the listeners of one object that exclude each other.
func within(o guard.Opener, obj metav1.Object) (found []Finding) {
	for _, p := range guard.Within(o) {
		found = append(found, Finding{
			Rule: ListenerConflict, Point: fmt.Sprint(p.Err.BadValue), Scope: "Gateway " + o.Of.String(),
			Objects: []Object{objectOf(o.Holder.Kind, obj)}, Wins: Undetermined, Text: p.Err.Field + ": " + p.Err.Detail,
			Advice: "remove one of the listeners, or give it another port or host name",
		})
	}
	return found
}
