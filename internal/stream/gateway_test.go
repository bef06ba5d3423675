package stream

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

var edgeGateway = v1beta1.ObjectReference{Namespace: "infra", Name: "edge"}

// TestListenerSetsAreRead writes listeners, and reads them as they are; what somebody has changed is foreign.
func TestListenerSetsAreRead(t *testing.T) {
	udp := Listener{Port: PortKey{v1beta1.UDP, 53}, Namespace: "dns"}
	written := func() *gatewayv1.ListenerSet {
		return &gatewayv1.ListenerSet{Spec: ListenerSetSpec(edgeGateway, []Listener{listenerOn(5432), udp})}
	}
	stored := StoredSetOf(written(), edgeGateway)
	if stored.Foreign || len(stored.Listeners) != 2 || stored.Listeners[0] != listenerOn(5432) || stored.Listeners[1] != udp {
		t.Errorf("read %+v", stored)
	}
	if l, ok := ListenerIn(written(), udp.Port); !ok || l != udp {
		t.Errorf("found %v, %v", l, ok)
	}
	for name, change := range map[string]func(*gatewayv1.ListenerSet){
		"another Gateway": func(s *gatewayv1.ListenerSet) { s.Spec.ParentRef.Name = "other" },
		"another name":    func(s *gatewayv1.ListenerSet) { s.Spec.Listeners[0].Name = "mine" },
		"another kind":    func(s *gatewayv1.ListenerSet) { s.Spec.Listeners[0].AllowedRoutes.Kinds[0].Kind = "HTTPRoute" },
		"open to all":     func(s *gatewayv1.ListenerSet) { s.Spec.Listeners[0].AllowedRoutes = nil },
		"a listener of theirs": func(s *gatewayv1.ListenerSet) {
			s.Spec.Listeners[0] = gatewayv1.ListenerEntry{Name: "x", Port: 1, Protocol: "HTTP"}
		},
		"more labels": func(s *gatewayv1.ListenerSet) {
			s.Spec.Listeners[0].AllowedRoutes.Namespaces.Selector.MatchLabels["more"] = "labels"
		},
	} {
		set := written()
		change(set)
		if !StoredSetOf(set, edgeGateway).Foreign {
			t.Errorf("%s: it is not seen", name)
		}
	}
}

// TestRoutesAreRead writes routes of both kinds, and knows them again; a change is seen and taken back.
func TestRoutesAreRead(t *testing.T) {
	for _, protocol := range []v1beta1.Protocol{v1beta1.TCP, v1beta1.UDP} {
		route := Route{
			Port: PortKey{protocol, 5432}, Key: types.NamespacedName{Namespace: "shop", Name: "edge-5432"},
			Set: types.NamespacedName{Namespace: "infra", Name: "edge-0"}, Service: "db", ServicePort: 5432,
		}
		stored := route.Object()
		if !route.IsWritten(stored) || stored.GetObjectKind().GroupVersionKind().Kind != RouteKind(protocol) {
			t.Errorf("%s: it is not known again: %v", protocol, stored)
		}
		other := route
		other.ServicePort = 5433
		if other.IsWritten(stored) || !other.IsWritten(other.Over(stored)) || !route.IsWritten(stored) {
			t.Errorf("%s: a change is not seen, or not written, or written to what is cached", protocol)
		}
		other = route
		other.Port.Protocol = map[v1beta1.Protocol]v1beta1.Protocol{v1beta1.TCP: v1beta1.UDP, v1beta1.UDP: v1beta1.TCP}[protocol]
		if other.IsWritten(stored) {
			t.Errorf("%s: one of the other protocol is taken for it", protocol)
		}
	}
}

// says is a condition of a controller.
func says(kind string, status metav1.ConditionStatus, reason string, generation int64) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "in its words", ObservedGeneration: generation}
}

// TestGatewayDoors judges what a controller says of a listener and a route.
func TestGatewayDoors(t *testing.T) {
	port := PortKey{v1beta1.TCP, 5432}
	set := func(conditions ...metav1.Condition) *gatewayv1.ListenerSet {
		s := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "edge-0", Generation: 2}}
		s.Status.Listeners = []gatewayv1.ListenerEntryStatus{{Name: "other"}, {Name: "tcp-5432", Conditions: conditions}}
		return s
	}
	open := set(says("Accepted", "True", "Accepted", 1), says("Programmed", "True", "Programmed", 1))
	parent := func(conditions ...metav1.Condition) *gatewayv1.RouteParentStatus {
		return &gatewayv1.RouteParentStatus{Conditions: conditions}
	}
	notAllowed := set()
	notAllowed.Status.Conditions = []metav1.Condition{says("Accepted", "False", "NotAllowed", 2)}
	accepted := parent(says("Accepted", "True", "Accepted", 3))
	for name, tc := range map[string]struct {
		door   GatewayDoor
		reason string
		text   string
	}{
		"open":              {GatewayDoor{Set: open, Parent: accepted, Generation: 3}, "", ""},
		"nothing said":      {GatewayDoor{Set: &gatewayv1.ListenerSet{}}, "Pending", "the listener"},
		"nothing yet":       {GatewayDoor{Set: set()}, "Pending", "the listener"},
		"not allowed":       {GatewayDoor{Set: notAllowed}, "ListenerNotProgrammed", "does not let ListenerSet infra/edge-0 attach, which says of it Accepted=False, NotAllowed: in its words"},
		"conflict":          {GatewayDoor{Set: set(says("Accepted", "True", "Accepted", 1), says("Conflicted", "True", "ProtocolConflict", 1))}, "ListenerConflicted", "with Gateway infra/edge, which says of it Conflicted=True, ProtocolConflict: in its words"},
		"unknown":           {GatewayDoor{Set: set(says("Accepted", "Unknown", "Pending", 1))}, "Pending", "the listener"},
		"not programmed":    {GatewayDoor{Set: set(says("Accepted", "True", "Accepted", 1), says("Programmed", "False", "PortUnavailable", 1))}, "ListenerNotProgrammed", "PortUnavailable: in its words"},
		"no route":          {GatewayDoor{Set: open}, "Pending", "the route"},
		"an older route":    {GatewayDoor{Set: open, Parent: accepted, Generation: 4}, "Pending", "the route"},
		"open as it was":    {GatewayDoor{Set: open, Parent: accepted, Generation: 4, WasOpen: true}, "", ""},
		"route not allowed": {GatewayDoor{Set: open, Parent: parent(says("Accepted", "False", "NotAllowedByListeners", 3)), Generation: 3}, "RouteNotAccepted", "NotAllowedByListeners: in its words"},
	} {
		tc.door.Port = port
		got, isOpen := tc.door.Programmed(func() string { return "Gateway infra/edge" })
		if isOpen != (tc.reason == "") || got.Reason != tc.reason || !strings.Contains(got.Message, tc.text) {
			t.Errorf("%s: got %v, %v", name, isOpen, got)
		}
	}
	s := &v1beta1.StreamIngress{}
	refused := GatewayDoor{Parent: parent(says("ResolvedRefs", "False", "BackendNotFound", 3)), Generation: 3}
	if problems := refused.Resolved(s); len(problems) != 1 || !strings.Contains(problems[0].Err.Detail, "BackendNotFound: in its words") {
		t.Errorf("got %v", problems)
	}
	if refused.Generation = 4; len(refused.Resolved(s)) > 0 {
		t.Error("what was said of an older route counts")
	}
}

// TestParents finds what the controller of a Gateway says of a listener, and not what others do.
func TestParents(t *testing.T) {
	route := Route{
		Port: PortKey{v1beta1.UDP, 53}, Set: types.NamespacedName{Namespace: "infra", Name: "edge-0"}, Key: types.NamespacedName{Namespace: "a", Name: "b"},
	}
	stored := route.Object().(*gatewayv1.UDPRoute)
	if ParentOf(stored, route.Set, route.Port, "c") != nil {
		t.Error("something is found where nothing is said")
	}
	other := route
	other.Set.Name = "edge-1"
	stored.Status.Parents = []gatewayv1.RouteParentStatus{
		{ParentRef: other.parent(), ControllerName: "c"}, {ParentRef: route.parent(), ControllerName: "other"},
		{ParentRef: route.parent(), ControllerName: "c"},
	}
	if got := ParentOf(stored, route.Set, route.Port, "c"); got != &stored.Status.Parents[2] {
		t.Errorf("found %v", got)
	}
}

// TestGatewayProblems finds out what a class lacks, and says what to do.
func TestGatewayProblems(t *testing.T) {
	class := &v1beta1.StreamIngressClass{}
	class.Spec.Gateway = &edgeGateway
	from := gatewayv1.NamespacesFromSame
	whole := func() GatewayState {
		return GatewayState{
			Gateway: &gatewayv1.Gateway{Spec: gatewayv1.GatewaySpec{GatewayClassName: "c", AllowedListeners: &gatewayv1.AllowedListeners{
				Namespaces: &gatewayv1.ListenerNamespaces{From: &from},
			}}},
			Class: &gatewayv1.GatewayClass{Status: gatewayv1.GatewayClassStatus{
				Conditions:        []metav1.Condition{says("Accepted", "True", "Accepted", 1)},
				SupportedFeatures: []gatewayv1.SupportedFeature{{Name: "ListenerSet"}, {Name: "TCPRoute"}, {Name: "UDPRoute"}},
			}},
		}
	}
	said := func(kinds ...gatewayv1.RouteGroupKind) GatewayState {
		s := whole()
		s.Gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "own", Port: 9, Protocol: gatewayv1.TCPProtocolType}}
		s.Gateway.Status.Listeners = []gatewayv1.ListenerStatus{{Name: "own", SupportedKinds: kinds}}
		return s
	}
	for _, s := range []GatewayState{whole(), said(), said(gatewayv1.RouteGroupKind{Kind: "TCPRoute"})} {
		if problems := s.Problems(class); len(problems) > 0 {
			t.Errorf("nothing is wrong, and %v", problems)
		}
	}
	for name, tc := range map[string]struct {
		change func(*GatewayState)
		reason string
		text   string
	}{
		"no kinds":           {func(s *GatewayState) { s.Missing = []string{"TCPRoutes"} }, "GatewayNotSupported", "install the Gateway API"},
		"no Gateway":         {func(s *GatewayState) { s.Gateway = nil }, "GatewayNotFound", "there is no Gateway infra/edge"},
		"no GatewayClass":    {func(s *GatewayState) { s.Class = nil }, "GatewayNotServed", "does not exist"},
		"nobody serves it":   {func(s *GatewayState) { s.Class.Status.Conditions = nil }, "GatewayNotServed", "no controller serves"},
		"no UDPRoute":        {func(s *GatewayState) { s.Class.Status.SupportedFeatures = s.Class.Status.SupportedFeatures[:2] }, "GatewayNotSupported", "does not list UDPRoute"},
		"lets nobody attach": {func(s *GatewayState) { s.Gateway.Spec.AllowedListeners = nil }, "GatewayNotSupported", "set its spec.allowedListeners"},
		"no TCPRoute on its own listener": {func(s *GatewayState) {
			s.Gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "own", Port: 9, Protocol: gatewayv1.TCPProtocolType}}
			s.Gateway.Status.Listeners = []gatewayv1.ListenerStatus{{Name: "own", SupportedKinds: []gatewayv1.RouteGroupKind{{Kind: "TLSRoute"}}}}
		}, "GatewayNotSupported", "does not list TCPRoute among the supportedKinds"},
		"not accepted": {func(s *GatewayState) {
			s.Gateway.Status.Conditions = []metav1.Condition{says("Accepted", "False", "InvalidParameters", 1)}
		}, "GatewayNotServed", "InvalidParameters: in its words"},
	} {
		s := whole()
		tc.change(&s)
		problems := s.Problems(class)
		if len(problems) != 1 || problems[0].Reason != tc.reason || !strings.Contains(problems[0].Err.Detail, tc.text) {
			t.Errorf("%s: got %v", name, problems)
		}
	}
}
