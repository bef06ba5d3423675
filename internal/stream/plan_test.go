package stream

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func entry(text string) Entry {
	e, err := ParseEntry(text)
	if err != nil {
		panic(err)
	}
	return e
}

func entries(texts map[int32]string) map[int32]Entry {
	all := map[int32]Entry{}
	for port, text := range texts {
		all[port] = entry(text)
	}
	return all
}

// current is a ConfigMap with keys of ours and foreign ones.
func current(ours, foreign map[int32]string) Current {
	s := Current{Data: map[string]string{}, Ours: map[int32]bool{}, Foreign: foreign}
	for port, text := range foreign {
		s.Data[Key(port)] = text
	}
	for port, text := range ours {
		s.Data[Key(port)], s.Ours[port] = text, true
	}
	return s
}

// TestPlanEntries has a row for every cell of the table in the documentation of PlanEntries, and proves it.
func TestPlanEntries(t *testing.T) {
	type texts = map[int32]string
	covered := map[string]bool{}
	for name, tc := range map[string]struct {
		now    Current
		wanted texts
		limit  int
		want   EntryPlan
	}{
		"absent and wanted is added": {
			now: current(nil, nil), wanted: texts{80: "a/b:1"},
			want: EntryPlan{Data: map[string]string{"80": "a/b:1"}, Changed: true, Bytes: 7, Entries: 1},
		},
		"absent and not wanted is nothing": {
			now: current(nil, nil), want: EntryPlan{Data: map[string]string{}},
		},
		"ours and wanted as it is changes nothing": {
			now: current(texts{80: "a/b:1"}, nil), wanted: texts{80: "a/b:1"},
			want: EntryPlan{Data: map[string]string{"80": "a/b:1"}, Bytes: 7, Entries: 1},
		},
		"ours and wanted otherwise is set": {
			now: current(texts{80: "a/b:1"}, nil), wanted: texts{80: "a/b:1:PROXY"},
			want: EntryPlan{Data: map[string]string{"80": "a/b:1:PROXY"}, Changed: true, Bytes: 13, Entries: 1},
		},
		"ours and not wanted goes": {
			now: current(texts{80: "a/b:1"}, nil), want: EntryPlan{Data: map[string]string{}, Changed: true, Removes: true},
		},
		"foreign and wanted is set": {
			now: current(nil, texts{80: "x/y:9"}), wanted: texts{80: "a/b:1"},
			want: EntryPlan{Data: map[string]string{"80": "a/b:1"}, Changed: true, Bytes: 7, Entries: 1},
		},
		"foreign and wanted as it is becomes ours as well": {
			now: current(nil, texts{80: "a/b:1"}), wanted: texts{80: "a/b:1"},
			want: EntryPlan{Data: map[string]string{"80": "a/b:1"}, Changed: true, Bytes: 7, Entries: 1},
		},
		"foreign and not wanted stays": {
			now: current(nil, texts{80: "x/y:9"}), want: EntryPlan{Data: map[string]string{}, Bytes: 7, Entries: 1},
		},
		"ours and foreign at once, and wanted, changes nothing": {
			now: current(texts{80: "a/b:1"}, texts{80: "a/b:1"}), wanted: texts{80: "a/b:1"},
			want: EntryPlan{Data: map[string]string{"80": "a/b:1"}, Bytes: 7, Entries: 1},
		},
		"ours and foreign at once, and not wanted, is let go": {
			now:  current(texts{80: "a/b:1"}, texts{80: "a/b:1"}),
			want: EntryPlan{Data: map[string]string{}, Changed: true, Removes: true, Bytes: 7, Entries: 1},
		},
		"what is no port, and what is binary, counts and stays": {
			now:  Current{Data: map[string]string{"readme": "12345"}, Binary: 100},
			want: EntryPlan{Data: map[string]string{}, Bytes: 111, Entries: 1},
		},
		"without room the one that stands goes first": {
			now: current(texts{90: "a/b:1"}, nil), wanted: texts{80: "a/b:1", 90: "a/b:1", 100: "a/b:1"}, limit: 14,
			want: EntryPlan{Data: map[string]string{"80": "a/b:1", "90": "a/b:1"}, Changed: true, Full: []int32{100}, Bytes: 14, Entries: 2},
		},
		"without room a longer one does not take that of one that stands": {
			now: current(texts{80: "a/b:1", 90: "a/b:1"}, nil), wanted: texts{80: "longer/b:1", 90: "a/b:1"}, limit: 14,
			want: EntryPlan{Data: map[string]string{"90": "a/b:1"}, Changed: true, Removes: true, Full: []int32{80}, Bytes: 7, Entries: 1},
		},
		"without room a longer one goes before a new one": {
			now: current(texts{90: "a/b:1"}, nil), wanted: texts{80: "a/b:1", 90: "long/b:1"}, limit: 14,
			want: EntryPlan{Data: map[string]string{"90": "long/b:1"}, Changed: true, Full: []int32{80}, Bytes: 10, Entries: 1},
		},
		"without room a shorter one may still fit": {
			now: current(nil, nil), wanted: texts{80: "long/service:1", 90: "a/b:1"}, limit: 10,
			want: EntryPlan{Data: map[string]string{"90": "a/b:1"}, Changed: true, Full: []int32{80}, Bytes: 7, Entries: 1},
		},
		"foreign keys take room": {
			now: current(nil, texts{80: "x/y:9"}), wanted: texts{90: "a/b:1"}, limit: 13,
			want: EntryPlan{Data: map[string]string{}, Full: []int32{90}, Bytes: 7, Entries: 1},
		},
		"the room of what goes is free": {
			now: current(texts{80: "a/b:1"}, nil), wanted: texts{90: "a/b:1"}, limit: 7,
			want: EntryPlan{Data: map[string]string{"90": "a/b:1"}, Changed: true, Removes: true, Bytes: 7, Entries: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.limit == 0 {
				tc.limit = MaxConfigMapBytes
			}
			for _, cell := range cells(tc.now, tc.wanted) {
				covered[cell] = true
			}
			if diff := cmp.Diff(tc.want, PlanEntries(tc.now, entries(tc.wanted), tc.limit)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, was := range []string{"absent", "ours", "foreign", "ours+foreign"} {
		for _, wish := range []string{" wanted", " not wanted"} {
			if !covered[was+wish] {
				t.Errorf("no row for %s,%s", was, wish)
			}
		}
	}
}

// cells are the cells of the table of PlanEntries that a row is about.
func cells(now Current, wanted map[int32]string) []string {
	var all []string
	for _, port := range []int32{80, 90, 100} {
		_, foreign := now.Foreign[port]
		was := map[[2]bool]string{{true, true}: "ours+foreign", {true, false}: "ours", {false, true}: "foreign", {}: "absent"}[[2]bool{now.Ours[port], foreign}]
		if _, is := wanted[port]; is {
			all = append(all, was+" wanted")
		} else {
			all = append(all, was+" not wanted")
		}
	}
	return all
}

// TestKeepOurs keeps what nobody wants any longer, as it stands, unless it can't be read.
func TestKeepOurs(t *testing.T) {
	type texts = map[int32]string
	now := current(texts{80: "a/b:1:PROXY", 81: "a/b:1", 82: "by hand"}, texts{90: "x/y:9"})
	wanted := entries(texts{81: "a/c:2", 100: "a/d:3"})
	kept := now.KeepOurs(wanted)
	if diff := cmp.Diff(entries(texts{80: "a/b:1:PROXY", 81: "a/c:2", 100: "a/d:3"}), kept); diff != "" {
		t.Error(diff)
	}
	if len(wanted) != 2 {
		t.Errorf("wanted has become %v", wanted)
	}
	for _, port := range []int32{81, 82, 90, 100} {
		now.Leave(wanted, port)
	}
	if diff := cmp.Diff(entries(texts{81: "a/b:1"}), wanted); diff != "" {
		t.Errorf("what is left as it is: %s", diff)
	}
	now, kept = current(texts{80: "a/b:1"}, nil), nil
	if plan := PlanEntries(now, now.KeepOurs(kept), MaxConfigMapBytes); plan.Changed || plan.Removes {
		t.Errorf("what is kept would be changed: %+v", plan)
	}

	tcp := func(port int32) PortKey { return PortKey{Protocol: v1beta1.TCP, Port: port} }
	front := ServicePorts{
		Ours:    map[PortKey]corev1.ServicePort{tcp(80): {}, tcp(81): {}},
		Foreign: map[PortKey]corev1.ServicePort{tcp(443): {}},
	}
	open := front.KeepOurs(map[PortKey]bool{tcp(81): true, tcp(82): true})
	if diff := cmp.Diff(map[PortKey]bool{tcp(80): true, tcp(81): true, tcp(82): true}, open); diff != "" {
		t.Error(diff)
	}
}

// TestTheLargestConfigMapFits fills a ConfigMap with the shortest and the longest entries there can be.
func TestTheLargestConfigMapFits(t *testing.T) {
	long := strings.Repeat("n", 63)
	for name, e := range map[string]Entry{
		"short entries": {Namespace: "a", Service: "b", Port: "1"},
		"long entries":  {Namespace: long, Service: long, Port: "65535", Accept: true, Send: true},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := make(map[int32]Entry, maxPort)
			for port := int32(1); port <= maxPort; port++ {
				wanted[port] = e
			}
			plan := PlanEntries(Current{}, wanted, MaxConfigMapBytes)
			bytes, stored := 0, 0
			for key, v := range plan.Data {
				bytes += len(key) + len(v)
				stored += storedSize(key, v)
			}
			if bytes != plan.Bytes || bytes > MaxConfigMapBytes || stored > maxStored || len(plan.Data) != plan.Entries {
				t.Errorf("%d entries of %d bytes, stored as %d; the plan says %d and %d", len(plan.Data), bytes, stored, plan.Entries, plan.Bytes)
			}
			if len(plan.Data)+len(plan.Full) != maxPort || !slices.IsSorted(plan.Full) {
				t.Errorf("%d entries and %d without room", len(plan.Data), len(plan.Full))
			}
		})
	}
}

func applied(keys ...PortKey) map[PortKey]corev1.ServicePort {
	ports := map[PortKey]corev1.ServicePort{}
	for _, k := range keys {
		ports[k] = corev1.ServicePort{
			Name: k.Name(), Protocol: corev1.Protocol(k.Protocol), Port: k.Port, TargetPort: intstr.FromInt32(k.Port), NodePort: 30000 + k.Port,
		}
	}
	return ports
}

func TestPlanPorts(t *testing.T) {
	tcp53, udp53, tcp80 := key(v1beta1.TCP, 53), key(v1beta1.UDP, 53), key(v1beta1.TCP, 80)
	edited := func(change func(*corev1.ServicePort)) map[PortKey]corev1.ServicePort {
		ports := applied(tcp53)
		p := ports[tcp53]
		change(&p)
		ports[tcp53] = p
		return ports
	}
	for name, tc := range map[string]struct {
		now     ServicePorts
		wanted  []PortKey
		want    PortPlan
		changes bool
	}{
		"nothing": {},
		"a port that is closed and wanted is opened": {
			wanted: []PortKey{tcp53}, want: PortPlan{Missing: []PortKey{tcp53}}, changes: true},
		"a pair on one number, one of them dropped by somebody": {
			now: ServicePorts{Ours: applied(udp53)}, wanted: []PortKey{udp53, tcp53},
			want: PortPlan{Current: []PortKey{udp53}, Missing: []PortKey{tcp53}}, changes: true},
		"a port of ours that is wanted stays": {
			now: ServicePorts{Ours: applied(tcp53, udp53)}, wanted: []PortKey{tcp53, udp53}, want: PortPlan{Current: []PortKey{tcp53, udp53}}},
		"a port of ours that is not wanted is closed": {
			now: ServicePorts{Ours: applied(tcp53, tcp80)}, wanted: []PortKey{tcp53},
			want: PortPlan{Current: []PortKey{tcp53}, Stale: []PortKey{tcp80}}, changes: true},
		"a port of ours whose target was edited is set right": {
			now:    ServicePorts{Ours: edited(func(p *corev1.ServicePort) { p.TargetPort = intstr.FromInt32(5353) })},
			wanted: []PortKey{tcp53}, want: PortPlan{Missing: []PortKey{tcp53}}, changes: true},
		"a port of ours that was renamed is set right": {
			now:    ServicePorts{Ours: edited(func(p *corev1.ServicePort) { p.Name = "dns" })},
			wanted: []PortKey{tcp53}, want: PortPlan{Missing: []PortKey{tcp53}}, changes: true},
		"a port of ours with another node port is left alone": {
			now:    ServicePorts{Ours: edited(func(p *corev1.ServicePort) { p.NodePort = 31999 })},
			wanted: []PortKey{tcp53}, want: PortPlan{Current: []PortKey{tcp53}}},
		"a foreign port that is wanted is open already": {
			now: ServicePorts{Foreign: applied(tcp80)}, wanted: []PortKey{tcp80}},
		"a foreign port that is not wanted is left alone": {
			now: ServicePorts{Foreign: applied(tcp80)}},
		"a port that others have applied too is let go": {
			now:    ServicePorts{Foreign: applied(tcp80), Shared: map[PortKey]bool{tcp80: true}},
			wanted: []PortKey{tcp80}, want: PortPlan{Stale: []PortKey{tcp80}}, changes: true},
		"a foreign port is not shared": {
			now: ServicePorts{Foreign: applied(tcp80), Shared: map[PortKey]bool{tcp80: false}}},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := map[PortKey]bool{}
			for _, k := range tc.wanted {
				wanted[k] = true
			}
			got := PlanPorts(tc.now, wanted)
			if diff := cmp.Diff(tc.want, got); diff != "" || got.Changed() != tc.changes {
				t.Errorf("Changed() = %v, plan (-want +got):\n%s", got.Changed(), diff)
			}
		})
	}
}

func TestPortPlanLimit(t *testing.T) {
	a, b, c := key(v1beta1.TCP, 1), key(v1beta1.TCP, 2), key(v1beta1.UDP, 2)
	for name, tc := range map[string]struct {
		room          int
		missing, full []PortKey
	}{
		"room for all":             {3, []PortKey{b, c}, nil},
		"room for one more":        {2, []PortKey{b}, []PortKey{c}},
		"room for what stands":     {1, []PortKey{}, []PortKey{b, c}},
		"not even room for so few": {0, []PortKey{}, []PortKey{b, c}},
		"less than no room":        {-5, []PortKey{}, []PortKey{b, c}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := PortPlan{Current: []PortKey{a}, Missing: []PortKey{b, c}}
			full := plan.Limit(tc.room)
			if diff := cmp.Diff([][]PortKey{tc.missing, tc.full}, [][]PortKey{plan.Missing, full}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func BenchmarkPlanEntries(b *testing.B) {
	now, wanted := current(nil, nil), map[int32]Entry{}
	for port := int32(1); port <= 10_000; port++ {
		wanted[port] = entry("shop/postgres:5432")
		now.Data[Key(port)], now.Ours[port] = "shop/postgres:5432", true
	}
	for b.Loop() {
		if PlanEntries(now, wanted, MaxConfigMapBytes).Changed {
			b.Fatal("changed")
		}
	}
}
