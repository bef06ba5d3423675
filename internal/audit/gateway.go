package audit

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// addListeners adds what stands on the Gateway of a class: each listener is to be claimed, by a stream where Portcullis has written it, by
// the Gateway or the ListenerSet itself where others have.
func (f *Facts) addListeners(class *v1beta1.StreamIngressClass, targets Targets, object Object, serves bool) {
	ref := class.Spec.Gateway
	if ref == nil {
		return
	}
	if targets.Gateway == nil {
		f.absent[absence{class.Name, claim.GatewayHolder(ref.Namespace, ref.Name)}] = true
		return
	}
	add := func(holder claim.Holder, port int32, protocol gatewayv1.ProtocolType, ours bool) {
		for _, at := range stream.PortsOf(port, protocol) {
			at := claim.Stream(class.Name, at.Protocol, at.Port)
			if c := f.claims[at]; c != nil && ours {
				c.asked = true
			}
			f.addPoint(at, holder, place{object: object, where: holder}, serves)
		}
	}
	for _, gateway := range append([]*gatewayv1.Gateway{targets.Gateway}, targets.Sharing...) {
		for _, l := range gateway.Spec.Listeners {
			add(claim.GatewayHolder(gateway.Namespace, gateway.Name), l.Port, l.Protocol, false)
		}
	}
	for i := range targets.ListenerSets {
		set := &targets.ListenerSets[i]
		if label := set.Labels[v1beta1.LabelClass]; label != "" && label != class.Name && isOfSharing(set, targets.Sharing) {
			continue // of another class, which claims the port for its streams
		}
		for _, l := range set.Spec.Listeners {
			add(claim.ListenerSetHolder(set.Namespace, set.Name), l.Port, l.Protocol, set.Labels[v1beta1.LabelClass] == class.Name)
		}
	}
}

// isOfSharing says whether a ListenerSet is in the namespace of one of some Gateways, and attached to it.
func isOfSharing(set *gatewayv1.ListenerSet, sharing []*gatewayv1.Gateway) bool {
	return slices.ContainsFunc(sharing, func(g *gatewayv1.Gateway) bool {
		return g.Namespace == set.Namespace && string(set.Spec.ParentRef.Name) == g.Name
	})
}
