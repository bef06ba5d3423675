package kube

import (
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// watchers are what an API server has at each target.
type watchers map[Target]apiObject

// apiObject is one object of an API server. It tells whoever watches it what changes, and has to be listed before.
type apiObject struct {
	*cachetesting.FakeControllerSource
}

func (apiObject) IsWatchListSemanticsUnSupported() bool { return true }

// at is what the API server has at a target; nothing at first.
func (w watchers) at(target Target) apiObject {
	if _, there := w[target]; !there {
		w[target] = apiObject{cachetesting.NewFakeControllerSource()}
	}
	return w[target]
}

// watchTargets has a view watch what classes name, and returns who tells it of classes.
func watchTargets(t *testing.T, v *View, informers *informertest.FakeInformers, w watchers) *controllertest.FakeInformer {
	t.Helper()
	err := v.Targets.Watch(t.Context(), func(at Target) toolscache.SharedIndexInformer {
		var example client.Object = &corev1.ConfigMap{}
		if at.Resource == services {
			example = &corev1.Service{}
		}
		return toolscache.NewSharedIndexInformer(w.at(at), example, 0, toolscache.Indexers{})
	})
	if err != nil {
		t.Fatal(err)
	}
	classes, err := informers.FakeInformerFor(t.Context(), &v1beta1.StreamIngressClass{})
	if err != nil {
		t.Fatal(err)
	}
	return classes
}

// await waits for what another goroutine is about to do.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s takes too long", what)
		}
	}
}

// TestTargets follows what is known of a ConfigMap while a class comes to name it, turns to another one, and goes.
func TestTargets(t *testing.T) {
	cm := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: name}, Data: map[string]string{"80": value}}
	}
	names := func(name string) *v1beta1.StreamIngressClass {
		class := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: "public"}}
		class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: name}
		return class
	}
	at := func(name string) Target {
		return Target{configMaps, types.NamespacedName{Namespace: "edge", Name: name}}
	}
	live := clientOf(t, cm("first", "live"), cm("second", "live"), cm("third", "live")).Build()
	informers := &informertest.FakeInformers{Scheme: live.Scheme()}
	v, err := NewView(t.Context(), cached{informers, live}, live)
	if err != nil {
		t.Fatal(err)
	}
	w := watchers{}
	w.at(at("first")).Add(cm("first", "watched"))
	w.at(at("second")).Add(cm("second", "watched"))
	var mu sync.Mutex
	var told []string
	v.Targets.OnChange(func(before, after client.Object) {
		mu.Lock()
		defer mu.Unlock()
		value := func(obj client.Object) string {
			if obj == nil {
				return "nothing"
			}
			return obj.GetName() + "=" + obj.(*corev1.ConfigMap).Data["80"]
		}
		told = append(told, value(before)+" -> "+value(after))
	})
	expect := func(name, want string) {
		t.Helper()
		await(t, name+" to be "+want, func() bool {
			got, err := v.Targets.ConfigMap(t.Context(), *names(name).Spec.TCPConfigMap)
			return err == nil && got != nil && got.Data["80"] == want
		})
	}
	mustBeTold := func(want string) {
		t.Helper()
		await(t, want, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(told, want)
		})
	}

	classes := watchTargets(t, v, informers, w)
	expect("first", "live") // nobody names it
	classes.Add(names("first"))
	expect("first", "watched")
	mustBeTold("nothing -> first=watched")
	w.at(at("first")).Modify(cm("first", "changed"))
	expect("first", "changed")
	mustBeTold("first=watched -> first=changed")

	classes.Update(names("first"), names("second"))
	expect("second", "watched")
	expect("first", "live") // whatever was known of it is not believed any longer
	w.at(at("second")).Delete(cm("second", "watched"))
	mustBeTold("second=watched -> nothing")
	expect("second", "live") // it may be there again

	classes.Update(names("second"), names("third")) // its watch never finds it
	expect("third", "live")
	classes.Delete(names("third"))
	if len(v.Targets.watched) > 0 {
		t.Errorf("still watched: %v", v.Targets.watched)
	}
}

func TestNames(t *testing.T) {
	object := func(obj client.Object, namespace, name string) client.Object {
		obj.SetNamespace(namespace)
		obj.SetName(name)
		return obj
	}
	class := &v1beta1.StreamIngressClass{}
	class.Spec.TCPConfigMap = &v1beta1.ObjectReference{Namespace: "edge", Name: "tcp-services"}
	class.Spec.Service = &v1beta1.ObjectReference{Namespace: "edge", Name: "proxy"}
	for name, tc := range map[string]struct {
		obj  client.Object
		want bool
	}{
		"its ConfigMap":                     {object(&corev1.ConfigMap{}, "edge", "tcp-services"), true},
		"the metadata of its ConfigMap":     {object(ConfigMapObject(), "edge", "tcp-services"), true},
		"its Service":                       {object(&corev1.Service{}, "edge", "proxy"), true},
		"a Service of its ConfigMap's name": {object(&corev1.Service{}, "edge", "tcp-services"), false},
		"a ConfigMap in another namespace":  {object(&corev1.ConfigMap{}, "other", "tcp-services"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Names(class, tc.obj); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
