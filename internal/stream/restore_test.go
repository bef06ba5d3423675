package stream

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// restored are facts with entries in the ConfigMaps of class public.
type restored struct {
	facts
	entries map[v1beta1.Protocol]Current
}

var _ RestoreFacts = &restored{}

func (r *restored) Entries(class *v1beta1.StreamIngressClass, protocol v1beta1.Protocol) Current {
	if class.Name != "public" {
		return answer(&r.facts, "Entries", Current{})
	}
	return answer(&r.facts, "Entries", r.entries[protocol])
}

func (r *restored) where(wanted func(*v1beta1.StreamIngress) bool) (all []v1beta1.StreamIngress) {
	for _, s := range r.streams {
		if wanted(s) {
			all = append(all, *s)
		}
	}
	return all
}

func (r *restored) StreamsTo(service types.NamespacedName) []v1beta1.StreamIngress {
	return answer(&r.facts, "StreamsTo", r.where(func(s *v1beta1.StreamIngress) bool { return upstreamOf(s) == service }))
}

func (r *restored) StreamsAt(protocol v1beta1.Protocol, port int32) []v1beta1.StreamIngress {
	return answer(&r.facts, "StreamsAt", r.where(func(s *v1beta1.StreamIngress) bool {
		return s.ProtocolOrDefault() == protocol && (s.Spec.Listen != nil && *s.Spec.Listen == port || s.Status.Listen == port)
	}))
}

// entriesOfOurs are entries in a ConfigMap that Portcullis has written.
func entriesOfOurs(data map[int32]string) Current {
	c := Current{Data: map[string]string{}, Ours: map[int32]bool{}, Foreign: map[int32]string{}}
	for port, entry := range data {
		c.Data[Key(port)], c.Ours[port] = entry, true
	}
	c.lead()
	return c
}

// aged was created so many seconds after the first.
func aged(seconds int) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) {
		s.CreationTimestamp = metav1.NewTime(since.Add(time.Duration(seconds) * time.Second))
	}
}

func refused(s *v1beta1.StreamIngress) {
	s.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionAccepted, Status: metav1.ConditionFalse}}
}

func deleted(s *v1beta1.StreamIngress) { s.DeletionTimestamp = new(metav1.NewTime(since)) }

func speaking(accept, send bool) func(*v1beta1.StreamIngress) {
	return func(s *v1beta1.StreamIngress) {
		s.Spec.ProxyProtocol = &v1beta1.ProxyProtocol{Accept: accept, Send: send}
	}
}

// TestRestore has entries of class public, which assigns 20000 to 20009, go to the streams that are stored. want are the ports that
// each of these gets, 0 being left out, and kept the entries that stay meanwhile.
func TestRestore(t *testing.T) {
	const entry = "shop/db:5432"
	stored := func(name string, change ...func(*v1beta1.StreamIngress)) *v1beta1.StreamIngress {
		return sti(append([]func(*v1beta1.StreamIngress){named("shop", name)}, change...)...)
	}
	has := func(name string, at claim.Coordinate) map[claim.Coordinate]*v1beta1.EdgeClaim {
		return claims(claim.StreamHolder("shop", name), at)
	}
	for name, tc := range map[string]struct {
		entries map[int32]string
		streams []*v1beta1.StreamIngress
		change  func(*restored)
		want    map[string]int32
		kept    []int32
	}{
		"the one that says the same": {map[int32]string{20003: entry, 20001: "shop/db:5433"},
			[]*v1beta1.StreamIngress{stored("a")}, nil, map[string]int32{"a": 20003}, []int32{20003}},
		"none says the same": {map[int32]string{20003: "shop/db:1", 20004: "shop/db2:5432", 20005: "data/db:5432", 20006: entry + "::PROXY"},
			[]*v1beta1.StreamIngress{stored("a")}, nil, nil, nil},
		"with the PROXY protocol": {map[int32]string{20003: entry, 20004: entry + "::PROXY", 20005: entry + ":PROXY"},
			[]*v1beta1.StreamIngress{stored("a", speaking(false, true)), stored("b", speaking(true, false))}, nil,
			map[string]int32{"a": 20004, "b": 20005}, []int32{20004, 20005}},
		"its port by name": {map[int32]string{20003: entry}, []*v1beta1.StreamIngress{stored("a", leadingTo("", "db", "sql"))}, nil,
			map[string]int32{"a": 20003}, []int32{20003}},
		"its port by name, without the Service": {map[int32]string{20003: entry}, []*v1beta1.StreamIngress{stored("a", leadingTo("", "db", "sql"))},
			func(f *restored) { f.services = nil }, map[string]int32{"a": 20003}, []int32{20003}},
		"a port by name, without the Service, after one by number": {map[int32]string{20001: "shop/db:80", 20002: entry},
			[]*v1beta1.StreamIngress{stored("a", aged(1), leadingTo("", "db", "80")), stored("b", leadingTo("", "db", "sql"))},
			func(f *restored) { f.services = nil }, map[string]int32{"a": 20001, "b": 20002}, []int32{20001, 20002}},
		"a port by name, without the Service, which may be either": {map[int32]string{20001: "shop/db:80", 20002: entry},
			[]*v1beta1.StreamIngress{stored("b", leadingTo("", "db", "sql"))}, func(f *restored) { f.services = nil }, nil, nil},
		"a port by name that the Service has not": {map[int32]string{20001: "shop/db:80", 20002: "shop/db:81", 20003: entry},
			[]*v1beta1.StreamIngress{
				stored("a", aged(1), leadingTo("", "db", "80")), stored("b", leadingTo("", "db", "old")), stored("c", leadingTo("", "db", "sql")),
			}, nil, map[string]int32{"a": 20001, "b": 20002, "c": 20003}, []int32{20001, 20002, 20003}},
		"an entry by name, without the Service": {map[int32]string{20001: "shop/db:sql", 20002: entry},
			[]*v1beta1.StreamIngress{stored("a"), stored("b", aged(1))}, func(f *restored) { f.services = nil },
			map[string]int32{"a": 20002, "b": 20001}, []int32{20001, 20002}},
		"the oldest the lowest": {map[int32]string{20007: entry, 20002: entry, 20004: entry},
			[]*v1beta1.StreamIngress{stored("a", aged(3)), stored("b", aged(1)), stored("c", aged(2))}, nil,
			map[string]int32{"b": 20002, "c": 20004, "a": 20007}, []int32{20002, 20004, 20007}},
		"as old, by name": {map[int32]string{20007: entry, 20002: entry},
			[]*v1beta1.StreamIngress{stored("b"), stored("a"), stored("c")}, nil, map[string]int32{"a": 20002, "b": 20007}, []int32{20002, 20007}},
		"more entries than streams": {map[int32]string{20007: entry, 20002: entry}, []*v1beta1.StreamIngress{stored("a")}, nil,
			map[string]int32{"a": 20002}, []int32{20002}},
		"one has claimed": {map[int32]string{20007: entry, 20002: entry}, []*v1beta1.StreamIngress{stored("a"), stored("b", aged(1))},
			func(f *restored) { f.claims = has("a", tcp(20002)) }, map[string]int32{"b": 20007}, []int32{20007}},
		"one has claimed another": {map[int32]string{20007: entry, 20002: entry}, []*v1beta1.StreamIngress{stored("a"), stored("b", aged(1))},
			func(f *restored) { f.claims = has("a", tcp(20001)) }, map[string]int32{"b": 20002}, []int32{20002}},
		"a port of another protocol is none": {map[int32]string{20002: entry}, []*v1beta1.StreamIngress{stored("a", isUDP)}, nil, nil, nil},
		"somebody else has it": {map[int32]string{20002: entry}, []*v1beta1.StreamIngress{stored("a")},
			func(f *restored) { f.claims = has("x", tcp(20002)) }, nil, nil},
		"another names it": {map[int32]string{20002: entry, 20003: entry},
			[]*v1beta1.StreamIngress{stored("a"), stored("b", listen(20002), aged(1), leadingTo("", "db", "1"))}, nil,
			map[string]int32{"a": 20003}, []int32{20003}},
		"another names it, and says the same": {map[int32]string{20002: entry, 20003: entry},
			[]*v1beta1.StreamIngress{stored("a"), stored("b", listen(20002), aged(1))}, nil, map[string]int32{"a": 20003}, []int32{20002, 20003}},
		"another names it in vain": {map[int32]string{20002: entry}, []*v1beta1.StreamIngress{stored("a"), stored("b", listen(20002), refused)}, nil,
			map[string]int32{"a": 20002}, []int32{20002}},
		"another names it, which does not get it": {map[int32]string{20002: entry}, []*v1beta1.StreamIngress{stored("a"), sti(named("data", "b"), listen(20002))},
			func(f *restored) {
				f.namespaces = map[string]labels.Set{"shop": {"team": "shop"}}
				allow(20000, 20009, "shop")(f.classes[0])
			}, map[string]int32{"a": 20002}, []int32{20002}},
		"another of another class names it": {map[int32]string{20002: entry},
			[]*v1beta1.StreamIngress{stored("a"), stored("b", listen(20002), of("internal"))}, nil, map[string]int32{"a": 20002}, []int32{20002}},
		"another had it": {map[int32]string{20002: entry, 20003: entry}, []*v1beta1.StreamIngress{stored("a"), stored("b", servedBy("public", 20002))}, nil,
			map[string]int32{"a": 20003}, []int32{20002, 20003}},
		"out of the range": {map[int32]string{19999: entry, 20010: entry}, []*v1beta1.StreamIngress{stored("a")}, nil, nil, nil},
		"reserved": {map[int32]string{20002: entry}, []*v1beta1.StreamIngress{stored("a")},
			func(f *restored) { reserved(20002, 20002)(f.classes[0]) }, nil, nil},
		"for other teams": {map[int32]string{20002: entry, 20006: entry}, []*v1beta1.StreamIngress{stored("a")}, func(f *restored) {
			allow(20002, 20002, "data")(f.classes[0])
			allow(20005, 20007, "")(f.classes[0])
		}, map[string]int32{"a": 20006}, []int32{20006}},
		"it is being deleted": {map[int32]string{20002: entry}, []*v1beta1.StreamIngress{stored("a", deleted), stored("b", aged(1))}, nil,
			map[string]int32{"b": 20002}, []int32{20002}},
		"it has another class": {map[int32]string{20002: entry}, []*v1beta1.StreamIngress{stored("a", of("internal"))}, nil, nil, nil},
		"of the default class": {map[int32]string{20002: entry}, []*v1beta1.StreamIngress{stored("a", of(""))},
			func(f *restored) { isDefault(f.classes[0]) }, map[string]int32{"a": 20002}, []int32{20002}},
		"from other namespaces, of which one has leave": {map[int32]string{20002: entry, 20003: entry},
			[]*v1beta1.StreamIngress{
				sti(named("evil", "a"), leadingTo("shop", "db", "5432")), sti(named("ally", "b"), leadingTo("shop", "db", "5432"), aged(1)),
				stored("c", aged(2)),
			}, func(f *restored) { f.grants = map[string]bool{"ally -> shop/db": true} },
			map[string]int32{"b": 20002, "c": 20003}, []int32{20002, 20003}},
		"to the outside": {map[int32]string{20002: "shop/sti-a:5432"}, []*v1beta1.StreamIngress{stored("a", outside("db.example.com"))}, nil,
			map[string]int32{"a": 20002}, []int32{20002}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &restored{entries: map[v1beta1.Protocol]Current{v1beta1.TCP: entriesOfOurs(tc.entries)}}
			f.classes = []*v1beta1.StreamIngressClass{class("public", autoAssign(20000, 20009), upstreams(v1beta1.UpstreamGranted)), class("internal", autoAssign(20000, 20009))}
			f.services = map[string]*corev1.Service{"shop/db": db}
			f.streams = map[string]*v1beta1.StreamIngress{}
			for _, s := range tc.streams {
				f.streams[s.Namespace+"/"+s.Name] = s
			}
			if tc.change != nil {
				tc.change(f)
			}
			f.mustRestore(t, tc.streams, tc.want)
			got := Retained(f, f.classes[0], v1beta1.TCP, slices.Sorted(maps.Keys(tc.entries)))
			got = slices.DeleteFunc(got, func(port int32) bool { return f.claims[tcp(port)] != nil })
			if diff := cmp.Diff(tc.kept, got); len(tc.kept)+len(got) > 0 && diff != "" {
				t.Errorf("kept: %s", diff)
			}
		})
	}
}

// mustRestore asks for each stream which port it gets: nobody else may be assigned that one. A new stream gets none that goes to these.
func (r *restored) mustRestore(t *testing.T, streams []*v1beta1.StreamIngress, want map[string]int32) {
	t.Helper()
	fresh := sti(named("shop", "0"), aged(-1))
	for _, s := range streams {
		if s.Spec.Listen != nil || s.Spec.ClassName == "internal" || s.DeletionTimestamp != nil || s.Status.Listen != 0 ||
			len(r.Held(claim.StreamHolder(s.Namespace, s.Name))) > 0 {
			continue
		}
		port := r.restoredPort(s, &PortSet{})
		if port != want[s.Name] {
			t.Errorf("%s gets %d, want %d", s.Name, port, want[s.Name])
		}
		if port == 0 {
			continue
		}
		for _, other := range append([]*v1beta1.StreamIngress{fresh}, streams...) {
			at := claim.Stream("public", s.ProtocolOrDefault(), port)
			if other.Spec.Listen != nil {
				continue
			}
			if is := IsAssignable(r, other, r.classes[0], at); is != isSame(s, other) {
				t.Errorf("%s may be assigned %d of %s: %v", other.Name, port, s.Name, is)
			}
		}
		if r.restoredPort(fresh, &PortSet{}) == port {
			t.Errorf("a new stream gets %d of %s", port, s.Name)
		}
	}
}

// restoredPort is the port of the entry that goes to a stream of class public, 0 for none.
func (r *restored) restoredPort(s *v1beta1.StreamIngress, lost *PortSet) int32 {
	return Offered(r, s, Request{Class: r.classes[0], Free: &PortSet{}}, lost).Port
}

// TestRestoreToNewStreams has streams come that are not stored: they get what is left.
func TestRestoreToNewStreams(t *testing.T) {
	f := &restored{entries: map[v1beta1.Protocol]Current{
		v1beta1.TCP: entriesOfOurs(map[int32]string{20002: "shop/db:5432", 20003: "shop/db:5432", 20004: "shop/db:5432"}),
	}}
	f.classes = []*v1beta1.StreamIngressClass{class("public", autoAssign(20000, 20009)), class("internal")}
	f.streams = map[string]*v1beta1.StreamIngress{
		"shop/b": sti(named("shop", "b"), aged(5)), "shop/moves": sti(named("shop", "moves"), of("internal")),
	}
	for name, s := range map[string]*v1beta1.StreamIngress{"a new one": sti(), "one of another class": sti(named("shop", "moves"))} {
		lost := &PortSet{}
		for _, want := range []int32{20003, 20004, 0} {
			port := f.restoredPort(s, lost)
			if port != want {
				t.Errorf("%s gets %d after %v, want %d", name, port, lost.Next(1), want)
			}
			lost.Add(port)
		}
	}
	if got := f.restoredPort(sti(leadingTo("data", "db", "5432")), &PortSet{}); got != 0 {
		t.Errorf("one that leads elsewhere gets %d", got)
	}
}

// TestForeignEntriesAreNotRestored has entries that others have written: no stream gets these by leaving out its port.
func TestForeignEntriesAreNotRestored(t *testing.T) {
	both := entriesOfOurs(map[int32]string{20002: "shop/db:5432"})
	both.Foreign[20002] = "shop/db:5432"
	both.lead()
	f := &restored{entries: map[v1beta1.Protocol]Current{v1beta1.TCP: both}}
	f.classes = []*v1beta1.StreamIngressClass{class("public", autoAssign(20000, 20009))}
	f.streams = map[string]*v1beta1.StreamIngress{"shop/postgres": sti()}
	f.foreign = map[PortKey]Foreign{{v1beta1.TCP, 20002}: {Entry: "shop/db:5432"}}
	if got := f.restoredPort(sti(), &PortSet{}); got != 0 {
		t.Errorf("it gets %d", got)
	}
	if got := Retained(f, f.classes[0], v1beta1.TCP, []int32{20002}); len(got) > 0 {
		t.Errorf("%d is kept", got)
	}
	if IsAssignable(f, sti(), f.classes[0], tcp(20002)) {
		t.Error("it may be assigned what is foreign")
	}
}
