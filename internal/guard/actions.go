// Package guard has the rules for doors that others open: the listeners of Gateways and ListenerSets, the routes on them, and external IPs.
// Those for host names are in package hostname.
// What stands keeps what it has; what is new is refused, or warned of, where it would take that away.
//
// It knows no cluster: values go in, values come out.
package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind is what is guarded.
type Kind string

// The kinds that can be guarded.
const (
	Gateway     Kind = "Gateway"
	ListenerSet Kind = "ListenerSet"
	TCPRoute    Kind = "TCPRoute"
	UDPRoute    Kind = "UDPRoute"
	TLSRoute    Kind = "TLSRoute"
	Ingress     Kind = "Ingress"
	HTTPRoute   Kind = "HTTPRoute"
	GRPCRoute   Kind = "GRPCRoute"
	// ExternalDNS are the host names that Services, Ingresses and routes give to external-dns by annotations.
	ExternalDNS Kind = "ExternalDNS"
	// ExternalIPs are those that Services name in spec.externalIPs.
	ExternalIPs Kind = "ExternalIPs"
)

// Kinds are all of them.
func Kinds() []Kind {
	return slices.Concat(Listeners(), Routes(), []Kind{ExternalIPs, Ingress, HTTPRoute, GRPCRoute, ExternalDNS})
}

// Hosts are the kinds that use host names.
func Hosts() []Kind { return []Kind{Ingress, HTTPRoute, GRPCRoute, TLSRoute, ExternalDNS} }

// Listeners are the kinds that have listeners.
func Listeners() []Kind { return []Kind{Gateway, ListenerSet} }

// Routes are the kinds of which a listener serves one.
func Routes() []Kind { return []Kind{TCPRoute, UDPRoute, TLSRoute} }

// all stands for every kind in the text of Actions.
const all = "all"

// Action is what becomes of a request that would take away what somebody else has.
type Action string

// The actions.
const (
	// Deny refuses it.
	Deny Action = "Deny"
	// Warn lets it pass, and says what Deny would have refused.
	Warn Action = "Warn"
)

// Actions are those of the guarded kinds; a kind that is not among them is not guarded. It is a flag.Value.
type Actions map[Kind]Action

// String is the actions as Set reads them, by kind.
func (a Actions) String() string {
	texts := make([]string, 0, len(a))
	for _, kind := range slices.Sorted(maps.Keys(a)) {
		texts = append(texts, string(kind)+"="+string(a[kind]))
	}
	return strings.Join(texts, ",")
}

// Set reads KIND=ACTION, separated by commas. The kind all stands for those that are not named.
func (a *Actions) Set(text string) error {
	read := Actions{}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		name, action, _ := strings.Cut(part, "=")
		kind := Kind(strings.TrimSpace(name))
		if kind != all && !slices.Contains(Kinds(), kind) {
			return fmt.Errorf("%q is no kind that can be guarded: want one of %v, or all", kind, Kinds())
		}
		does := Action(strings.TrimSpace(action))
		if does != Deny && does != Warn {
			return fmt.Errorf("%q is no action: want %s=%s or %s=%s", part, kind, Deny, kind, Warn)
		}
		if was, twice := read[kind]; twice && was != does {
			return fmt.Errorf("%s is named twice", kind)
		}
		read[kind] = does
	}
	if does, named := read[all]; named {
		delete(read, all)
		for _, kind := range Kinds() {
			if _, named := read[kind]; !named {
				read[kind] = does
			}
		}
	}
	*a = read
	return nil
}

// Among are those of some kinds that are guarded.
func (a Actions) Among(kinds ...Kind) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(kind Kind) bool { return a[kind] == "" })
}

// Guards says whether any of some kinds is guarded: whoever looks at the listeners of a Gateway has to know those of ListenerSets, too.
func (a Actions) Guards(kinds ...Kind) bool {
	return slices.ContainsFunc(kinds, func(kind Kind) bool { return a[kind] != "" })
}
