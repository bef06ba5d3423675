package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/stream"
)

// Targets holds what classes write to, their ConfigMaps and Services, whole and with managed fields. Each has a watch of its
// own, which asks the API server for that name and nothing else, and lasts for as long as a class names it. So no content of
// other ConfigMaps is read, whatever is written on them, and of all other Services only what slimService leaves is kept.
//
// An object is shown from the moment on when its watch has read it. Before that, and when there is none of the name, get
// finds nothing, and the object has to be read live.
type Targets struct {
	objects  *objects
	gateways *Gateways
	// ctx ends all watches.
	ctx  context.Context //nolint:containedctx // watches begin with events, which have none
	open TargetInformer

	mu sync.Mutex
	// named are the targets of each class, by its name.
	named   map[string][]Target
	watched map[Target]watchedTarget
	// watchers are called with what a target was and what it is, nil for nothing.
	watchers []func(before, after client.Object)

	entries observations[stream.Current]
	ports   observations[stream.ServicePorts]
}

type watchedTarget struct {
	informer toolscache.SharedIndexInformer
	end      context.CancelFunc
}

// Target is an object that a class names.
type Target struct {
	// Resource is configmaps or services.
	Resource string
	types.NamespacedName
}

const (
	configMaps = "configmaps"
	services   = "services"
)

// TargetInformer makes an informer of one object, or of none while there is no such object. It is not started.
type TargetInformer func(Target) toolscache.SharedIndexInformer

// TargetInformers makes informers that read from the API server of a manager.
func TargetInformers(mgr manager.Manager) (TargetInformer, error) {
	core, err := apiutil.RESTClientForGVK(corev1.SchemeGroupVersion.WithKind(configMapKind), false, false,
		mgr.GetConfig(), serializer.NewCodecFactory(mgr.GetScheme()), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("watching what classes name: %w", err)
	}
	return func(t Target) toolscache.SharedIndexInformer {
		var example client.Object = &corev1.ConfigMap{}
		if t.Resource == services {
			example = &corev1.Service{}
		}
		one := toolscache.NewListWatchFromClient(core, t.Resource, t.Namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, t.Name))
		return toolscache.NewSharedIndexInformer(one, example, 0, toolscache.Indexers{})
	}, nil
}

// Watch watches what classes name until ctx is done. Without it, and until what is named has been read,
// it is read live.
func (t *Targets) Watch(ctx context.Context, open TargetInformer) error {
	t.ctx, t.open = ctx, open
	_, err := follow(ctx, t.objects.informers, &v1beta1.StreamIngressClass{}, toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { t.set(obj, true) },
		UpdateFunc: func(_, obj any) { t.set(obj, true) },
		DeleteFunc: func(obj any) { t.set(obj, false) },
	})
	return err
}

// OnChange has a function called whenever a ConfigMap or Service that a class names has come, changed or gone. It is told what
// the object was and what it is, nil for nothing. By then get finds it, or it is read live.
func (t *Targets) OnChange(changed func(before, after client.Object)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers = append(t.watchers, changed)
}

// targetsOf are what a class names.
func targetsOf(class *v1beta1.StreamIngressClass) []Target {
	var named []Target
	add := func(resource string, ref *v1beta1.ObjectReference) {
		if ref != nil {
			named = append(named, Target{resource, keyOf(*ref)})
		}
	}
	add(configMaps, class.Spec.TCPConfigMap)
	add(configMaps, class.Spec.UDPConfigMap)
	add(services, class.Spec.Service)
	return named
}

// Names says whether a class names a ConfigMap or a Service, of which the metadata are enough.
func Names(class *v1beta1.StreamIngressClass, obj client.Object) bool {
	at := Target{configMaps, client.ObjectKeyFromObject(obj)}
	if _, isService := obj.(*corev1.Service); isService {
		at.Resource = services
	}
	return slices.Contains(targetsOf(class), at)
}

// set notes what a class names, or that it is gone. Watches begin and end accordingly.
func (t *Targets) set(obj any, there bool) {
	class, ok := objectOf(obj).(*v1beta1.StreamIngressClass)
	if !ok {
		return
	}
	var named []Target
	if there {
		named = targetsOf(class)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Equal(t.named[class.Name], named) {
		return
	}
	delete(t.named, class.Name)
	if len(named) > 0 {
		t.named[class.Name] = named
	}
	wanted := map[Target]bool{}
	for _, of := range t.named {
		for _, at := range of {
			wanted[at] = true
		}
	}
	for at, w := range t.watched {
		if !wanted[at] {
			w.end()
			delete(t.watched, at)
		}
	}
	for at := range wanted {
		if _, watched := t.watched[at]; !watched {
			t.begin(at)
		}
	}
}

// begin begins to watch a target. The lock must be held.
func (t *Targets) begin(at Target) {
	ctx, end := context.WithCancel(t.ctx)
	informer := t.open(at)
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { t.tell(nil, obj) },
		UpdateFunc: func(before, after any) { t.tell(before, after) },
		DeleteFunc: func(obj any) { t.tell(objectOf(obj), nil) },
	})
	if err != nil {
		end() // it has ended before it began, and is read live
		return
	}
	t.watched[at] = watchedTarget{informer, end}
	go informer.RunWithContext(ctx)
}

func (t *Targets) tell(before, after any) {
	was, _ := before.(client.Object)
	is, _ := after.(client.Object)
	t.mu.Lock()
	watchers := slices.Clone(t.watchers)
	t.mu.Unlock()
	for _, changed := range watchers {
		changed(was, is)
	}
}

// get finds what is known of a target, nil for nothing.
func (t *Targets) get(at Target) client.Object {
	t.mu.Lock()
	w, watched := t.watched[at]
	t.mu.Unlock()
	if !watched || !w.informer.HasSynced() {
		return nil
	}
	obj, found, err := w.informer.GetStore().GetByKey(at.String())
	if err != nil || !found {
		return nil
	}
	return obj.(client.Object)
}
