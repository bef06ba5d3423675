package stream

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxListeners is how many listeners one ListenerSet of ours has. Their uniqueness rule in the CRD is quadratic: a create takes 13 ms with
// 16 of them, and 241 ms with 64.
const MaxListeners = 16

// Listener is a port of a Gateway, open to the routes of one namespace.
type Listener struct {
	Port PortKey
	// Namespace is the one whose routes may attach, of the kind of the port's protocol.
	Namespace string
}

// Name is the name of a listener in its ListenerSet.
func (l Listener) Name() string { return l.Port.Name() }

// StoredSet is a ListenerSet of a class, as it is stored.
type StoredSet struct {
	Name    string
	Created time.Time
	// Listeners are those that it has. Whatever else stands in it makes it Foreign: it is written whole.
	Listeners []Listener
	Foreign   bool
}

// PlannedSet is what a ListenerSet is to have: nothing if it is to be deleted.
type PlannedSet struct {
	Name      string
	Listeners []Listener
	// Changed says that it differs from what is stored.
	Changed bool
}

// PlanListeners lays out the listeners of a class in ListenerSets, by name. A listener stays in the set where it is, so that no
// implementation sees it go and come: of several that have its port, which two leaders may have written, in the oldest, which is the one
// that counts by the Gateway API. New ones fill the holes of the sets that there are, the oldest set first, and then new sets: a port that
// is added to a set counts as that set's age, and older than whatever others add later.
//
// taken are the names of other ListenerSets in the namespace, which new ones don't get.
func PlanListeners(class string, stored []StoredSet, wanted []Listener, taken ...string) []PlannedSet {
	sets := slices.SortedFunc(slices.Values(stored), func(a, b StoredSet) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	missing := map[PortKey]Listener{}
	for _, l := range wanted {
		missing[l.Port] = l
	}
	planned := make([]PlannedSet, 0, len(sets))
	for i, set := range sets {
		planned = append(planned, PlannedSet{Name: set.Name, Changed: set.Foreign})
		for _, l := range set.Listeners {
			want, ok := missing[l.Port]
			if !ok {
				planned[i].Changed = true
				continue
			}
			delete(missing, l.Port)
			planned[i].Changed = planned[i].Changed || want != l
			planned[i].Listeners = append(planned[i].Listeners, want)
		}
	}
	rest := slices.SortedFunc(maps.Values(missing), compareListeners)
	for i := range planned {
		room := min(max(MaxListeners-len(planned[i].Listeners), 0), len(rest))
		planned[i].add(rest[:room])
		rest = rest[room:]
	}
	for _, set := range stored {
		taken = append(taken, set.Name)
	}
	for next := freeNames(class, taken); len(rest) > 0; {
		set := PlannedSet{Name: next()}
		n := min(MaxListeners, len(rest))
		set.add(rest[:n])
		planned, rest = append(planned, set), rest[n:]
	}
	for i := range planned {
		slices.SortFunc(planned[i].Listeners, compareListeners)
	}
	slices.SortFunc(planned, func(a, b PlannedSet) int { return cmp.Compare(a.Name, b.Name) })
	return planned
}

func (p *PlannedSet) add(listeners []Listener) {
	p.Listeners = append(p.Listeners, listeners...)
	p.Changed = p.Changed || len(listeners) > 0
}

func compareListeners(a, b Listener) int { return ComparePorts(a.Port, b.Port) }

// freeNames gives names for new sets of a class, the lowest numbers that no set has.
func freeNames(class string, names []string) func() string {
	taken := map[int]bool{}
	for _, name := range names {
		if number, is := strings.CutPrefix(name, class+"-"); is {
			if n, err := strconv.Atoi(number); err == nil {
				taken[n] = true
			}
		}
	}
	next := 0
	return func() string {
		for taken[next] {
			next++
		}
		taken[next] = true
		return fmt.Sprintf("%s-%d", class, next)
	}
}
