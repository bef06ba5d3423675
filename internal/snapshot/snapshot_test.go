package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestKnows(t *testing.T) {
	s := &Snapshot{}
	s.MarkRead("Service", "")
	s.MarkRead("Ingress", "shop")
	for _, row := range []struct {
		kind, namespace string
		want            bool
	}{
		{"Service", "", true}, {"Service", "shop", true},
		{"Ingress", "", false}, {"Ingress", "shop", true}, {"Ingress", "blog", false},
		{"Gateway", "", false}, {"Gateway", "shop", false},
	} {
		if got := s.Knows(row.kind, row.namespace); got != row.want {
			t.Errorf("%s of %q: got %v", row.kind, row.namespace, got)
		}
	}
}

func TestReady(t *testing.T) {
	s := &Snapshot{}
	for family, ready := range map[discoveryv1.AddressType][]*bool{
		discoveryv1.AddressTypeIPv4: {nil, ptr.To(true), ptr.To(false)},
		discoveryv1.AddressTypeIPv6: {ptr.To(true)},
	} {
		slice := &discoveryv1.EndpointSlice{AddressType: family, ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "db"},
		}}
		for _, r := range ready {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: r}})
		}
		s.AddEndpointSlice(slice)
	}
	if n := s.Ready(types.NamespacedName{Namespace: "shop", Name: "db"}); n != 2 {
		t.Errorf("got %d ready endpoints, want 2", n)
	}
	if n := s.Ready(types.NamespacedName{Namespace: "shop", Name: "none"}); n != 0 {
		t.Errorf("got %d ready endpoints of a Service that has none", n)
	}
}

func TestNamespaceLabels(t *testing.T) {
	s := &Snapshot{}
	s.AddNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}})
	if s.NamespaceLabels("shop")["team"] != "a" || s.NamespaceLabels("blog") != nil {
		t.Error("the labels of namespaces are wrong")
	}
}
