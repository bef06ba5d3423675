package kube

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestEndpointsWithoutNode has a Service have an endpoint that is on no node, as the cache keeps it: it counts as one, if it is ready, and on
// no node.
func TestEndpointsWithoutNode(t *testing.T) {
	for name, tc := range map[string]struct {
		endpoints []discoveryv1.Endpoint
		has       bool
		nodes     int
	}{
		"none":                   {},
		"on no node":             {[]discoveryv1.Endpoint{{}, {}}, true, 0},
		"on none, not ready":     {[]discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}}, false, 0},
		"on a node, and on none": {[]discoveryv1.Endpoint{{NodeName: new("node0")}, {}}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
			}, Endpoints: tc.endpoints}
			slim, err := slim(slice)
			if err != nil {
				t.Fatal(err)
			}
			c := clientOf(t, slim.(*discoveryv1.EndpointSlice)).WithIndex(&discoveryv1.EndpointSlice{}, IndexService, func(o client.Object) []string {
				return []string{o.GetNamespace() + "/" + o.GetLabels()[discoveryv1.LabelServiceName]}
			}).Build()
			v, err := NewView(t.Context(), cached{&informertest.FakeInformers{Scheme: c.Scheme()}, c}, c)
			if err != nil {
				t.Fatal(err)
			}
			has, err := v.LoadBalancers.HasEndpoints(t.Context(), served("web", "192.0.2.1", 80))
			if err != nil || has != tc.has {
				t.Errorf("it has endpoints: %v, %v", has, err)
			}
			nodes, err := v.LoadBalancers.endpointNodes(t.Context(), served("web", "192.0.2.1", 80))
			if err != nil || len(nodes) != tc.nodes {
				t.Errorf("they are on %v, %v", nodes, err)
			}
		})
	}
}
