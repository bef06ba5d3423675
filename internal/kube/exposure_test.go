package kube

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

// serving is the Ingress shop/<name>, created so many hours after others, that serves the paths /0, /1 and so on of a host.
func serving(name, host string, paths, age int) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, age, 0, 0, 0, time.UTC)),
	}}
	http := &networkingv1.HTTPIngressRuleValue{}
	for i := range paths {
		http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Path: fmt.Sprintf("/%d", i)})
	}
	ing.Spec.Rules = []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: http}}}
	return ing
}

// exposingOf is a view of a cache with some objects, while others are stored. The ledger keeps four paths of an Ingress.
func exposingOf(t *testing.T, shown, stored []client.Object) *View {
	t.Helper()
	e := Exposing{Defaults: exposure.Defaults{Host: "{service}.example.com"}, MaxHTTPPoints: 4}
	b := clientOf(t, shown...)
	if err := AddExposureIndexes(t.Context(), indexer(func(obj client.Object, name string, value client.IndexerFunc) { b.WithIndex(obj, name, value) }), e); err != nil {
		t.Fatal(err)
	}
	c := b.Build()
	v, err := NewView(t.Context(), cached{&informertest.FakeInformers{Scheme: c.Scheme()}, c}, clientOf(t, stored...).Build())
	if err != nil {
		t.Fatal(err)
	}
	v.Ingresses.Expose(e)
	return v
}

func TestIngressesAtAPoint(t *testing.T) {
	objects := []client.Object{serving("few", "a.io", 3, 2), serving("many", "a.io", 5, 1), serving("other", "b.io", 5, 0)}
	v := exposingOf(t, objects, objects)
	for at, want := range map[claim.Coordinate]string{
		claim.HTTP("a.io", "/0"): "[few many]", claim.HTTP("a.io", "/4"): "[many]", claim.HTTP("a.io", "/5"): "[]", claim.HTTP("c.io", "/0"): "[]",
		claim.Host("a.io"): "[many]", claim.Host("c.io"): "[]",
	} {
		found, err := v.Ingresses.At(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for i := range found {
			names = append(names, found[i].Name)
		}
		if got := fmt.Sprint(names); got != want {
			t.Errorf("%s is served by %s, want %s", at, got, want)
		}
	}
}

func TestForeignIngressServesAPoint(t *testing.T) {
	few, many := serving("few", "a.io", 3, 2), serving("many", "a.io", 5, 1)
	onHost := claim.New(claim.Host("a.io"), claim.Claimant{Holder: claim.IngressHolder("shop", "many")})
	for name, tc := range map[string]struct {
		shown, stored []client.Object
		path, own     string
		want          string
	}{
		"the first of two":                       {[]client.Object{few, many}, []client.Object{few, many}, "/0", "web", "many"},
		"the other, as one is its own":           {[]client.Object{few, many}, []client.Object{few, many}, "/0", "many", "few"},
		"a path that only the large one serves":  {[]client.Object{few, many, onHost}, []client.Object{few, many}, "/4", "web", "many"},
		"a path that nobody serves":              {[]client.Object{few, many, onHost}, []client.Object{few, many}, "/5", "web", ""},
		"one that is gone":                       {[]client.Object{few, many, onHost}, []client.Object{few}, "/4", "web", ""},
		"one of which only the claim is shown":   {[]client.Object{onHost}, []client.Object{many}, "/4", "web", "many"},
		"one that is shown as it was before":     {[]client.Object{serving("many", "a.io", 3, 1), onHost}, []client.Object{many}, "/4", "web", "many"},
		"the first, in its own namespace":        {[]client.Object{few, many, onHost}, []client.Object{few, many}, "/0", "", ""},
		"a claim of one that serves other paths": {[]client.Object{onHost}, []client.Object{many}, "/5", "web", ""},
	} {
		t.Run(name, func(t *testing.T) {
			own := types.NamespacedName{Namespace: "shop", Name: tc.own}
			ingresses := exposingOf(t, tc.shown, tc.stored).Ingresses
			ing, err := ingresses.Foreign(t.Context(), claim.HTTP("a.io", tc.path), own, ingresses.Now)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if ing != nil {
				got = ing.Name
			}
			if got != tc.want {
				t.Errorf("it is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestAskingForAHost finds the Services that wait for a path of a host.
func TestAskingForAHost(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{v1beta1.AnnotationHTTP: "path=/x"}}}
	v := exposingOf(t, []client.Object{svc}, nil)
	for at, want := range map[claim.Coordinate]int{
		claim.HTTP("web.example.com", "/x"): 1, claim.Host("web.example.com"): 1, claim.HTTP("web.example.com", "/"): 0, claim.Host("b.io"): 0,
	} {
		if found, err := v.Ingresses.AskingFor(t.Context(), at); err != nil || len(found) != want {
			t.Errorf("%s: %d, want %d (%v)", at, len(found), want, err)
		}
	}
}
