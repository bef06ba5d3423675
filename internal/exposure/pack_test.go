package exposure_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"

	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// listing is an Ingress with so many hosts, h0.io, h1.io and so on, and so many paths on each: /0, /1 and so on.
func listing(hosts, paths int) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{}
	for h := range hosts {
		http := &networkingv1.HTTPIngressRuleValue{}
		for p := range paths {
			http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Path: fmt.Sprintf("/%d", p)})
		}
		ing.Spec.Rules = append(ing.Spec.Rules, networkingv1.IngressRule{
			Host: fmt.Sprintf("h%d.io", h), IngressRuleValue: networkingv1.IngressRuleValue{HTTP: http},
		})
	}
	return ing
}

// TestPack has an Ingress say packed what it says as it is, and take much less memory.
func TestPack(t *testing.T) {
	const most = exposure.MostEntries
	for name, tc := range map[string]struct {
		hosts, paths int
		entries      int
		many, packed bool
		left         int
	}{
		"few paths":                        {hosts: 2, paths: 3, entries: 6},
		"as many paths as have claims":     {hosts: 1, paths: most, entries: most},
		"more on one host":                 {hosts: 1, paths: most + 1, entries: 1, packed: true, left: 2},
		"more on two":                      {hosts: 2, paths: most/2 + 1, entries: 2, packed: true, left: 3},
		"as many hosts as have claims":     {hosts: most, paths: 1, entries: most},
		"as many, and two paths of each":   {hosts: most, paths: 2, entries: most, packed: true, left: most + 1},
		"more hosts":                       {hosts: most + 1, paths: 1, many: true, packed: true, left: 1},
		"as many as an object of etcd has": {hosts: 50000, paths: 1, many: true, packed: true, left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			ing := listing(tc.hosts, tc.paths)
			before := ing.DeepCopy()
			for range 2 {
				if got := exposure.Pack(ing); got != tc.packed {
					t.Fatalf("it is packed: %v", got)
				}
			}
			if got := len(ing.Spec.Rules); tc.packed && got != tc.left || !tc.packed && !cmp.Equal(before, ing) {
				t.Errorf("%d rules are left", got)
			}
			if got, most := len(ing.Spec.Rules[0].Host), 16*tc.hosts*tc.paths+1; tc.packed && got > most {
				t.Errorf("%d bytes are left of what it serves, more than %d", got, most)
			}
			for _, ing := range []*networkingv1.Ingress{before, ing} {
				if got := exposure.EntriesOf(ing, 0); len(got) != tc.entries || !slices.Equal(got, exposure.EntriesOf(before, 0)) {
					t.Errorf("%d entries, want %d: %.200v", len(got), tc.entries, got)
				}
				if got := exposure.HasManyHosts(ing); got != tc.many {
					t.Errorf("it has too many hosts: %v", got)
				}
				lastHost, lastPath := fmt.Sprintf("h%d.io", tc.hosts-1), fmt.Sprintf("/%d", tc.paths-1)
				for at, want := range map[claim.Coordinate]bool{
					claim.HTTP("h0.io", "/0"): true, claim.HTTP(lastHost, lastPath): true, claim.Host(lastHost): true,
					claim.HTTP("h0.io", "/"): false, claim.HTTP(lastHost, fmt.Sprintf("/%d", tc.paths)): false,
					claim.Host(fmt.Sprintf("h%d.io", tc.hosts)): false, claim.HTTP("io", "/0"): false,
				} {
					if got := exposure.Serves(ing, at); got != want {
						t.Errorf("it serves %s: %v", at, got)
					}
				}
			}
		})
	}
}

// TestLongPaths: of a path that can be no point nothing is left, and still it is one more than without it.
func TestLongPaths(t *testing.T) {
	exact, prefix, specific := networkingv1.PathTypeExact, networkingv1.PathTypePrefix, networkingv1.PathTypeImplementationSpecific
	long, slashes := strings.Repeat("x", 1<<20), strings.Repeat("/", 1<<20)
	for name, tc := range map[string]struct {
		path     networkingv1.HTTPIngressPath
		want     []string
		isAsItIs bool
	}{
		"short":                     {networkingv1.HTTPIngressPath{Path: "/a", PathType: &prefix}, []string{"a/a"}, true},
		"as long as it may be":      {networkingv1.HTTPIngressPath{Path: "/" + long[:511], PathType: &prefix}, []string{"a/" + long[:511]}, true},
		"long":                      {networkingv1.HTTPIngressPath{Path: "/" + long, PathType: &prefix}, nil, false},
		"long and exact":            {networkingv1.HTTPIngressPath{Path: "/" + long, PathType: &exact}, nil, false},
		"short, and then slashes":   {networkingv1.HTTPIngressPath{Path: "/a" + slashes + "b", PathType: &specific}, nil, false},
		"slashes, and then short":   {networkingv1.HTTPIngressPath{Path: slashes + "a", PathType: &specific}, []string{"a/a"}, false},
		"slashes, and exactly them": {networkingv1.HTTPIngressPath{Path: slashes, PathType: &exact}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			ing := listing(1, 1)
			ing.Spec.Rules[0].Host, ing.Spec.Rules[0].HTTP.Paths = "a", []networkingv1.HTTPIngressPath{tc.path}
			before := ing.DeepCopy()
			exposure.Pack(ing)
			for _, ing := range []*networkingv1.Ingress{before, ing} {
				if got := names(exposure.PointsOf(ing)); !slices.Equal(got, tc.want) {
					t.Errorf("it serves %.200q", got)
				}
			}
			paths := ing.Spec.Rules[0].HTTP.Paths
			if len(paths) != 1 || len(paths[0].Path) > 512 || cmp.Equal(before, ing) != tc.isAsItIs {
				t.Errorf("it lists %.200v", paths)
			}
		})
	}
}
