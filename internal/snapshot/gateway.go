package snapshot

import (
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Attached are the ListenerSets of each Gateway that lets them attach.
func (s *Snapshot) Attached() map[types.NamespacedName][]*gatewayv1.ListenerSet {
	gateways, attached := Index(s.Gateways), map[types.NamespacedName][]*gatewayv1.ListenerSet{}
	for _, set := range s.ListenerSets {
		key := guard.ParentOfListenerSet(set, "").On
		if g := gateways[key]; g != nil && stream.AllowsListeners(g, set.Namespace, s.NamespaceLabels(set.Namespace)) {
			attached[key] = append(attached[key], set)
		}
	}
	return attached
}

// Parents are what routes attach to: Gateways, and the ListenerSets that these let attach.
func (s *Snapshot) Parents() map[guard.ParentKey]*guard.Parent {
	parents := make(map[guard.ParentKey]*guard.Parent, len(s.Gateways)+len(s.ListenerSets))
	for _, g := range s.Gateways {
		p := guard.ParentOfGateway(g)
		parents[p.ParentKey] = p
	}
	for _, sets := range s.Attached() {
		for _, set := range sets {
			p := guard.ParentOfListenerSet(set, "")
			parents[p.ParentKey] = p
		}
	}
	return parents
}
