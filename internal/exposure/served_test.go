package exposure

import (
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"
)

func TestServed(t *testing.T) {
	ing := &networkingv1.Ingress{Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{
		{Host: "a.example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{
				{Path: "/api/", PathType: ptr.To(networkingv1.PathTypePrefix)}, {Path: "/api/", PathType: ptr.To(networkingv1.PathTypeExact)},
			},
		}}},
		{Host: ""},
	}}}
	var got []string
	for host, path := range Served(ing) {
		got = append(got, host+path.Value+" "+string(path.Type))
	}
	if want := []string{"a.example.com/api Prefix", "a.example.com/api/ Exact", "/ Prefix"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for range Served(ing) {
		break // and no more is asked for
	}
}
