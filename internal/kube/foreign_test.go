package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// storedAs reads an object as an API server has stored it, with its managed fields.
func storedAs[T client.Object](t *testing.T, file string, obj T) T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "stream", "testdata", file))
	if err == nil {
		err = json.Unmarshal(text, obj)
	}
	if err != nil {
		t.Fatal(err)
	}
	obj.SetNamespace("edge")
	obj.SetUID("uid-of-it")
	return obj
}

var edge = &v1beta1.StreamIngressClass{Spec: v1beta1.StreamIngressClassSpec{
	TCPConfigMap: &v1beta1.ObjectReference{Namespace: "edge", Name: "beside"},
	Service:      &v1beta1.ObjectReference{Namespace: "edge", Name: "beside"},
}}

// TestForeign asks what stands at a port that Portcullis has not made: on objects that are watched, and on those that are not
// watched yet, of which the cache has no managed fields.
func TestForeign(t *testing.T) {
	cm := claim.Claimant{Holder: claim.ConfigMapHolder(edge.Spec.TCPConfigMap.Namespace, edge.Spec.TCPConfigMap.Name), UID: "uid-of-it"}
	svc := claim.Claimant{Holder: claim.ServiceHolder(edge.Spec.Service.Namespace, edge.Spec.Service.Name), UID: "uid-of-it"}
	for name, want := range map[stream.PortKey]*stream.Foreign{
		{Protocol: v1beta1.TCP, Port: 9000}: {Holder: cm, Entry: "default/manual:80"},
		{Protocol: v1beta1.TCP, Port: 80}:   {Holder: svc},
		{Protocol: v1beta1.TCP, Port: 5432}: nil, // ours
		{Protocol: v1beta1.UDP, Port: 53}:   nil, // ours, and the class has no ConfigMap for UDP
		{Protocol: v1beta1.TCP, Port: 1}:    nil,
		{Protocol: v1beta1.UDP, Port: 80}:   nil,
	} {
		for _, watched := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s on objects, watched: %v", name, watched), func(t *testing.T) {
				configMap, service := storedAs(t, "configmap-beside.json", &corev1.ConfigMap{}), storedAs(t, "service-beside.json", &corev1.Service{})
				v := seesOnly(t, watched, configMap, service)
				got, ok, err := v.Targets.Foreign(t.Context(), edge, name)
				if err != nil || ok != (want != nil) {
					t.Fatalf("got %v, %v, %v", got, ok, err)
				}
				if want != nil {
					if diff := cmp.Diff(*want, got); diff != "" {
						t.Error(diff)
					}
				}
			})
		}
	}
}

// seesOnly is a view of two objects that the class edge names. When they are watched, nothing is read live.
func seesOnly(t *testing.T, watched bool, cm *corev1.ConfigMap, svc *corev1.Service) *View {
	t.Helper()
	cachedService := svc.DeepCopy()
	if _, err := slim(cachedService); err != nil {
		t.Fatal(err)
	}
	seen, live := clientOf(t, cachedService).Build(), clientOf(t, cm, svc).Build()
	if watched {
		live = nil
	}
	informers := &informertest.FakeInformers{Scheme: seen.Scheme()}
	v, err := NewView(t.Context(), cached{informers, seen}, live)
	if err != nil || !watched {
		return v
	}
	w := watchers{}
	w.at(Target{configMaps, client.ObjectKeyFromObject(cm)}).Add(cm)
	w.at(Target{services, client.ObjectKeyFromObject(svc)}).Add(svc)
	classes := watchTargets(t, v, informers, w)
	classes.Add(edge)
	for at := range w {
		await(t, "the watch of "+at.Name, func() bool { return v.Targets.get(at) != nil })
	}
	return v
}

func TestForeignOnNothing(t *testing.T) {
	v := viewOf(t)
	for name, class := range map[string]*v1beta1.StreamIngressClass{
		"objects that are missing": edge,
		"no objects at all":        {},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok, err := v.Targets.Foreign(t.Context(), class, stream.PortKey{Protocol: v1beta1.TCP, Port: 80}); ok || err != nil {
				t.Errorf("got %v, %v, %v", got, ok, err)
			}
		})
	}
	if cm, err := v.Targets.ConfigMap(t.Context(), *edge.Spec.TCPConfigMap); cm != nil || err != nil {
		t.Errorf("ConfigMap: %v, %v", cm, err)
	}
	if svc, err := v.Targets.ProxyService(t.Context(), *edge.Spec.Service); svc != nil || err != nil {
		t.Errorf("ProxyService: %v, %v", svc, err)
	}
}

func TestManagedFieldsAreReadOnceAVersion(t *testing.T) {
	reads := 0
	read := func() (int, error) { reads++; return reads, nil }
	var o observations[int]
	for _, step := range []struct {
		uid     types.UID
		version string
		want    int
	}{{"a", "1", 1}, {"a", "1", 1}, {"b", "1", 2}, {"a", "2", 3}, {"b", "1", 2}, {"a", "2", 3}, {"a", "1", 4}} {
		cm := &corev1.ConfigMap{}
		cm.Name, cm.UID, cm.ResourceVersion = string(step.uid), step.uid, step.version
		if got, err := o.of(cm, read); err != nil || got != step.want {
			t.Errorf("%s in version %s: %d, %v, want %d", step.uid, step.version, got, err, step.want)
		}
	}
}
