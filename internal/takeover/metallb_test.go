package takeover

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestReadMetalLB(t *testing.T) {
	p, err := readMetalLB(ipAddressPool("public", map[string]any{"addresses": []any{"192.0.2.0/24"}, "avoidBuggyIPs": true}))
	if err != nil || p.Name != "public" || p.Spec.Addresses[0] != "192.0.2.0/24" || !p.Spec.AvoidBuggyIPs || p.Spec.AutoAssign != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := readMetalLB(ipAddressPool("public", map[string]any{"addresses": "192.0.2.0/24"})); err == nil {
		t.Error("it was read")
	}
}

// ipAddressPool is a pool of MetalLB.
func ipAddressPool(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "metallb-system", "name": name}, "spec": spec,
	}}
}

func TestCompareRanks(t *testing.T) {
	of := func(a *metalLBAllocation) *metalLBPool {
		p := &metalLBPool{}
		p.Spec.ServiceAllocation = a
		return p
	}
	shop := []string{"shop"}
	inOrder := []*metalLBPool{of(&metalLBAllocation{Priority: 1, Namespaces: shop}), of(&metalLBAllocation{Priority: 7, Namespaces: shop}),
		of(&metalLBAllocation{Namespaces: shop}), of(nil), of(&metalLBAllocation{Priority: 1}), of(&metalLBAllocation{})}
	for i, a := range inOrder {
		for j, b := range inOrder {
			if got := compareRanks(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%d and %d: got %d", i, j, got)
			}
		}
	}
}

func TestNamespaceSelector(t *testing.T) {
	byName := func(name string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"name": name}}
	}
	for name, tc := range map[string]struct {
		a       *metalLBAllocation
		want    *metav1.LabelSelector
		isToday bool
		problem string
	}{
		"of all":                  {nil, nil, false, ""},
		"of none in particular":   {&metalLBAllocation{}, nil, false, ""},
		"by name":                 {&metalLBAllocation{Namespaces: []string{"shop"}}, named([]string{"shop"}), false, ""},
		"by names":                {&metalLBAllocation{Namespaces: []string{"shop", "blog", "shop"}}, named([]string{"blog", "shop"}), false, ""},
		"by a selector":           {&metalLBAllocation{NamespaceSelectors: []metav1.LabelSelector{byName("shop")}}, new(byName("shop")), false, ""},
		"by both":                 {&metalLBAllocation{Namespaces: []string{"blog"}, NamespaceSelectors: []metav1.LabelSelector{byName("shop")}}, named([]string{"blog", "shop"}), true, ""},
		"by two selectors":        {&metalLBAllocation{NamespaceSelectors: []metav1.LabelSelector{byName("shop"), byName("evil")}}, named([]string{"evil", "shop"}), true, ""},
		"by selectors of nothing": {&metalLBAllocation{NamespaceSelectors: []metav1.LabelSelector{byName("x"), byName("y")}}, nil, false, "its selectors select no namespace"},
		"by what can't be read":   {&metalLBAllocation{NamespaceSelectors: []metav1.LabelSelector{{}, {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "?"}}}}}, nil, false, `"?" is not a valid label selector operator`},
	} {
		got, isToday, problem := clusterWith().namespaceSelector(tc.a)
		if !reflect.DeepEqual(got, tc.want) || isToday != tc.isToday || problem != tc.problem {
			t.Errorf("%s: got %v, %v, %q", name, got, isToday, problem)
		}
	}
}

func TestServiceSelector(t *testing.T) {
	tier := func(value string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"tier": value}}
	}
	other := metav1.LabelSelector{MatchLabels: map[string]string{"kind": "a"}}
	for name, tc := range map[string]struct {
		selectors []metav1.LabelSelector
		want      string
		isProblem bool
	}{
		"none":             {nil, "<none>", false},
		"one":              {[]metav1.LabelSelector{tier("a")}, "tier=a", false},
		"one label":        {[]metav1.LabelSelector{tier("b"), tier("a")}, "tier in (a,b)", false},
		"two labels":       {[]metav1.LabelSelector{tier("a"), other}, "<none>", true},
		"an empty one too": {[]metav1.LabelSelector{tier("a"), {}}, "<none>", true},
	} {
		got, problem := (&metalLBAllocation{ServiceSelectors: tc.selectors}).serviceSelector()
		text := "<none>"
		if got != nil {
			text = metav1.FormatLabelSelector(got)
		}
		if text != tc.want || (problem != "") != tc.isProblem {
			t.Errorf("%s: got %s, %q", name, text, problem)
		}
	}
}

func TestAddressesOf(t *testing.T) {
	p := &metalLBPool{}
	p.Spec.Addresses = []string{"192.0.2.7/24", " 192.0.2.1 - 192.0.2.2", "2001:db8::1/64", "nonsense", "198.51.100.128/25", "192.0.2.3/32"}
	want := []string{"192.0.2.0/24", "192.0.2.1 - 192.0.2.2", "2001:db8::/64", "nonsense", "198.51.100.128/25", "192.0.2.3/32"}
	if got := p.addressesOf(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	p.Spec.AvoidBuggyIPs = true // of which MetalLB has another idea than an AddressPool has of networks
	want[0], want[4], want[5] = "192.0.2.0-192.0.2.255", "198.51.100.128-198.51.100.255", "192.0.2.3-192.0.2.3"
	if got := p.addressesOf(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}
