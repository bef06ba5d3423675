package kube

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestStreamsAt finds the streams of one port, and none of its neighbors, by way of the client and by way of the store.
func TestStreamsAt(t *testing.T) {
	at := func(name string, protocol v1beta1.Protocol, asks *int32, has int32) *v1beta1.StreamIngress {
		s := &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		s.Spec.Protocol, s.Spec.Listen, s.Status.Listen = protocol, asks, has
		return s
	}
	objects := []client.Object{
		at("asks", v1beta1.TCP, new(int32(80)), 0), at("has", v1beta1.TCP, nil, 80), at("both", v1beta1.TCP, new(int32(80)), 80),
		at("leaves", v1beta1.TCP, new(int32(81)), 80), at("next", v1beta1.TCP, new(int32(81)), 81), at("udp", v1beta1.UDP, new(int32(80)), 80),
		at("waits", v1beta1.TCP, nil, 0),
	}
	v, fill := storing(t, objects...)
	fill()
	for way, v := range map[string]*View{"client": viewOf(t, objects...), "store": v} {
		t.Run(way, func(t *testing.T) { findStreamsAt(t, v) })
	}
}

func findStreamsAt(t *testing.T, v *View) {
	t.Helper()
	for port, want := range map[int32][]string{
		80: {"asks", "both", "has", "leaves"}, 81: {"leaves", "next"}, 82: nil, 0: {"waits"},
	} {
		streams, err := v.Streams.At(t.Context(), v1beta1.TCP, port)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range streams {
			got = append(got, streams[i].Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("port %d: %s", port, diff)
		}
	}
}

// TestIsOutside asks about the Service sti-postgres of namespace shop.
func TestIsOutside(t *testing.T) {
	stream := func(namespace, name string, isService bool) *v1beta1.StreamIngress {
		s := &v1beta1.StreamIngress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		s.Spec.IsService = &isService
		return s
	}
	slice := func(name, manager string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelManagedBy: manager},
		}}
	}
	for name, tc := range map[string]struct {
		there client.Object
		want  bool
	}{
		"nothing is there":                  {stream("shop", "other", true), false},
		"a stream leads out by it":          {stream("shop", "postgres", false), true},
		"a stream of its name leads inside": {stream("shop", "postgres", true), false},
		"a stream of another name":          {stream("shop", "other", false), false},
		"a stream of another namespace":     {stream("data", "postgres", false), false},
		"the stream has left a slice":       {slice("sti-postgres", EndpointSliceManager), true},
		"a slice of Kubernetes' own":        {slice("sti-postgres", "endpointslice-controller.k8s.io"), false},
		"another stream's slice":            {slice("sti-other", EndpointSliceManager), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := viewOf(t, tc.there).Streams.IsOutside(t.Context(), types.NamespacedName{Namespace: "shop", Name: "sti-postgres"})
			if err != nil || got != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
