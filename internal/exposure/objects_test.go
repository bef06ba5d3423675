package exposure_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

func names(points []claim.Coordinate) []string {
	var list []string
	for _, at := range points {
		list = append(list, at.Point())
	}
	return list
}

func TestPoints(t *testing.T) {
	for value, want := range map[string][]string{
		"":                                 {"example.com/"},
		"path=/api/":                       {"example.com/api"},
		"exact=/api/":                      {"example.com/api/"},
		"path=/b, exact=/a":                {"example.com/a", "example.com/b"},
		"host=b.x, host=*.x":               {"*.x/", "b.x/"},
		"host=a, path=/, exact=/a, host=b": {"a/", "a/a", "b/", "b/a"},
	} {
		e, errs := exposure.Parse(value)
		if len(errs) > 0 {
			t.Fatalf("%q: %v", value, errs.ToAggregate())
		}
		e, _ = standing.Complete(e, "shop", "web")
		if diff := cmp.Diff(want, names(e.Points())); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
		ing := &networkingv1.Ingress{Spec: e.IngressSpec("web", 80)}
		if diff := cmp.Diff(want, names(exposure.PointsOf(ing))); diff != "" {
			t.Errorf("the Ingress of %q serves (-want +got):\n%s", value, diff)
		}
	}
}

func TestPointsOfForeignIngresses(t *testing.T) {
	specific := networkingv1.PathTypeImplementationSpecific
	path := func(p string) networkingv1.IngressRuleValue {
		return networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: p, PathType: &specific}, {Path: p, PathType: &specific}},
		}}
	}
	ing := &networkingv1.Ingress{}
	ing.Spec.Rules = []networkingv1.IngressRule{
		{Host: "a"},
		{Host: "", IngressRuleValue: path("/everybody")},
		{Host: "b", IngressRuleValue: path("")},
		{Host: "c", IngressRuleValue: path("/x(/|$)(.*)")},
		{Host: "d", IngressRuleValue: path("/" + fmt.Sprintf("%0600d", 1))},
	}
	if diff := cmp.Diff([]string{"a/", "b/", "c/x(/|$)(.*)"}, names(exposure.PointsOf(ing))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEntriesOfAnIngress has the ledger keep four paths of an Ingress at most.
func TestEntriesOfAnIngress(t *testing.T) {
	serving := func(paths ...string) *networkingv1.Ingress {
		ing := &networkingv1.Ingress{Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: ""}}}}
		for _, text := range paths {
			host, path, _ := strings.Cut(text, "/")
			ing.Spec.Rules = append(ing.Spec.Rules, networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: "/" + path}}},
			}})
		}
		return ing
	}
	few, many := serving("b/", "a/y", "a/x"), serving("b/", "a/y", "a/x", "a/z")
	for name, tc := range map[string]struct {
		ing  *networkingv1.Ingress
		most int
		want []string
	}{
		"few":                         {few, 4, []string{"a/x", "a/y", "b/"}},
		"many":                        {many, 4, []string{"a", "b"}},
		"many, and none are too many": {many, 0, []string{"a/x", "a/y", "a/z", "b/"}},
	} {
		if diff := cmp.Diff(tc.want, names(exposure.EntriesOf(tc.ing, tc.most))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for at, want := range map[claim.Coordinate]bool{
		claim.HTTP("a", "/x"): true, claim.HTTP("a", "/y"): true, claim.HTTP("a", "/"): false, claim.HTTP("b", "/"): true,
		claim.HTTP("b", "/x"): false, claim.Host("a"): true, claim.Host("c"): false,
	} {
		if got := exposure.Serves(few, at); got != want {
			t.Errorf("it serves %s: %v", at, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	for host, want := range map[string]string{
		"example.com":                       "example.com",
		"{service}.{namespace}.example.com": "web.shop.example.com",
		"{service}-{namespace}.example.com": "web-shop.example.com",
		"*.{namespace}.example.com":         "*.shop.example.com",
	} {
		d := exposure.Defaults{Host: host, Class: "nginx"}
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		e, err := d.Complete(exposure.Exposure{}, "shop", "web")
		if err != nil || len(e.Hosts) != 1 || e.Hosts[0] != want || e.Class != "nginx" {
			t.Errorf("%s: %+v %v", host, e, err)
		}
	}
	for _, wrong := range []exposure.Defaults{
		{Host: ""}, {Host: "{pod}.example.com"}, {Host: "Example.com"}, {Host: "192.0.2.1"}, {Host: "example.com", Class: "Nginx"},
	} {
		if wrong.Validate() == nil {
			t.Errorf("%+v passes", wrong)
		}
	}
	long := exposure.Defaults{Host: "{service}-{namespace}.example.com"}
	if _, err := long.Complete(exposure.Exposure{}, fmt.Sprintf("n%060d", 1), "web"); err == nil {
		t.Error("a label of 65 characters passes")
	}
}

func TestOwnership(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "7"}}
	made := func(change func(*networkingv1.Ingress)) *networkingv1.Ingress {
		ing := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		exposure.Mark(ing, svc)
		change(ing)
		return ing
	}
	isController := true
	for name, c := range map[string]struct {
		ing         *networkingv1.Ingress
		own, marked bool
		madeFor     string
	}{
		"as made":       {made(func(*networkingv1.Ingress) {}), true, true, "1"},
		"without owner": {made(func(i *networkingv1.Ingress) { i.OwnerReferences = nil }), true, false, ""},
		"without mark":  {made(func(i *networkingv1.Ingress) { i.Annotations = nil }), true, false, ""},
		"without both":  {made(func(i *networkingv1.Ingress) { i.Annotations, i.OwnerReferences = nil, nil }), false, false, ""},
		"of another life": {made(func(i *networkingv1.Ingress) {
			i.OwnerReferences[0].UID = "0"
			i.Annotations[v1beta1.AnnotationMadeFor] = "0@1"
		}), true, false, "0"},
		"taken over": {made(func(i *networkingv1.Ingress) {
			owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "9", Controller: &isController}
			i.OwnerReferences = []metav1.OwnerReference{owner}
		}), false, false, ""},
	} {
		if got := exposure.IsOwn(c.ing, svc); got != c.own {
			t.Errorf("%s: own is %v", name, got)
		}
		if got := exposure.IsMarked(c.ing, svc); got != c.marked {
			t.Errorf("%s: marked is %v", name, got)
		}
		if got := exposure.MadeFor(c.ing); string(got) != c.madeFor {
			t.Errorf("%s: made for %q", name, got)
		}
	}
}
