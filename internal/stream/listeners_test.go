package stream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func listenerOn(port int32) Listener {
	return Listener{Port: PortKey{Protocol: v1beta1.TCP, Port: port}, Namespace: "shop"}
}

// kept is what is stored after a plan was written.
func kept(before []StoredSet, planned []PlannedSet, now time.Time) (after []StoredSet) {
	for _, p := range planned {
		if len(p.Listeners) == 0 {
			continue
		}
		created := now
		for _, set := range before {
			if set.Name == p.Name {
				created = set.Created
			}
		}
		after = append(after, StoredSet{Name: p.Name, Created: created, Listeners: p.Listeners})
	}
	return after
}

// setWith is the set that has a listener for a port, empty for none.
func setWith(sets []StoredSet, port PortKey) string {
	for _, set := range sets {
		if slices.ContainsFunc(set.Listeners, func(l Listener) bool { return l.Port == port }) {
			return set.Name
		}
	}
	return ""
}

// TestListenersStay has streams come and go at random: each has one listener, no set has too many, a listener stays in its set, one that
// comes or goes writes one set, and where nothing has changed nothing is written.
func TestListenersStay(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 7))
		var stored []StoredSet
		wanted := map[PortKey]Listener{}
		for step := range 300 {
			l := listenerOn(1 + random.Int32N(80))
			if random.IntN(2) == 0 {
				l.Port.Protocol = v1beta1.UDP
			}
			_, had := wanted[l.Port]
			if wanted[l.Port] = l; had {
				delete(wanted, l.Port)
			}
			all := make([]Listener, 0, len(wanted))
			for _, l := range wanted {
				all = append(all, l)
			}
			planned := PlanListeners("edge", stored, all)
			written := 0
			for _, p := range planned {
				if p.Changed {
					written++
				}
			}
			after := kept(stored, planned, time.Unix(int64(step), 0))
			if written != 1 {
				t.Fatalf("seed %d, step %d: %d sets are written for one change", seed, step, written)
			}
			mustHaveAll(t, after, wanted)
			for port := range wanted {
				if was := setWith(stored, port); was != "" && setWith(after, port) != was {
					t.Fatalf("seed %d, step %d: %v has moved from %s to %s", seed, step, port, was, setWith(after, port))
				}
			}
			for _, p := range PlanListeners("edge", after, all) {
				if p.Changed {
					t.Fatalf("seed %d, step %d: %s would be written again", seed, step, p.Name)
				}
			}
			stored = after
		}
	}
}

func mustHaveAll(t *testing.T, sets []StoredSet, wanted map[PortKey]Listener) {
	t.Helper()
	found := map[PortKey]bool{}
	for _, set := range sets {
		if len(set.Listeners) > MaxListeners {
			t.Fatalf("%s has %d listeners", set.Name, len(set.Listeners))
		}
		for _, l := range set.Listeners {
			if found[l.Port] || wanted[l.Port] != l {
				t.Fatalf("%s has %v, which is not wanted, or there twice", set.Name, l)
			}
			found[l.Port] = true
		}
	}
	if len(found) != len(wanted) {
		t.Fatalf("%d listeners are there, want %d", len(found), len(wanted))
	}
}

// TestListenersOfTwoLeaders has one listener in two sets, as two leaders may write it, and one set that others have written to: the older
// one keeps it, and what is foreign goes.
func TestListenersOfTwoLeaders(t *testing.T) {
	old, young := time.Unix(100, 0), time.Unix(200, 0)
	stored := []StoredSet{
		{Name: "edge-0", Created: young, Listeners: []Listener{listenerOn(1), listenerOn(2)}},
		{Name: "edge-1", Created: old, Listeners: []Listener{listenerOn(1)}},
		{Name: "edge-2", Created: young, Foreign: true},
	}
	moved := listenerOn(2)
	moved.Namespace = "elsewhere"
	got := fmt.Sprint(PlanListeners("edge", stored, []Listener{listenerOn(1), moved, listenerOn(3)}))
	want := fmt.Sprint([]PlannedSet{
		{Name: "edge-0", Listeners: []Listener{moved}, Changed: true},
		{Name: "edge-1", Listeners: []Listener{listenerOn(1), listenerOn(3)}, Changed: true},
		{Name: "edge-2", Changed: true},
	})
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzPlanListeners looks at any state: each listener that is wanted is in one set, and no set has too many.
func FuzzPlanListeners(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 17, 17}, []byte{2, 3, 4})
	f.Fuzz(func(t *testing.T, has, wants []byte) {
		var stored []StoredSet
		for i, b := range has {
			if i%20 == 0 {
				stored = append(stored, StoredSet{Name: fmt.Sprintf("edge-%d", i/20*int(b)), Created: time.Unix(int64(b), 0), Foreign: b%7 == 0})
			}
			last := &stored[len(stored)-1]
			last.Listeners = append(last.Listeners, listenerOn(int32(b)+1))
		}
		wanted, all := map[PortKey]Listener{}, []Listener{}
		for _, b := range wants {
			l := listenerOn(int32(b) + 1)
			wanted[l.Port] = l
			all = append(all, l)
		}
		names := map[string]bool{}
		planned := PlanListeners("edge", stored, all)
		for _, p := range planned {
			if names[p.Name] && len(stored) < 2 {
				t.Fatalf("two sets are named %s", p.Name)
			}
			names[p.Name] = true
		}
		for i := range stored { // a set that had more than it may have keeps them: none is moved
			if len(stored[i].Listeners) > MaxListeners {
				return
			}
		}
		mustHaveAll(t, kept(stored, planned, time.Unix(1000, 0)), wanted)
	})
}
