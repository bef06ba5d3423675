package doors

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"

	"jeffthecoder.xyz/portcullis/internal/snapshot"
)

// TestPathsOfIngresses holds for which paths those of an Ingress answer, as its controller reads them.
func TestPathsOfIngresses(t *testing.T) {
	const prefix, exact, other = networkingv1.PathTypePrefix, networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific
	regex, rewrite := map[string]string{useRegexAnnotation: "true"}, map[string]string{rewriteAnnotation: "/$2"}
	for _, row := range []struct {
		kind        networkingv1.PathType
		path        string
		annotations map[string]string
		yes, no     string
	}{
		{other, "/api(/|$)(.*)", nil, "/api/v1", "/apiary"}, {prefix, "/api(/|$)(.*)", rewrite, "/api", "/apiary"},
		{prefix, "/v[0-9]+/x", regex, "/v12/x/y", "/v/x"}, {prefix, "/v[0-9]+/x", map[string]string{useRegexAnnotation: "false"}, "/v[0-9]+/x", "/v1/x"},
		{prefix, "/(a|b)", nil, "/(a|b)/c", "/a"}, {exact, "/a+", rewrite, "/a+", "/aa"}, {other, "/api", nil, "/api/v1", "/apiary"},
		{other, "/*", nil, "/api", "-"}, {other, "/api/*", nil, "/api/v1", "/apiary"}, {prefix, "/api/*", regex, "/api/v1", "/apiary"},
		{prefix, "/api/*", nil, "/api/*", "/api/v1"}, {other, "/(a|b)/*", nil, "/b/c", "/c"},
	} {
		ing := &networkingv1.Ingress{ObjectMeta: meta("shop/web")}
		ing.Annotations = row.annotations
		ing.Spec.Rules = []networkingv1.IngressRule{{Host: "shop.example.com", IngressRuleValue: networkingv1.IngressRuleValue{
			HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Path: row.path, PathType: ptr.To(row.kind)}}},
		}}}
		all := All(&snapshot.Snapshot{Ingresses: []*networkingv1.Ingress{ing}})
		for path, want := range map[string]bool{row.yes: true, row.no: false} {
			if got := len(Find(all, Point{Host: "shop.example.com", Path: path})) > 0; path != "-" && got != want {
				t.Errorf("%s %s: answers for %s: %v", row.kind, row.path, path, got)
			}
		}
		if point := "shop.example.com" + row.path; all[0].Point != point {
			t.Errorf("got %s, want %s", all[0].Point, point)
		}
	}
}
