package guard

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

var (
	edge   = types.NamespacedName{Namespace: "edge", Name: "public"}
	first  = types.NamespacedName{Namespace: "edge", Name: "first"}
	since  = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	me     = claim.ListenerSetHolder("shop", "web")
	rival  = claim.ListenerSetHolder("rival", "web")
	itsOwn = claim.GatewayHolder("edge", "public")
)

// facts are Facts that are written down here.
type facts struct {
	namespaces map[string]labels.Set
	claims     map[string]*v1beta1.EdgeClaim
	openers    []Opener
	streams    map[string]*v1beta1.StreamIngress
}

var _ Facts = &facts{}

func (f *facts) NamespaceLabels(name string) labels.Set { return f.namespaces[name] }

func (f *facts) Claim(name string) *v1beta1.EdgeClaim { return f.claims[name] }

func (f *facts) Stream(key types.NamespacedName) *v1beta1.StreamIngress {
	return f.streams[key.String()]
}

func (f *facts) claimsWhere(wanted func(*v1beta1.EdgeClaim) bool) (found []*v1beta1.EdgeClaim) {
	for _, name := range slices.Sorted(maps.Keys(f.claims)) {
		if wanted(f.claims[name]) {
			found = append(found, f.claims[name])
		}
	}
	return found
}

func (f *facts) HostClaims(hosts claim.Coordinate) []*v1beta1.EdgeClaim {
	return f.claimsWhere(func(c *v1beta1.EdgeClaim) bool { return c.Spec.Scope == hosts.HostsScope() })
}

func (f *facts) ClaimsOfNamespace(namespace, family string) []*v1beta1.EdgeClaim {
	return f.claimsWhere(func(c *v1beta1.EdgeClaim) bool {
		return c.Spec.Holder.Namespace == namespace && claim.ScopeFamily(c.Spec.Scope) == family
	})
}

func (f *facts) Standing(at claim.Coordinate) (found []Opener) {
	for _, o := range f.openers {
		if o.Of == at.Gateway() && o.Stands(at) {
			found = append(found, o)
		}
	}
	return found
}

func (f *facts) Unclaimed(ports *stream.PortSet, class string, protocol v1beta1.Protocol) {
	for _, c := range f.claims {
		if at, err := claim.Of(c); err == nil && at.Class() == class && at.Protocol() == protocol {
			ports.Remove(at.Port())
		}
	}
}

func (f *facts) Listens(gateway types.NamespacedName, port stream.PortKey) bool {
	return slices.ContainsFunc(f.openers, func(o Opener) bool {
		return o.Of == gateway && slices.ContainsFunc(o.Listeners, func(l Listener) bool {
			return slices.Contains(stream.PortsOf(l.Port, l.Protocol), port)
		})
	})
}

// held are claims of a holder, by name, and those which say that host names share a port.
func held(by claim.Holder, points ...claim.Coordinate) map[string]*v1beta1.EdgeClaim {
	all := map[string]*v1beta1.EdgeClaim{}
	for _, at := range points {
		c := claim.New(at, claim.Claimant{Holder: by, UID: "u", Generation: 1})
		c.CreationTimestamp = metav1.NewTime(since)
		all[at.Name()] = c
		if at.ListenerHost() != "" {
			hosts := claim.Listener(at.Gateway(), claim.HTTPListener, at.Port())
			all[hosts.Name()] = claim.New(hosts, claim.Claimant{Holder: claim.GatewayHolder(at.Gateway().Namespace, at.Gateway().Name)})
		}
	}
	return all
}

func join(maps ...map[string]*v1beta1.EdgeClaim) map[string]*v1beta1.EdgeClaim {
	all := map[string]*v1beta1.EdgeClaim{}
	for _, m := range maps {
		for name, c := range m {
			all[name] = c
		}
	}
	return all
}

// opener has listeners on the Gateway edge/public; its holder says of which kind it is.
func opener(by claim.Holder, listeners ...Listener) Opener {
	o := Opener{Claimant: claim.Claimant{Holder: by, UID: types.UID(by.String()), Generation: 1}, Kind: Kind(by.Kind), Of: edge, Created: since}
	for i, l := range listeners {
		l.Index = i
		o.Listeners = append(o.Listeners, l)
	}
	return o
}

func tcp(port int32) Listener {
	return Listener{Port: port, Protocol: gatewayv1.TCPProtocolType, Host: claim.AllHosts}
}

func udp(port int32) Listener {
	return Listener{Port: port, Protocol: gatewayv1.UDPProtocolType, Host: claim.AllHosts}
}

func http(port int32, host string) Listener {
	return Listener{Port: port, Protocol: gatewayv1.HTTPProtocolType, Host: host}
}

func https(port int32, host string) Listener {
	return Listener{Port: port, Protocol: gatewayv1.HTTPSProtocolType, Host: host}
}

func tls(port int32, host string) Listener {
	return Listener{Port: port, Protocol: gatewayv1.TLSProtocolType, Host: host}
}

// other is a listener of a protocol that is not known.
func other(port int32) Listener {
	return Listener{Port: port, Protocol: "example.com/quic", Host: claim.AllHosts}
}

// whole and name are points on the Gateway edge/public.
func whole(port int32) claim.Coordinate { return claim.Listener(edge, v1beta1.TCP, port) }

func name(port int32, host string) claim.Coordinate {
	return claim.HostListener(edge, claim.TLSListener, port, host)
}

// class is a class of streams on the Gateway edge/public.
func class(name string, change ...func(*v1beta1.StreamIngressClass)) *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Gateway = &v1beta1.ObjectReference{Namespace: edge.Namespace, Name: edge.Name}
	for _, f := range change {
		f(c)
	}
	return c
}

func reserved(from, to int32) func(*v1beta1.StreamIngressClass) {
	return func(c *v1beta1.StreamIngressClass) {
		c.Spec.Reserved = append(c.Spec.Reserved, v1beta1.PortRange{From: from, To: to})
	}
}

// allow adds a rule for a team, or everybody for "", of which a namespace gets so many ports, any number for 0.
func allow(from, to int32, team string, most int32, protocols ...v1beta1.Protocol) func(*v1beta1.StreamIngressClass) {
	return func(c *v1beta1.StreamIngressClass) {
		rule := v1beta1.PortAllowance{From: from, To: to, MaxPerNamespace: most, Protocols: protocols}
		if team != "" {
			rule.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
		}
		c.Spec.Allow = append(c.Spec.Allow, rule)
	}
}

func elsewhere(c *v1beta1.StreamIngressClass) { c.Spec.Gateway.Name = "private" }

// verdict is a problem without its types.
type verdict struct{ Reason, Text string }

func verdicts(problems refusal.Problems) (all []verdict) {
	for _, p := range problems {
		all = append(all, verdict{p.Reason, p.Err.Error()})
	}
	return all
}

func points(all []claim.Coordinate) (texts []string) {
	for _, at := range all {
		texts = append(texts, at.String())
	}
	return texts
}

func noGrace(*v1beta1.EdgeClaim) time.Duration { return 0 }

func hostname(name string) *gatewayv1.Hostname { return new(gatewayv1.Hostname(name)) }

func gateway(key types.NamespacedName, age time.Duration, addresses ...string) gatewayv1.Gateway {
	g := gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, CreationTimestamp: metav1.NewTime(since.Add(-age))}}
	for _, address := range addresses {
		g.Status.Addresses = append(g.Status.Addresses, gatewayv1.GatewayStatusAddress{Value: address})
	}
	return g
}

func mustBe[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, fmt.Sprint(got), fmt.Sprint(want))
	}
}
