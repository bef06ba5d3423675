package kube

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// TestPortAt tells by the name of a Service whose it is: by no other name is it anybody's.
func TestPortAt(t *testing.T) {
	class := func(name, namespace string) *v1beta1.StreamIngressClass {
		c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if namespace != "" {
			c.Spec.AddressPool = &v1beta1.ClassAddressPool{Name: "pool", Namespace: namespace}
		}
		return c
	}
	long := strings.Repeat("a-long-name.", 10) + "example.com"
	v := viewOf(t, class("public", "edge"), class("public-tcp-80", "edge"), class(long, "edge"), class("1st", "other"), class("proxy", ""))
	for _, name := range []string{"public", "public-tcp-80", long, "1st"} {
		for _, want := range []stream.PortKey{{Protocol: v1beta1.TCP, Port: 1}, {Protocol: v1beta1.UDP, Port: 65535}} {
			namespace := "edge"
			if name == "1st" {
				namespace = "other"
			}
			key := ServiceKey(class(name, namespace), want)
			got, port, err := v.PortAt(t.Context(), key)
			if err != nil || got == nil || got.Name != name || port != want {
				t.Errorf("%s is port %v of %v, %v", key, port, got, err)
			}
		}
	}
	for _, key := range []types.NamespacedName{
		{Namespace: "other", Name: "public-tcp-80"}, {Namespace: "edge", Name: "proxy-tcp-80"}, {Namespace: "edge", Name: "nobody-tcp-80"},
		{Namespace: "edge", Name: "public-tcp-080"}, {Namespace: "edge", Name: "public-TCP-80"}, {Namespace: "edge", Name: "public-tcp-99999999999"},
		{Namespace: "edge", Name: "public-sctp-80"}, {Namespace: "edge", Name: "public-tcp-80-"}, {Namespace: "edge"}, {},
	} {
		if got, _, err := v.PortAt(t.Context(), key); err != nil || got != nil {
			t.Errorf("%s is a port of %v, %v", key, got, err)
		}
	}
}
