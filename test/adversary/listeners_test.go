package adversary

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// ofListeners are what a tenant does to ListenerSets. While no replica answers, everything is stored.
var ofListeners = []kind{
	{"create ListenerSet", 6, createSet},
	{"patch ListenerSet", 4, func(u *user, rng *rand.Rand) act {
		return merges(u, aSet(u, rng), fmt.Sprintf(`{"spec":{"listeners":%s}}`, listenersText(someEntries(rng))))
	}},
	{"delete ListenerSet", 3, func(u *user, rng *rand.Rand) act { return deletes(u, aSet(u, rng)) }},
	{"finalizers of ListenerSet", 2, func(u *user, rng *rand.Rand) act { return merges(u, aSet(u, rng), finalizersText(rng)) }},
	{"recreate ListenerSet", 1, func(u *user, rng *rand.Rand) act {
		gone := aSet(u, rng)
		return then(deletes(u, gone), createSet(u, rng))
	}},
}

// gateway is one of the platform's that lets all namespaces attach ListenerSets.
func gateway() *gatewayv1.Gateway {
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: platform, Name: "edge"}}
	g.Spec.GatewayClassName = "none"
	g.Spec.Listeners = []gatewayv1.Listener{{Name: "web", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	g.Spec.AllowedListeners = &gatewayv1.AllowedListeners{
		Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)},
	}
	return g
}

// gatewayText changes what the Gateway itself listens on, beside its first listener.
func gatewayText(rng *rand.Rand) string {
	listeners := gateway().Spec.Listeners
	for _, e := range someEntries(rng) {
		listeners = append(listeners, gatewayv1.Listener{Name: e.Name, Port: e.Port, Protocol: e.Protocol, Hostname: e.Hostname})
	}
	return fmt.Sprintf(`{"spec":{"listeners":%s}}`, listenersText(listeners[:1+rng.IntN(2)]))
}

func listenersText(listeners any) string {
	text, err := json.Marshal(listeners)
	if err != nil {
		panic(err) // what they are made of has a text
	}
	return string(text)
}

// aSet is one of a tenant's ListenerSets, by its name, without listeners.
func aSet(u *user, rng *rand.Rand) *gatewayv1.ListenerSet {
	return setOf(u.namespace, fmt.Sprintf("set-%d", rng.IntN(3)))
}

func setOf(namespace, name string, listeners ...gatewayv1.ListenerEntry) *gatewayv1.ListenerSet {
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	set.Spec.ParentRef.Namespace = ptr.To(gatewayv1.Namespace(platform))
	set.Spec.ParentRef.Name = gatewayv1.ObjectName(gateway().Name)
	set.Spec.Listeners = listeners
	return set
}

// someEntries are one or two listeners, of which others want the same, or the whole port.
func someEntries(rng *rand.Rand) (entries []gatewayv1.ListenerEntry) {
	for i := range 1 + rng.IntN(2) {
		e := entry(pick[int32](rng, 7100, 7101, 80), pick(rng, "TCP", "UDP", "", "one.example.com", "two.example.com"))
		e.Name = gatewayv1.SectionName(fmt.Sprintf("l-%d", i))
		entries = append(entries, e)
	}
	return entries
}

// entry is a listener on a whole port of TCP or UDP, or on a host name there; any that no other listener has for "".
func entry(port int32, what string) gatewayv1.ListenerEntry {
	e := gatewayv1.ListenerEntry{Name: "l", Port: port, Protocol: gatewayv1.HTTPProtocolType}
	switch what {
	case "TCP", "UDP":
		e.Protocol = gatewayv1.ProtocolType(what)
	case "":
	default:
		e.Hostname = ptr.To(gatewayv1.Hostname(what))
	}
	return e
}

func createSet(u *user, rng *rand.Rand) act {
	set := aSet(u, rng)
	if set.Spec.Listeners = someEntries(rng); rng.IntN(4) == 0 {
		set.Finalizers = []string{mine}
	}
	return creates(u, set, fmt.Sprintf("%s, finalizers %v", listenersText(set.Spec.Listeners), set.Finalizers))
}
