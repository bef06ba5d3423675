package kube

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

func listenerNames(set *gatewayv1.ListenerSet) []string {
	var names []string
	for _, at := range ListenersOf(set) {
		names = append(names, at.Name())
	}
	return names
}

// IsListenerSet says whether a ListenerSet is one that Portcullis has made for a class, whichever.
func IsListenerSet(set *gatewayv1.ListenerSet) bool {
	return set.Labels[v1beta1.LabelClass] != "" && Written(set)
}

// ListenersOf are the ports that a ListenerSet of ours has a listener for, none if it is not ours.
func ListenersOf(set *gatewayv1.ListenerSet) (points []claim.Coordinate) {
	if !IsListenerSet(set) {
		return nil
	}
	for _, entry := range set.Spec.Listeners {
		at := claim.Stream(set.Labels[v1beta1.LabelClass], v1beta1.Protocol(entry.Protocol), entry.Port)
		if !at.IsZero() {
			points = append(points, at)
		}
	}
	return points
}

// GatewayOf is the Gateway of a ListenerSet, zero for one that names something else, or nothing: any text passes the CRD as a name, also
// one that reads like a Gateway and a port in an index.
func GatewayOf(set *gatewayv1.ListenerSet) types.NamespacedName {
	ref := set.Spec.ParentRef
	if ptr.Deref(ref.Group, gatewayv1.GroupName) != gatewayv1.GroupName || ptr.Deref(ref.Kind, "Gateway") != "Gateway" ||
		!isName(string(ref.Name)) {
		return types.NamespacedName{}
	}
	parent := types.NamespacedName{Namespace: set.Namespace, Name: string(set.Spec.ParentRef.Name)}
	if ns := set.Spec.ParentRef.Namespace; ns != nil {
		parent.Namespace = string(*ns)
	}
	return parent
}

// ListenersIn are the ListenerSets that Portcullis has made for a class in the namespace of its Gateway, those that are being deleted
// among them, and the names of all that there are.
func (g *Gateways) ListenersIn(
	ctx context.Context, class *v1beta1.StreamIngressClass,
) (sets []*gatewayv1.ListenerSet, names []string, err error) {
	if known, err := g.isKnown(ctx, &gatewayv1.ListenerSet{}); !known || err != nil {
		return nil, nil, err
	}
	var list gatewayv1.ListenerSetList
	err = g.objects.Reader.List(ctx, &list, client.InNamespace(class.Spec.Gateway.Namespace))
	for i := range list.Items {
		set := &list.Items[i]
		names = append(names, set.Name)
		if IsListenerSet(set) && set.Labels[v1beta1.LabelClass] == class.Name {
			sets = append(sets, set)
		}
	}
	return sets, names, err
}

// ListenerSets lists the ListenerSets that look like those of a class, wherever; of all classes for "".
func (g *Gateways) ListenerSets(ctx context.Context, class string) ([]gatewayv1.ListenerSet, error) {
	if !g.isAsked() {
		return nil, nil
	}
	if known, err := g.isKnown(ctx, &gatewayv1.ListenerSet{}); !known || err != nil {
		return nil, err
	}
	var list gatewayv1.ListenerSetList
	var options []client.ListOption
	if class != "" {
		options = append(options, client.MatchingLabels{v1beta1.LabelClass: class})
	}
	err := g.objects.Reader.List(ctx, &list, options...)
	return slices.DeleteFunc(list.Items, func(s gatewayv1.ListenerSet) bool { return !IsListenerSet(&s) }), err
}

// ListenerSetOf is the oldest ListenerSet that has a listener for a port of a class, nil for none. Those that are being deleted don't
// count.
func (g *Gateways) ListenerSetOf(
	ctx context.Context, class *v1beta1.StreamIngressClass, at claim.Coordinate,
) (*gatewayv1.ListenerSet, error) {
	sets, err := g.listenerSets(ctx, class, at)
	sets = slices.DeleteFunc(sets, func(set gatewayv1.ListenerSet) bool { return set.DeletionTimestamp != nil })
	if err != nil || len(sets) == 0 {
		return nil, err
	}
	oldest := slices.MinFunc(sets, compareSets)
	return &oldest, nil
}

// HasListener says whether a port of a class has a listener. One whose ListenerSet is being deleted, and kept by a finalizer, is there
// until that is gone. Of a class that does not exist those count that can be taken out, wherever they are.
func (g *Gateways) HasListener(ctx context.Context, class *v1beta1.StreamIngressClass, at claim.Coordinate) (bool, error) {
	sets, err := g.listenerSets(ctx, class, at)
	return slices.ContainsFunc(sets, func(set gatewayv1.ListenerSet) bool { return class != nil || set.DeletionTimestamp == nil }), err
}

// listenerSets are the ListenerSets that have a listener for a port of a class. Only those in the namespace of the class's Gateway
// count: tenants can make others look like them. Of a class that is gone, nil, which that was nobody knows.
func (g *Gateways) listenerSets(
	ctx context.Context, class *v1beta1.StreamIngressClass, at claim.Coordinate,
) ([]gatewayv1.ListenerSet, error) {
	if known, err := g.prepared(ctx); !known || err != nil {
		return nil, err
	}
	var list gatewayv1.ListenerSetList
	options := []client.ListOption{client.MatchingFields{IndexListener: at.Name()}}
	if class != nil {
		options = append(options, client.InNamespace(class.Spec.Gateway.Namespace))
	}
	err := g.objects.Reader.List(ctx, &list, options...)
	return list.Items, err
}

// compareSets compares ListenerSets by who comes first by the Gateway API: the older one, then by name.
func compareSets(a, b gatewayv1.ListenerSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
}

// prepared says whether ListenerSets can be asked for by index; they can't while the kind is not installed.
func (g *Gateways) prepared(ctx context.Context) (bool, error) {
	known, err := g.isKnown(ctx, &gatewayv1.ListenerSet{})
	if known && err == nil {
		err = g.Prepare(ctx)
	}
	return known, err
}

// ListenersHere are the ports that a ListenerSet has a listener for, if it is where those of its class are, or the class is gone.
func (v *View) ListenersHere(ctx context.Context, set *gatewayv1.ListenerSet) []claim.Coordinate {
	points := ListenersOf(set)
	if len(points) == 0 {
		return nil
	}
	class, err := v.Class(ctx, set.Labels[v1beta1.LabelClass])
	if err != nil || class != nil && !IsHere(class, set) {
		return nil
	}
	return points
}

// IsHere says whether a ListenerSet is where those of a class are. Tenants can make others look like them elsewhere.
func IsHere(class *v1beta1.StreamIngressClass, set *gatewayv1.ListenerSet) bool {
	return class.Spec.Gateway != nil && class.Spec.Gateway.Namespace == set.Namespace
}
