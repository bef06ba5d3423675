package claims

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/test/accesstest"
)

// serving is the Ingress shop/<name> that serves the paths /<from> to /<to-1> on the host a.io.
func serving(name string, from, to int) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	http := &networkingv1.HTTPIngressRuleValue{}
	for i := from; i < to; i++ {
		http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Path: fmt.Sprintf("/%d", i)})
	}
	ing.Spec.Rules = []networkingv1.IngressRule{{Host: "a.io", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: http}}}
	return ing
}

// baseExposing is what reconcilers need, in a cluster with these objects, where the ledger keeps four paths of an Ingress.
func baseExposing(t *testing.T, objects ...client.Object) access.Access {
	t.Helper()
	c := accesstest.Cluster(t, objects...)
	exposing := kube.Exposing{MaxHTTPPoints: 4}
	if err := kube.AddExposureIndexes(t.Context(), accesstest.Indexer{ClientBuilder: c}, exposing); err != nil {
		t.Fatal(err)
	}
	b := accesstest.With(t, c.Build())
	b.View.Ingresses.Expose(exposing)
	return b
}

// TestClaimsOfNoClassStayUntilTheyAreReplaced has an Ingress, or a Service with one, hold a path of the class public by a claim of an earlier
// version.
func TestClaimsOfNoClassStayUntilTheyAreReplaced(t *testing.T) {
	path := claim.HTTP("a.io", "/0")
	public, internal := path.ServedBy("public"), path.ServedBy("internal")
	web, svc := claim.IngressHolder("shop", "web"), claim.ServiceHolder("shop", "web")
	for name, tc := range map[string]struct {
		holder     claim.Holder
		annotation string
		paths      int
		others     map[claim.Coordinate]claim.Holder
		want       bool
	}{
		"of an Ingress":                               {web, "", 1, nil, true},
		"of an Ingress, for the class by then":        {web, "", 1, map[claim.Coordinate]claim.Holder{public: web}, false},
		"of an Ingress, and by the Service":           {web, "", 1, map[claim.Coordinate]claim.Holder{public: svc}, false},
		"of an Ingress, which another has by then":    {web, "", 1, map[claim.Coordinate]claim.Holder{public: claim.ServiceHolder("shop", "other")}, true},
		"of an Ingress, in another class":             {web, "", 1, map[claim.Coordinate]claim.Holder{internal: web}, true},
		"of an Ingress that is gone":                  {web, "", 0, nil, false},
		"of a Service":                                {svc, "class=public, host=a.io, path=/0", 0, nil, true},
		"of a Service, for the class by then":         {svc, "class=public, host=a.io, path=/0", 0, map[claim.Coordinate]claim.Holder{public: svc}, false},
		"of a Service that asks for another":          {svc, "class=public, host=a.io, path=/1", 0, nil, false},
		"of a Service that asks for another, served":  {svc, "class=public, host=a.io, path=/1", 1, nil, true},
		"of a Service, asked for of another class":    {svc, "class=internal, host=a.io, path=/0", 1, map[claim.Coordinate]claim.Holder{internal: svc}, true},
		"of a Service, served and asked for, claimed": {svc, "class=internal, host=a.io, path=/0", 1, map[claim.Coordinate]claim.Holder{internal: svc, public: svc}, false},
		"of a Service that can't be read":             {svc, "class=A", 0, nil, true},
		"of a Service that can't be read, claimed":    {svc, "class=A", 1, map[claim.Coordinate]claim.Holder{public: svc}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for at, by := range tc.others {
				objects = append(objects, claim.New(at, claim.Claimant{Holder: by}))
			}
			if tc.paths > 0 {
				ing := serving("web", 0, tc.paths)
				ing.Spec.IngressClassName = new("public")
				objects = append(objects, ing)
			}
			if tc.annotation != "" {
				objects = append(objects, &corev1.Service{ObjectMeta: metav1.ObjectMeta{
					Namespace: "shop", Name: "web", Annotations: map[string]string{v1beta1.AnnotationHTTP: tc.annotation},
				}})
			}
			b := baseExposing(t, objects...)
			held := claim.New(path, claim.Claimant{Holder: tc.holder})
			s, err := newClaimReconciler(b, claimTestOptions()).readHolder(t.Context(), b.Live, tc.holder, []*v1beta1.EdgeClaim{held})
			if err != nil {
				t.Fatal(err)
			}
			if seen, err := s.wants(t.Context(), held); err != nil || seen.Wants != tc.want {
				t.Errorf("got %+v, %v", seen, err)
			}
			s.olderReplicas = true
			if seen, err := s.wants(t.Context(), held); err != nil || seen.Wants != (tc.want || len(tc.others) > 0) || s.lookAgain() == 0 {
				t.Errorf("beside older replicas: %+v, %v", seen, err)
			}
		})
	}
}

// TestAnIngressGrowsAndShrinks has the ledger keep four paths of an Ingress, shop/web on the host a.io: the claims of before
// stay until those are there that take their place. Another Ingress lists the path /3.
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
		"it has grown, beside another":      {5, []claim.Coordinate{path(3), onHost}, path(3), true},
		"another lists what it does not":    {3, []claim.Coordinate{path(3)}, path(3), false},
		"it is gone":                        {0, []claim.Coordinate{onHost}, onHost, false},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for _, at := range tc.claimed {
				objects = append(objects, claim.New(at, claim.Claimant{Holder: web}))
			}
			if tc.paths > 0 {
				objects = append(objects, serving(web.Name, 0, tc.paths))
			}
			b := baseExposing(t, append(objects, serving("beside", 3, 4))...)
			held := claim.New(tc.at, claim.Claimant{Holder: web})
			s, err := newClaimReconciler(b, claimTestOptions()).readHolder(t.Context(), b.Live, web, []*v1beta1.EdgeClaim{held})
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
