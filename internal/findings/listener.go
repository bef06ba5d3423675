package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

// opener is who has listeners on a Gateway.
type opener struct {
	object metav1.Object
	on     types.NamespacedName
}

// listeners are those that can't be beside each other, on one Gateway or on several that have an address in common.
func listeners(s *snapshot.Snapshot) (found []Finding) {
	ledger := &book{
		claims: map[string]*v1beta1.EdgeClaim{}, hosts: map[claim.Coordinate][]*v1beta1.EdgeClaim{}, by: map[claim.Coordinate]guard.Opener{},
	}
	openers, attached, sharing := map[claim.Holder]opener{}, s.Attached(), sharingAddress(s.Gateways)
	gateways := slices.Clone(s.Gateways)
	slices.SortFunc(gateways, func(a, b *gatewayv1.Gateway) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(snapshot.Key(a).String(), snapshot.Key(b).String()))
	})
	for _, g := range gateways {
		own := guard.OfGateway(g)
		openers[own.Holder] = opener{g, own.Of}
		here := []guard.Opener{own}
		for _, set := range attached[snapshot.Key(g)] {
			o := guard.OfListenerSet(set, snapshot.Key(g))
			openers[o.Holder] = opener{set, o.Of}
			here = append(here, o)
		}
		slices.SortFunc(here, guard.CompareOpeners)
		entries, lost := guard.Settle(ledger, here, guard.Scopes(g, sharing(g)), nil)
		ledger.enter(entries)
		for i := range lost {
			found = append(found, listenerLost(s, &lost[i], openers))
		}
		for _, o := range here {
			found = append(found, within(o, openers[o.Holder].object)...)
		}
	}
	return found
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

func listenerLost(s *snapshot.Snapshot, lost *guard.Loss, openers map[claim.Holder]opener) Finding {
	holder := claim.HolderOf(lost.Held)
	has, wants := openers[holder], openers[lost.Opener.Holder]
	f := Finding{
		Rule: ListenerConflict, Point: snapshot.ListenerPoint(lost.At), Scope: "Gateway " + lost.At.Gateway().String(),
		Objects: []Object{objectOf(holder.Kind, has.object), objectOf(lost.Opener.Holder.Kind, wants.object)},
		Wins:    winner(s, "Gateway", winner(s, "ListenerSet", holder.String())),
		Text: fmt.Sprintf("spec.listeners[%d] of %s can't be beside what %s has there: the Gateway API serves the one who was first",
			lost.Listener.Index, lost.Opener.Holder, holder),
		Advice: "choose another port or host name for one of them, or remove the listener that is not served",
	}
	if has.on != wants.on {
		f.Level, f.Wins = Warning, Undetermined
		if held, err := claim.Of(lost.Held); err == nil && held.ListenerHost() != "" && lost.At.ListenerHost() != "" {
			f.Level = Note
		}
		f.Text = fmt.Sprintf("spec.listeners[%d] of %s wants what %s has, and Gateways %s and %s list the same address: "+
			"who serves them may serve both, or one", lost.Listener.Index, lost.Opener.Holder, holder, has.on, wants.on)
		f.Advice = "see by the status of both listeners whether they are served, and choose another port or host name for one of them if not"
	}
	return f
}

// within are the listeners of one object that exclude each other.
func within(o guard.Opener, obj metav1.Object) (found []Finding) {
	for _, p := range guard.Within(o) {
		point := fmt.Sprint(p.Err.BadValue)
		for _, l := range o.Listeners {
			path := field.NewPath("spec", "listeners").Index(l.Index).String() + "."
			if at := l.Points(o.Of); len(at) == 1 && strings.HasPrefix(p.Err.Field, path) {
				point = snapshot.ListenerPoint(at[0])
			}
		}
		found = append(found, Finding{
			Rule: ListenerConflict, Point: point, Scope: "Gateway " + o.Of.String(),
			Objects: []Object{objectOf(o.Holder.Kind, obj)}, Wins: Undetermined, Text: p.Err.Field + ": " + p.Err.Detail,
			Advice: "remove one of the listeners, or give it another port or host name",
		})
	}
	return found
}
