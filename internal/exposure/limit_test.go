package exposure_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
)

func TestLimit(t *testing.T) {
	const five = "host=a.example.com, path=/1, path=/2, path=/3, path=/4, path=/5"
	points := func(value string) []claim.Coordinate {
		e, _ := exposure.RequestOf(requesting("web", value), fakeFacts{}.Defaults(types.NamespacedName{}))
		return e.Points()
	}
	for name, c := range map[string]struct {
		facts fakeFacts
		value string
		text  string
	}{
		"as many as there may be":               {fakeFacts{}, "host=a.example.com, host=b.example.com, path=/1, path=/2", ""},
		"more":                                  {fakeFacts{}, five, "1 host(s) with 5 path(s) each are 5 pairs, and 4 are the most for one Service; spread them over several Services"},
		"more, and it has them":                 {fakeFacts{held: points(five)}, five, ""},
		"one more than it has":                  {fakeFacts{held: points(five)}, five + ", path=/6", "are 6 pairs, and 4 are the most"},
		"one for another that it has":           {fakeFacts{held: points(five)}, strings.Replace(five, "/5", "/6", 1), ""},
		"more, and it has others, and ports":    {fakeFacts{held: append(points("path=/"), claim.NodePort("TCP", 80))}, five, "are 5 pairs"},
		"more, in front of a proxy":             {fakeFacts{fronts: []types.NamespacedName{{Namespace: "shop", Name: "web"}}}, five, ""},
		"more, and another in front of a proxy": {fakeFacts{fronts: []types.NamespacedName{{Namespace: "edge", Name: "web"}}}, five, "are 5 pairs"},
	} {
		t.Run(name, func(t *testing.T) {
			svc := requesting("web", c.value)
			e, _ := exposure.RequestOf(svc, c.facts.Defaults(types.NamespacedName{}))
			problems := exposure.Limit(c.facts, svc, e)
			if c.text == "" && len(problems) > 0 {
				t.Errorf("got %v", problems)
			} else if c.text != "" {
				isOne(t, problems, v1beta1.ReasonTooManyPoints, c.text)
			}
		})
	}
}
