package stream

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/refusal"
)

// GatewayPath is the field in which a class names its Gateway.
var GatewayPath = specPath.Child("gateway")

// GatewayState is what the cluster has for a class with a Gateway.
type GatewayState struct {
	// Missing are the kinds that are needed and that the API server does not know.
	Missing []string
	// Unread are those that it knows, and that are yet to be read.
	Unread []string
	// UnreadFor is for how long that is so.
	UnreadFor time.Duration
	// Gateway and Class are nil where there is none.
	Gateway *gatewayv1.Gateway
	Class   *gatewayv1.GatewayClass
	// Labels are those of the Gateway's namespace.
	Labels labels.Set
}

// Problems say what keeps a class from having ports on its Gateway, and what to do about it; none if nothing does.
func (s GatewayState) Problems(class *v1beta1.StreamIngressClass) refusal.Problems {
	ref := class.Spec.Gateway
	name := refText(ref)
	no := func(reason, format string, args ...any) refusal.Problems {
		return refusal.One(reason, field.Invalid(GatewayPath, name, fmt.Sprintf(format, args...)))
	}
	switch {
	case len(s.Missing) > 0:
		return no(v1beta1.ReasonGatewayNotSupported,
			"the cluster has no %s of gateway.networking.k8s.io/v1: install the Gateway API, 1.6 or later, the standard channel", s.Missing[0])
	case len(s.Unread) > 0:
		return no(v1beta1.ReasonPending, "the %s of the cluster are yet to be read: if that lasts, see whether Portcullis may list them",
			s.Unread[0])
	case s.Gateway == nil:
		return no(v1beta1.ReasonGatewayNotFound, "there is no Gateway %s: create it, with one listener of its own at least", name)
	case s.Class == nil:
		return no(v1beta1.ReasonGatewayNotServed, "Gateway %s is of GatewayClass %q, which does not exist: create it, or name another one",
			name, s.Gateway.Spec.GatewayClassName)
	}
	accepted := meta.FindStatusCondition(s.Class.Status.Conditions, string(gatewayv1.GatewayClassConditionStatusAccepted))
	if accepted == nil || accepted.Status != metav1.ConditionTrue {
		return no(v1beta1.ReasonGatewayNotServed, "no controller serves GatewayClass %q of Gateway %s%s: have that of %q run",
			s.Class.Name, name, saying(accepted), s.Class.Spec.ControllerName)
	}
	if missing := s.unsupported(); missing != "" {
		return no(v1beta1.ReasonGatewayNotSupported, "GatewayClass %q of Gateway %s does not list %s among its supportedFeatures: use another "+
			"one, or a class with an addressPool", s.Class.Name, name, missing)
	}
	if missing := s.lacking(); missing != "" {
		return no(v1beta1.ReasonGatewayNotSupported, "the controller of Gateway %s does not list %s among the supportedKinds of its own "+
			"listener: use another GatewayClass, or a class with an addressPool", name, missing)
	}
	if !AllowsListeners(s.Gateway, s.Gateway.Namespace, s.Labels) {
		return no(v1beta1.ReasonGatewayNotSupported, "Gateway %s lets no ListenerSet of its namespace attach: "+
			"set its spec.allowedListeners.namespaces.from to Same", name)
	}
	accepted = meta.FindStatusCondition(s.Gateway.Status.Conditions, string(gatewayv1.GatewayConditionAccepted))
	if accepted != nil && accepted.Status == metav1.ConditionFalse {
		return no(v1beta1.ReasonGatewayNotServed, "the controller does not accept Gateway %s%s", name, saying(accepted))
	}
	return nil
}

// unsupported is a feature that a GatewayClass says it does not have, empty for none. One that lists none at all says nothing.
func (s GatewayState) unsupported() string {
	listed := s.Class.Status.SupportedFeatures
	for _, needed := range []gatewayv1.FeatureName{KindListenerSet, KindTCPRoute, KindUDPRoute} {
		isNeeded := func(f gatewayv1.SupportedFeature) bool { return f.Name == needed }
		if len(listed) > 0 && !slices.ContainsFunc(listed, isNeeded) {
			return string(needed)
		}
	}
	return ""
}

// lacking is a kind of routes that the controller of a Gateway does not know, as it says of a TCP or UDP listener of the Gateway's own that
// asks for no kinds itself; empty for none. One that lists none at all says nothing.
func (s GatewayState) lacking() string {
	for _, l := range s.Gateway.Spec.Listeners {
		isL4 := l.Protocol == gatewayv1.TCPProtocolType || l.Protocol == gatewayv1.UDPProtocolType
		if !isL4 || l.AllowedRoutes != nil && len(l.AllowedRoutes.Kinds) > 0 {
			continue
		}
		needed := gatewayv1.Kind(RouteKind(v1beta1.Protocol(l.Protocol)))
		for _, said := range s.Gateway.Status.Listeners {
			if said.Name == l.Name && len(said.SupportedKinds) > 0 &&
				!slices.ContainsFunc(said.SupportedKinds, func(k gatewayv1.RouteGroupKind) bool { return k.Kind == needed }) {
				return string(needed)
			}
		}
	}
	return ""
}

// AllowsListeners says whether a Gateway lets ListenerSets of a namespace attach, which has these labels. Who may attach is for nobody to
// claim: anybody can write a ListenerSet that names any Gateway.
func AllowsListeners(gateway *gatewayv1.Gateway, namespace string, has labels.Set) bool {
	allowed := gateway.Spec.AllowedListeners
	if allowed == nil || allowed.Namespaces == nil {
		return false
	}
	switch ptr.Deref(allowed.Namespaces.From, gatewayv1.NamespacesFromNone) {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return namespace == gateway.Namespace
	case gatewayv1.NamespacesFromSelector:
		selector, err := metav1.LabelSelectorAsSelector(allowed.Namespaces.Selector)
		return err == nil && selector.Matches(has)
	default:
		return false
	}
}

// maxClassAddresses is how many addresses the status of a class has at most.
const maxClassAddresses = 16

// GatewayAddresses are the IP addresses that the status of a Gateway lists, in ascending order of their text. nil has none.
func GatewayAddresses(gateway *gatewayv1.Gateway) (addresses []string) {
	if gateway == nil {
		return nil
	}
	for _, address := range gateway.Status.Addresses {
		if ip, err := netip.ParseAddr(address.Value); err == nil && ip.Zone() == "" && len(addresses) < maxClassAddresses {
			addresses = append(addresses, ip.Unmap().String())
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// HaveInCommon says whether two Gateways have an address in common.
func HaveInCommon(a, b *gatewayv1.Gateway) bool {
	return slices.ContainsFunc(GatewayAddresses(a), func(ip string) bool { return slices.Contains(GatewayAddresses(b), ip) })
}

// saying passes on what a controller says in a condition, in its words; empty while it says nothing.
func saying(c *metav1.Condition) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf(", which says of it %s=%s, %s: %s", c.Type, c.Status, c.Reason, c.Message)
}

// GatewayDoor is a port of a class with a Gateway, as its controller sees it.
type GatewayDoor struct {
	Port PortKey
	Set  *gatewayv1.ListenerSet
	// Parent is what the status of the route says of the listener, nil for nothing, and Generation the route's.
	Parent     *gatewayv1.RouteParentStatus
	Generation int64
	// WasOpen says that the stream is open, as it was told for what it says now. What the controller has yet to look at does not
	// change that.
	WasOpen bool
}

// Programmed is the condition of a stream whose listener and route are written: what the controller of the Gateway says, in its words.
// conflicting finds with whom a listener is in conflict, empty if that is not known.
func (d GatewayDoor) Programmed(conflicting func() string) (condition metav1.Condition, isOpen bool) {
	no := func(reason, message string) (metav1.Condition, bool) {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}, false
	}
	pending := func(what string) (metav1.Condition, bool) {
		return no(v1beta1.ReasonPending, "the controller of the Gateway has yet to look at "+what)
	}
	if c := meta.FindStatusCondition(d.Set.Status.Conditions, string(gatewayv1.ListenerSetConditionAccepted)); c != nil &&
		c.Status == metav1.ConditionFalse && c.Reason == string(gatewayv1.ListenerSetReasonNotAllowed) {
		return no(v1beta1.ReasonListenerNotProgrammed, fmt.Sprintf(
			"the Gateway does not let ListenerSet %s/%s attach%s", d.Set.Namespace, d.Set.Name, saying(c)))
	}
	entry := d.entry()
	if entry == nil {
		return pending("the listener of the port")
	}
	find := func(kind gatewayv1.ListenerEntryConditionType) *metav1.Condition {
		return meta.FindStatusCondition(entry.Conditions, string(kind))
	}
	if c := find(gatewayv1.ListenerEntryConditionConflicted); c != nil && c.Status == metav1.ConditionTrue {
		with := ""
		if who := conflicting(); who != "" {
			with = " with " + who
		}
		return no(v1beta1.ReasonListenerConflicted, "the listener of the port is in conflict"+with+saying(c))
	}
	for _, kind := range []gatewayv1.ListenerEntryConditionType{
		gatewayv1.ListenerEntryConditionAccepted, gatewayv1.ListenerEntryConditionProgrammed,
	} {
		c := find(kind)
		switch {
		case c == nil || c.Status == metav1.ConditionUnknown:
			return pending("the listener of the port")
		case c.Status != metav1.ConditionTrue:
			return no(v1beta1.ReasonListenerNotProgrammed, "the controller of the Gateway has not programmed the listener of the port"+saying(c))
		}
	}
	return d.routed(no, pending)
}

// routed goes on with the route.
func (d GatewayDoor) routed(
	no func(reason, message string) (metav1.Condition, bool), pending func(string) (metav1.Condition, bool),
) (metav1.Condition, bool) {
	if d.Parent == nil {
		return pending("the route of the stream")
	}
	accepted := meta.FindStatusCondition(d.Parent.Conditions, string(gatewayv1.RouteConditionAccepted))
	switch {
	case accepted == nil || accepted.Status == metav1.ConditionUnknown,
		accepted.ObservedGeneration != d.Generation && !d.WasOpen:
		return pending("the route of the stream")
	case accepted.Status != metav1.ConditionTrue:
		return no(v1beta1.ReasonRouteNotAccepted, "the route of the stream is not accepted by the controller of the Gateway"+saying(accepted))
	default:
		return metav1.Condition{}, true
	}
}

// entry is what the controller says of the listener of the port, nil for nothing.
func (d GatewayDoor) entry() *gatewayv1.ListenerEntryStatus {
	for i := range d.Set.Status.Listeners {
		if e := &d.Set.Status.Listeners[i]; string(e.Name) == d.Port.Name() {
			return e
		}
	}
	return nil
}

// Resolved says what the controller of the Gateway does not resolve of where the route leads to; none while it says nothing.
func (d GatewayDoor) Resolved(s *v1beta1.StreamIngress) refusal.Problems {
	if d.Parent == nil {
		return nil
	}
	c := meta.FindStatusCondition(d.Parent.Conditions, string(gatewayv1.RouteConditionResolvedRefs))
	if c == nil || c.Status != metav1.ConditionFalse || c.ObservedGeneration != d.Generation {
		return nil
	}
	return refusal.One(v1beta1.ReasonRouteNotResolved, field.Invalid(specPath.Child("upstream"), s.UpstreamService(),
		"the controller of the Gateway does not resolve it"+saying(c)))
}
