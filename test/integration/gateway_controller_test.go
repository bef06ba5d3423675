package integration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// gatewayController says of Gateways what an implementation would, by the rules of the Gateway API: of listeners on one port the Gateway's
// own comes first, then that of the oldest ListenerSet; a route is accepted where its listener lets it attach. It carries no traffic.
type gatewayController struct {
	*fixture
	gateway *gatewayv1.Gateway
	address string
}

// gatewayClass is a class with a Gateway of its name in a namespace of its own.
func gatewayClass(name string, options ...classOption) *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Gateway = &v1beta1.ObjectReference{Namespace: "gw-" + name, Name: name}
	for _, option := range options {
		option(c)
	}
	return c
}

// newGateway makes a Gateway for a class, its GatewayClass and its namespace, and starts a controller of it, until the test ends. The
// Gateway has a listener of its own, HTTP on port 80.
func (w *fixture) newGateway(class *v1beta1.StreamIngressClass, address string) *gatewayController {
	w.t.Helper()
	ref := class.Spec.Gateway
	of := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}, Spec: gatewayv1.GatewayClassSpec{ControllerName: "test.example.com/gateways"}}
	g := &gatewayController{fixture: w, address: address, gateway: &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name},
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: gatewayv1.ObjectName(ref.Name),
			Listeners:        []gatewayv1.Listener{{Name: "web", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
			AllowedListeners: &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromSame)}},
		},
	}}
	w.create(namespace(ref.Namespace), of, g.gateway)
	of.Status.Conditions = []metav1.Condition{said("Accepted", true, "Accepted", 1)}
	for _, feature := range []gatewayv1.FeatureName{"ListenerSet", "TCPRoute", "UDPRoute"} {
		of.Status.SupportedFeatures = append(of.Status.SupportedFeatures, gatewayv1.SupportedFeature{Name: feature})
	}
	must(w, w.Client.Status().Update(w.t.Context(), of))
	g.gateway.Status.Conditions = []metav1.Condition{said("Accepted", true, "Accepted", 1), said("Programmed", true, "Programmed", 1)}
	g.gateway.Status.Addresses = []gatewayv1.GatewayStatusAddress{{Type: ptr.To(gatewayv1.IPAddressType), Value: address}}
	must(w, w.Client.Status().Update(w.t.Context(), g.gateway))
	g.starts()
	return g
}

// starts has the controller look again and again until the test ends. What it meets while the API server is away it tries again.
func (g *gatewayController) starts() {
	ctx, cancel := context.WithCancel(g.t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			pause := 100 * time.Millisecond
			if wrote, err := g.look(ctx); err != nil || !wrote {
				pause = 400 * time.Millisecond
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
	g.t.Cleanup(func() { cancel(); ended.Wait() })
}

func said(kind string, yes bool, reason string, generation int64) metav1.Condition {
	status := metav1.ConditionFalse
	if yes {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: "the test says so", ObservedGeneration: generation, LastTransitionTime: metav1.Now(),
	}
}

// attached are the ListenerSets of the Gateway, the oldest first.
func (g *gatewayController) attached(ctx context.Context) ([]gatewayv1.ListenerSet, error) {
	var list gatewayv1.ListenerSetList
	if err := g.Client.List(ctx, &list, client.InNamespace(g.gateway.Namespace)); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b gatewayv1.ListenerSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// look says what is new of ListenerSets and routes.
func (g *gatewayController) look(ctx context.Context) (wrote bool, err error) {
	listed, err := g.attached(ctx)
	if err != nil {
		return false, err
	}
	entries := map[string]gatewayv1.ListenerEntry{}
	taken := map[string]bool{"80/TCP": true}
	for i := range listed {
		set := &listed[i]
		before := set.DeepCopy()
		set.Status.Listeners = nil
		for _, entry := range set.Spec.Listeners {
			key := fmt.Sprintf("%d/%s", entry.Port, entry.Protocol)
			status := gatewayv1.ListenerEntryStatus{Name: entry.Name, SupportedKinds: []gatewayv1.RouteGroupKind{}}
			free := !taken[key]
			taken[key] = true
			entries[set.Name+"/"+string(entry.Name)] = entry
			for _, kind := range []string{"Accepted", "Programmed"} {
				reason := kind
				if !free {
					reason = "ProtocolConflict"
				}
				status.Conditions = append(status.Conditions, said(kind, free, reason, set.Generation))
			}
			status.Conditions = append(status.Conditions, said("Conflicted", !free, map[bool]string{true: "NoConflicts", false: "ProtocolConflict"}[free],
				set.Generation))
			set.Status.Listeners = append(set.Status.Listeners, status)
		}
		set.Status.Conditions = []metav1.Condition{
			said("Accepted", true, "Accepted", set.Generation), said("Programmed", true, "Programmed", set.Generation),
		}
		if sameWords(before.Status, set.Status) {
			continue
		}
		if err := g.Client.Status().Update(ctx, set); client.IgnoreNotFound(err) != nil {
			return wrote, err
		}
		wrote = true
	}
	routed, err := g.route(ctx, entries)
	return wrote || routed, err
}

// sameWords says whether two statuses differ by no more than when it was said.
func sameWords(a, b gatewayv1.ListenerSetStatus) bool {
	a, b = *a.DeepCopy(), *b.DeepCopy()
	for _, s := range []gatewayv1.ListenerSetStatus{a, b} {
		for i := range s.Conditions {
			s.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		for i := range s.Listeners {
			for j := range s.Listeners[i].Conditions {
				s.Listeners[i].Conditions[j].LastTransitionTime = metav1.Time{}
			}
		}
	}
	return equality.Semantic.DeepEqual(a, b)
}

// route says what is new of routes.
func (g *gatewayController) route(ctx context.Context, entries map[string]gatewayv1.ListenerEntry) (wrote bool, err error) {
	var tcp gatewayv1.TCPRouteList
	var udp gatewayv1.UDPRouteList
	for _, list := range []client.ObjectList{&tcp, &udp} {
		if err := g.Client.List(ctx, list); err != nil {
			return false, err
		}
	}
	say := func(obj client.Object, refs []gatewayv1.ParentReference, status *gatewayv1.RouteStatus) error {
		var parents []gatewayv1.RouteParentStatus
		for _, ref := range refs {
			if string(ptr.Deref(ref.Namespace, "")) != g.gateway.Namespace {
				return nil // another controller's
			}
			entry, found := entries[string(ref.Name)+"/"+string(ptr.Deref(ref.SectionName, ""))]
			allowed := found && entry.AllowedRoutes.Namespaces.Selector.MatchLabels[corev1.LabelMetadataName] == obj.GetNamespace()
			reason := "Accepted"
			if !allowed {
				reason = "NotAllowedByListeners"
			}
			parents = append(parents, gatewayv1.RouteParentStatus{
				ParentRef: ref, ControllerName: "test.example.com/gateways", Conditions: []metav1.Condition{
					said("Accepted", allowed, reason, obj.GetGeneration()), said("ResolvedRefs", true, "ResolvedRefs", obj.GetGeneration()),
				},
			})
		}
		if len(status.Parents) == len(parents) && len(parents) > 0 {
			was := meta.FindStatusCondition(status.Parents[0].Conditions, "Accepted")
			is := meta.FindStatusCondition(parents[0].Conditions, "Accepted")
			if was != nil && was.Status == is.Status && was.ObservedGeneration == is.ObservedGeneration {
				return nil
			}
		}
		status.Parents = parents
		wrote = true
		return client.IgnoreNotFound(g.Client.Status().Update(ctx, obj))
	}
	for i := range tcp.Items {
		if err := say(&tcp.Items[i], tcp.Items[i].Spec.ParentRefs, &tcp.Items[i].Status.RouteStatus); err != nil {
			return wrote, err
		}
	}
	for i := range udp.Items {
		if err := say(&udp.Items[i], udp.Items[i].Spec.ParentRefs, &udp.Items[i].Status.RouteStatus); err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// listener is where a port of a class has a listener, and for which namespace, "" for nowhere; also if several have it.
func (w *fixture) listener(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, number int32) (string, error) {
	var list gatewayv1.ListenerSetList
	if err := w.Client.List(w.t.Context(), &list, client.InNamespace(class.Spec.Gateway.Namespace),
		client.MatchingLabels{v1beta1.LabelClass: class.Name}); err != nil {
		return "", err
	}
	found := ""
	for _, set := range list.Items {
		for _, l := range set.Spec.Listeners {
			if l.Port == number && string(l.Protocol) == string(protocol) {
				found = joined(found, fmt.Sprintf("%s for %s of %s", set.Name, l.AllowedRoutes.Kinds[0].Kind,
					l.AllowedRoutes.Namespaces.Selector.MatchLabels[corev1.LabelMetadataName]))
			}
		}
	}
	return found, nil
}

// routes waits until a port of a class has a listener in a ListenerSet and a route in a namespace that leads from it to a Service and
// port, "web:80"; or neither, for "".
func (w *fixture) routes(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol, number int32, ns, want string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s/%d of %s to lead to %q in %s", protocol, number, class.Name, want, ns), func() error {
		listener, err := w.listener(class, protocol, number)
		if err != nil {
			return err
		}
		key := types.NamespacedName{Namespace: ns, Name: v1beta1.StreamServiceName(class.Name, protocol, number)}
		got, set := "", ""
		var refs []gatewayv1.BackendRef
		var parents []gatewayv1.ParentReference
		if protocol == UDP {
			route := &gatewayv1.UDPRoute{}
			if err = w.Client.Get(w.t.Context(), key, route); err == nil {
				refs, parents = route.Spec.Rules[0].BackendRefs, route.Spec.ParentRefs
			}
		} else {
			route := &gatewayv1.TCPRoute{}
			if err = w.Client.Get(w.t.Context(), key, route); err == nil {
				refs, parents = route.Spec.Rules[0].BackendRefs, route.Spec.ParentRefs
			}
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if len(refs) > 0 {
			got, set = fmt.Sprintf("%s:%d", refs[0].Name, *refs[0].Port), string(parents[0].Name)
		}
		wantListener := ""
		if want != "" {
			wantListener = fmt.Sprintf("%s for %sRoute of %s", set, protocol, ns)
		}
		return cmp.Or(is(got, want), is(listener, wantListener))
	})
}
