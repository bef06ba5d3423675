package reconcilers

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/cluster"
)

// TestAnIngressGrowsAndShrinks has the ledger keep four paths of an Ingress, shop/web on the host a.io: the claims of before
// stay until those are there that take their place.
func TestAnIngressGrowsAndShrinks(t *testing.T) {
	web := claim.IngressHolder("shop", "web")
	path := func(i int) claim.Coordinate { return claim.HTTP("a.io", fmt.Sprintf("/%d", i)) }
	onHost := claim.Host("a.io")
	for name, tc := range map[string]struct {
		paths   int
		claimed []claim.Coordinate
		at      claim.Coordinate
		want    bool
	}{
		"few paths":                         {2, []claim.Coordinate{path(0), path(1)}, path(0), true},
		"a path that is gone":               {2, []claim.Coordinate{path(0), path(1), path(2)}, path(2), false},
		"many paths":                        {5, []claim.Coordinate{onHost}, onHost, true},
		"it has grown":                      {5, []claim.Coordinate{path(0), onHost}, path(0), false},
		"it has grown, and nobody saw it":   {5, []claim.Coordinate{path(0)}, path(0), true},
		"it has shrunk":                     {2, []claim.Coordinate{path(0), path(1), onHost}, onHost, false},
		"it has shrunk, and nobody saw it":  {2, []claim.Coordinate{onHost}, onHost, true},
		"it has shrunk, and one is entered": {2, []claim.Coordinate{path(1), onHost}, onHost, true},
		"it has grown, and a path is gone":  {5, []claim.Coordinate{path(7)}, path(7), false},
		"it is gone":                        {0, []claim.Coordinate{onHost}, onHost, false},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for _, at := range tc.claimed {
				objects = append(objects, claim.New(at, claim.Claimant{Holder: web}))
			}
			if tc.paths > 0 {
				ing := &networkingv1.Ingress{}
				ing.Namespace, ing.Name = web.Namespace, web.Name
				http := &networkingv1.HTTPIngressRuleValue{}
				for i := range tc.paths {
					http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Path: path(i).Path()})
				}
				ing.Spec.Rules = []networkingv1.IngressRule{{Host: "a.io", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: http}}}
				objects = append(objects, ing)
			}
			b := baseOf(t, objects...)
			b.view.Expose(cluster.Exposing{MaxHTTPPoints: 4})
			held := claim.New(tc.at, claim.Claimant{Holder: web})
			s, err := (&claimReconciler{base: b}).sight(t.Context(), b.live, web, []*v1beta1.EdgeClaim{held})
			if err != nil {
				t.Fatal(err)
			}
			seen, err := s.wants(t.Context(), held)
			if err != nil || seen.Wants != tc.want || seen.Exists != (tc.paths > 0) {
				t.Errorf("got %+v, %v", seen, err)
			}
		})
	}
}
