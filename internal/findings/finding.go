// Package findings says which conflicts, and which doors that lead nowhere, a cluster has today. It looks at a snapshot by the rules by
// which Portcullis admits and enters, whether Portcullis is in that cluster or not.
//
// It knows no cluster: a snapshot goes in, findings come out.
package findings

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// Rule is what a finding is about.
type Rule string

// The rules, in the order in which findings are told.
const (
	PortTwice            Rule = "PortTwice"
	EntryLeadsNowhere    Rule = "EntryLeadsNowhere"
	EntryClosed          Rule = "EntryClosed"
	PortWithoutEntry     Rule = "PortWithoutEntry"
	PathTwice            Rule = "PathTwice"
	HostInNamespaces     Rule = "HostInNamespaces"
	ListenerConflict     Rule = "ListenerConflict"
	RouteNeverServes     Rule = "RouteNeverServes"
	AddressTwice         Rule = "AddressTwice"
	ExternalIPTwice      Rule = "ExternalIPTwice"
	ExternalIPTaken      Rule = "ExternalIPTaken"
	ExternalIPNamed      Rule = "ExternalIPNamed"
	NodePortsNearEnd     Rule = "NodePortsNearEnd"
	AnnotationUnreadable Rule = "AnnotationUnreadable"
)

// Level says how bad a finding is.
type Level string

// The levels: somebody is not served, or may not be soon; or somebody should have a look.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Note    Level = "note"
)

// About says what a rule looks for.
type About struct {
	Rule  Rule
	Level Level
	// Text is one sentence.
	Text string
	// Needs are the kinds without which the rule finds nothing.
	Needs []string
}

// Rules are all of them, in their order.
func Rules() []About {
	return []About{
		{PortTwice, Error, "A port of a proxy is wanted twice.", []string{"ConfigMap"}},
		{EntryLeadsNowhere, Error, "An entry of a ConfigMap leads to no port of a Service.", []string{"ConfigMap", "Service"}},
		{EntryClosed, Error, "The Service of the proxy does not have the port of an entry.", []string{"ConfigMap", "Service"}},
		{PortWithoutEntry, Warning, "The Service of a proxy has a port for which there is no entry.", []string{"ConfigMap", "Service"}},
		{PathTwice, Error, "Several Ingresses of one class serve the same host and path.", []string{"Ingress"}},
		{HostInNamespaces, Warning, "Ingresses of several namespaces serve the same host.", []string{"Ingress", "HostPolicy"}},
		{ListenerConflict, Error, "Two listeners of a Gateway exclude each other.", []string{"Gateway"}},
		{RouteNeverServes, Error, "A route is on no listener, or on one that serves another.", []string{"Gateway"}},
		{AddressTwice, Error, "Two load balancers have the same port of the same address.", []string{"Service"}},
		{ExternalIPTwice, Error, "Two Services name the same external IP, with the same port.", []string{"Service"}},
		{ExternalIPTaken, Error, "An external IP is the address of a node, or of another Service.", []string{"Service"}},
		{ExternalIPNamed, Note, "A Service names an external IP: nodes send there what is meant for it, whoever has it.", []string{"Service"}},
		{NodePortsNearEnd, Warning, "Few ports of the nodes are left.", []string{"Service"}},
		{AnnotationUnreadable, Error, "The annotation ingress/http of a Service can't be read.", []string{"Service"}},
	}
}

// Misses is a kind of which a rule could not look at all that is in a namespace, or in any if that is empty. It is empty for none.
func (a About) Misses(s *snapshot.Snapshot, namespace string) string {
	if a.Rule == RouteNeverServes { // whose Gateway may be in any namespace
		namespace = ""
	}
	for _, kind := range a.Needs {
		if !s.Knows(kind, namespace) {
			return kind
		}
	}
	return ""
}

// Undetermined is who wins where nothing says who does.
const Undetermined = "undetermined"

// winner is the oldest of those that were read, unless there may be an older one of that kind which was not.
func winner(s *snapshot.Snapshot, kind, oldest string) string {
	if !s.Knows(kind, "") {
		return Undetermined
	}
	return oldest
}

// Object is one that a finding is about.
type Object struct {
	Kind      string       `json:"kind"`
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name"`
	Created   *metav1.Time `json:"created,omitempty"`
}

// String is the object in one line, for example "Ingress shop/web".
func (o Object) String() string {
	return claim.Holder{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}.String()
}

// objectOf is an object of a kind.
func objectOf(kind string, obj metav1.Object) Object {
	o := Object{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if created := obj.GetCreationTimestamp(); !created.IsZero() {
		o.Created = &created
	}
	return o
}

// Finding is one thing that is not as it should be.
type Finding struct {
	Rule  Rule  `json:"rule"`
	Level Level `json:"level"`
	// Point is the port, address, or host and path that it is about, and Scope where that is.
	Point string `json:"point"`
	Scope string `json:"scope,omitempty"`
	// Objects are those that are part of it, the oldest first.
	Objects []Object `json:"objects"`
	// Wins says who is served today, undetermined where nothing says so, and empty where nobody else wants it.
	Wins string `json:"wins,omitempty"`
	// Text says what is wrong, and Advice what to do.
	Text   string `json:"text"`
	Advice string `json:"advice"`
}

// Since is when the youngest of its objects was made, from when on it was so at the earliest; zero where that is not known.
func (f *Finding) Since() (since time.Time) {
	for _, o := range f.Objects {
		if o.Created != nil && o.Created.After(since) {
			since = o.Created.Time
		}
	}
	return since
}

// sortObjects puts the oldest first.
func sortObjects(objects []Object) {
	slices.SortStableFunc(objects, func(a, b Object) int {
		if a.Created != nil && b.Created != nil && !a.Created.Equal(b.Created) {
			return a.Created.Compare(b.Created.Time)
		}
		return cmp.Compare(a.String(), b.String())
	})
}

// All are the findings of a snapshot, by rule, then by where they are.
func All(s *snapshot.Snapshot) []Finding {
	levels, order := map[Rule]Level{}, map[Rule]int{}
	for i, about := range Rules() {
		levels[about.Rule], order[about.Rule] = about.Level, i
	}
	var found []Finding
	for _, look := range []func(*snapshot.Snapshot) []Finding{
		entries, paths, hosts, listeners, routes, addresses, externalIPs, nodePorts, annotations,
	} {
		found = append(found, look(s)...)
	}
	for i := range found {
		found[i].Level = cmp.Or(found[i].Level, levels[found[i].Rule])
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.Rule], order[b.Rule]), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Point, b.Point),
			strings.Compare(a.Text, b.Text))
	})
	return found
}

// names are objects in a sentence.
func names(objects []Object) string {
	texts := make([]string, 0, len(objects))
	for _, o := range objects {
		texts = append(texts, o.String())
	}
	return list(texts)
}

// list puts words into a sentence, not more than six of them.
func list(words []string) string {
	if more := len(words) - 6; more > 0 {
		return strings.Join(words[:6], ", ") + " and others"
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}
