package stream

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

func classWith(spec v1beta1.StreamIngressClassSpec) *v1beta1.StreamIngressClass {
	return &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}, Spec: spec}
}

func selecting(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

var unreadable = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Likes"}}}

func TestEnds(t *testing.T) {
	for in, want := range map[v1beta1.PortRange][2]int32{
		{From: 80}:               {80, 80},
		{From: 80, To: 80}:       {80, 80},
		{From: 1, To: 65535}:     {1, 65535},
		{From: 20000, To: 20999}: {20000, 20999},
		{From: 65535}:            {65535, 65535},
		{From: 100, To: 90}:      {100, 90},
	} {
		if from, to := Ends(in); [2]int32{from, to} != want {
			t.Errorf("Ends(%v) = %d, %d", in, from, to)
		}
	}
}

// TestPolicy asks, for a few ports, whether the policy of a class gives them to a namespace.
func TestPolicy(t *testing.T) {
	type answer string
	const (
		yes        answer = "yes"
		reserved   answer = "reserved"
		notAllowed answer = "not allowed"
	)
	team := labels.Set{"team": "data"}
	for name, tc := range map[string]struct {
		spec      v1beta1.StreamIngressClassSpec
		protocol  v1beta1.Protocol
		namespace labels.Set
		want      map[int32]answer
	}{
		"no rules give everything": {
			want: map[int32]answer{1: yes, 8080: yes, 65535: yes},
		},
		"reserved ports are for nobody": {
			spec: v1beta1.StreamIngressClassSpec{Reserved: []v1beta1.PortRange{{From: 22}, {From: 80, To: 89}}},
			want: map[int32]answer{21: yes, 22: reserved, 23: yes, 79: yes, 80: reserved, 89: reserved, 90: yes},
		},
		"a rule gives its range and nothing else": {
			spec: v1beta1.StreamIngressClassSpec{Allow: []v1beta1.PortAllowance{{From: 1000, To: 1999}}},
			want: map[int32]answer{999: notAllowed, 1000: yes, 1999: yes, 2000: notAllowed},
		},
		"a rule without ends gives everything": {
			spec: v1beta1.StreamIngressClassSpec{Allow: []v1beta1.PortAllowance{{}}},
			want: map[int32]answer{1: yes, 65535: yes},
		},
		"rules add up": {
			spec: v1beta1.StreamIngressClassSpec{Allow: []v1beta1.PortAllowance{{From: 10, To: 20}, {From: 15, To: 30}}},
			want: map[int32]answer{9: notAllowed, 10: yes, 17: yes, 30: yes, 31: notAllowed},
		},
		"what a rule gives can be reserved": {
			spec: v1beta1.StreamIngressClassSpec{
				Allow: []v1beta1.PortAllowance{{From: 10, To: 20}}, Reserved: []v1beta1.PortRange{{From: 12}},
			},
			want: map[int32]answer{11: yes, 12: reserved, 13: yes},
		},
		"a rule for the other protocol does not count": {
			spec: v1beta1.StreamIngressClassSpec{Allow: []v1beta1.PortAllowance{{Protocols: []v1beta1.Protocol{v1beta1.UDP}}}},
			want: map[int32]answer{53: notAllowed},
		},
		"a rule for this protocol does": {
			spec:     v1beta1.StreamIngressClassSpec{Allow: []v1beta1.PortAllowance{{Protocols: []v1beta1.Protocol{v1beta1.UDP}}}},
			protocol: v1beta1.UDP, want: map[int32]answer{53: yes},
		},
		"a rule for the namespace": {
			spec:      v1beta1.StreamIngressClassSpec{Allow: []v1beta1.PortAllowance{{NamespaceSelector: selecting("team", "data")}}},
			namespace: team, want: map[int32]answer{80: yes},
		},
		"a rule for other namespaces": {
			spec:      v1beta1.StreamIngressClassSpec{Allow: []v1beta1.PortAllowance{{NamespaceSelector: selecting("team", "web")}}},
			namespace: team, want: map[int32]answer{80: notAllowed},
		},
		"a rule for labels, and a namespace without any": {
			spec: v1beta1.StreamIngressClassSpec{Allow: []v1beta1.PortAllowance{{NamespaceSelector: selecting("team", "web")}}},
			want: map[int32]answer{80: notAllowed},
		},
		"an empty selector selects every namespace": {
			spec: v1beta1.StreamIngressClassSpec{Allow: []v1beta1.PortAllowance{{NamespaceSelector: &metav1.LabelSelector{}}}},
			want: map[int32]answer{80: yes},
		},
		"a selector that can't be read selects none": {
			spec:      v1beta1.StreamIngressClassSpec{Allow: []v1beta1.PortAllowance{{NamespaceSelector: unreadable}}},
			namespace: team, want: map[int32]answer{80: notAllowed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			class := classWith(tc.spec)
			if tc.protocol == "" {
				tc.protocol = v1beta1.TCP
			}
			permitted, got := Permitted(class, tc.protocol, tc.namespace), map[int32]answer{}
			for port := range tc.want {
				switch {
				case Reserved(class, port):
					got[port] = reserved
				case !Allowed(class, tc.protocol, tc.namespace, port):
					got[port] = notAllowed
				default:
					got[port] = yes
				}
				if permitted.Has(port) != (got[port] == yes) {
					t.Errorf("Permitted has %d: %v", port, permitted.Has(port))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSeveralRulesGiveAPort has the first of them give it, whether it is spent or not.
func TestSeveralRulesGiveAPort(t *testing.T) {
	class := classWith(v1beta1.StreamIngressClassSpec{Allow: []v1beta1.PortAllowance{
		{NamespaceSelector: selecting("team", "web")}, {From: 10, To: 20, Protocols: []v1beta1.Protocol{v1beta1.TCP}}, {From: 15, To: 30},
	}})
	rules := RulesFor(class, nil)
	for port, want := range map[int32]int{9: -1, 10: 1, 15: 1, 20: 1, 21: 2, 30: 2, 31: -1} {
		if got := rules.Giving(v1beta1.TCP, port); got != want {
			t.Errorf("TCP/%d is given by rule %d, want %d", port, got, want)
		}
	}
	if got := rules.Giving(v1beta1.UDP, 15); got != 2 {
		t.Errorf("UDP/15 is given by rule %d", got)
	}
	for spent, want := range map[int][]int32{0: {10, 30}, 1: {21, 30}, 2: {10, 20}} {
		ports := Permitted(class, v1beta1.TCP, nil, spent)
		if diff := cmp.Diff(want, []int32{ports.Next(1), ports.Previous(maxPort)}); diff != "" {
			t.Errorf("with rule %d spent: %s", spent, diff)
		}
	}
}

func TestAutomatic(t *testing.T) {
	for name, tc := range map[string]struct {
		spec v1beta1.StreamIngressClassSpec
		want []int32
	}{
		"no range": {want: nil},
		"a range":  {v1beta1.StreamIngressClassSpec{AutoAssign: &v1beta1.PortRange{From: 20000, To: 20003}}, []int32{20000, 20001, 20002, 20003}},
		"a range of one port": {
			v1beta1.StreamIngressClassSpec{AutoAssign: &v1beta1.PortRange{From: 20000}}, []int32{20000}},
		"less what is reserved": {
			v1beta1.StreamIngressClassSpec{
				AutoAssign: &v1beta1.PortRange{From: 20000, To: 20003}, Reserved: []v1beta1.PortRange{{From: 20001, To: 20002}},
			}, []int32{20000, 20003}},
		"less what the namespace does not get": {
			v1beta1.StreamIngressClassSpec{
				AutoAssign: &v1beta1.PortRange{From: 20000, To: 20003}, Allow: []v1beta1.PortAllowance{{From: 20003, To: 30000}},
			}, []int32{20003}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, listed(Automatic(classWith(tc.spec), v1beta1.TCP, nil))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPickPort(t *testing.T) {
	free := &PortSet{}
	free.AddRange(20000, 20999)
	if again := PickPort(free, "shop", "postgres"); again != PickPort(free, "shop", "postgres") {
		t.Error("the same stream is given another port")
	}
	picked := &PortSet{}
	for i := range 1000 {
		port := PickPort(free, "shop", fmt.Sprintf("db-%d", i))
		if !free.Has(port) {
			t.Fatalf("drew %d, which is not free", port)
		}
		picked.Add(port)
	}
	if picked.Len() < 550 { // about 632 when all are as likely
		t.Errorf("a thousand streams have only %d different ports", picked.Len())
	}
	left := *free
	for i := range 1000 {
		port := PickPort(&left, "shop", "postgres")
		if !left.Has(port) {
			t.Fatalf("pick %d: %d is not free", i, port)
		}
		left.Remove(port)
	}
	if port := PickPort(&left, "shop", "postgres"); port != 0 {
		t.Errorf("drew %d from nothing", port)
	}
}

// FuzzPolicy checks for every port that the ways to ask for the policy agree, and that what is picked may be picked.
func FuzzPolicy(f *testing.F) {
	f.Add(int32(0), int32(0), int32(0), int32(0), int32(0), int32(0), int32(20000), int32(20999), byte(0), "a")
	f.Add(int32(22), int32(0), int32(1000), int32(2000), int32(1500), int32(1600), int32(1400), int32(1700), byte(1), "b")
	f.Add(int32(1), int32(65535), int32(1), int32(65535), int32(1), int32(1), int32(65535), int32(0), byte(6), "")
	f.Add(int32(-1), int32(70000), int32(-5), int32(1<<31-1), int32(0), int32(1), int32(9), int32(3), byte(255), "\x00")
	f.Fuzz(func(t *testing.T, r1, r2, a1, a2, b1, b2, d1, d2 int32, flags byte, name string) {
		rules := []v1beta1.PortAllowance{{From: a1, To: a2}, {From: b1, To: b2}}
		if flags&1 != 0 {
			rules[0].Protocols = []v1beta1.Protocol{v1beta1.UDP}
		}
		if flags&2 != 0 {
			rules[1].NamespaceSelector = selecting("team", "data")
		}
		if flags&4 != 0 {
			rules[1].NamespaceSelector = unreadable
		}
		class := classWith(v1beta1.StreamIngressClassSpec{
			Reserved: []v1beta1.PortRange{{From: r1, To: r2}}, Allow: rules[:min(int(flags>>3), len(rules))],
			AutoAssign: &v1beta1.PortRange{From: d1, To: d2},
		})
		namespace := labels.Set{"team": "data"}
		permitted, automatic := Permitted(class, v1beta1.TCP, namespace), Automatic(class, v1beta1.TCP, namespace)
		spared, given := Permitted(class, v1beta1.TCP, namespace, 0), RulesFor(class, namespace)
		first, last := Ends(*class.Spec.AutoAssign)
		for port := int32(1); port <= maxPort; port++ {
			may := Allowed(class, v1beta1.TCP, namespace, port) && !Reserved(class, port)
			if permitted.Has(port) != may {
				t.Fatalf("%d: Permitted says %v, Allowed and Reserved %v", port, permitted.Has(port), may)
			}
			if spared.Has(port) != (may && given.Giving(v1beta1.TCP, port) != 0) {
				t.Fatalf("%d: without the first rule Permitted says %v, and it is given by rule %d", port, spared.Has(port), given.Giving(v1beta1.TCP, port))
			}
			if automatic.Has(port) != (may && first <= port && port <= last) {
				t.Fatalf("%d: Automatic says %v", port, automatic.Has(port))
			}
		}
		if drawable := MayAutoAssign(class, permitted); drawable != (automatic.Len() > 0) {
			t.Errorf("drawable: %v, of %d", drawable, automatic.Len())
		}
		if port := PickPort(automatic, "ns", name); port == 0 != (automatic.Len() == 0) || port != 0 && !automatic.Has(port) {
			t.Errorf("drew %d of %d", port, automatic.Len())
		}
	})
}

func BenchmarkPermitted(b *testing.B) {
	class := classWith(v1beta1.StreamIngressClassSpec{
		Reserved: []v1beta1.PortRange{{From: 1, To: 1023}},
		Allow:    []v1beta1.PortAllowance{{From: 1, To: 32767, NamespaceSelector: selecting("team", "data")}, {From: 40000, To: 50000}},
	})
	for b.Loop() {
		Permitted(class, v1beta1.TCP, labels.Set{"team": "data"})
	}
}
