package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Endpoints reads EndpointSlices whole, but for those that Portcullis mirrors, which a label tells. The cache keeps no addresses of
// endpoints: there may be as many as Pods, and only classes whose streams the kernel forwards need them. So nothing is read before
// Ask, and nothing at all on replicas that do not lead.
//
// Of nil, nothing is known, ever.
type Endpoints struct {
	informer toolscache.SharedIndexInformer
	// told says whether all that was there at first has been told.
	told toolscache.ResourceEventHandlerRegistration
	// ask closes asked.
	ask   func()
	asked chan struct{}
	// watchers are called with a Service of which an EndpointSlice has changed.
	watchers []func(service types.NamespacedName)
}

var (
	_ manager.Runnable               = &Endpoints{}
	_ manager.LeaderElectionRunnable = &Endpoints{}
)

// The indexes of Endpoints.
const (
	indexService = "service"
	indexPod     = "pod"
)

// notMirrored selects the EndpointSlices that are read.
const notMirrored = discoveryv1.LabelManagedBy + "!=" + MirrorManager

// NewEndpoints makes Endpoints that read from the API server of a manager. Whoever makes them also adds them to the manager.
func NewEndpoints(mgr manager.Manager) (*Endpoints, error) {
	reader, err := apiutil.RESTClientForGVK(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), false, false,
		mgr.GetConfig(), serializer.NewCodecFactory(mgr.GetScheme()), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("watching EndpointSlices: %w", err)
	}
	return newEndpoints(toolscache.NewFilteredListWatchFromClient(reader, "endpointslices", metav1.NamespaceAll,
		func(options *metav1.ListOptions) { options.LabelSelector = notMirrored }))
}

// newEndpoints makes Endpoints of what is listed and watched.
func newEndpoints(lw toolscache.ListerWatcher) (*Endpoints, error) {
	e := &Endpoints{asked: make(chan struct{})}
	e.ask = sync.OnceFunc(func() { close(e.asked) })
	e.informer = toolscache.NewSharedIndexInformer(lw, &discoveryv1.EndpointSlice{}, 0, toolscache.Indexers{
		indexService: serviceKeys, indexPod: podKeys,
	})
	if err := e.informer.SetTransform(slimWholeSlice); err != nil {
		return nil, fmt.Errorf("watching EndpointSlices: %w", err)
	}
	told, err := e.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { e.changed(obj) },
		UpdateFunc: e.updated,
		DeleteFunc: func(obj any) { e.changed(objectOf(obj)) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching EndpointSlices: %w", err)
	}
	e.told = told
	return e, nil
}

// Start implements manager.Runnable: it waits for Ask, and then reads until ctx is done.
func (e *Endpoints) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-e.asked:
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() { e.informer.RunWithContext(ctx) })
	select {
	case <-ctx.Done():
	case <-e.told.HasSyncedChecker().Done():
		e.tell(types.NamespacedName{})
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only who leads writes what follows from endpoints.
func (*Endpoints) NeedLeaderElection() bool { return true }

// Ask has EndpointSlices read from now on. It returns at once, and may be called any number of times, before Start too.
func (e *Endpoints) Ask() {
	if e != nil {
		e.ask()
	}
}

// Asked is closed once Ask was called.
func (e *Endpoints) Asked() <-chan struct{} {
	if e == nil {
		return nil
	}
	return e.asked
}

// OnChange has a function called with a Service whenever one of its EndpointSlices has come, changed or gone, with both Services when
// its label has; and with the zero name once all are read for the first time: before that, Of knows nothing. By then Of and WithPod
// show what has changed. Calls may come side by side. OnChange is called before Start only.
func (e *Endpoints) OnChange(changed func(service types.NamespacedName)) {
	if e != nil {
		e.watchers = append(e.watchers, changed)
	}
}

// Synced says whether all EndpointSlices are read.
func (e *Endpoints) Synced() bool { return e != nil && e.informer.HasSynced() }

// Of are the EndpointSlices of a Service by their label, in the order of their names; known is false while not all are read. They are
// shared, and must not be changed.
func (e *Endpoints) Of(service types.NamespacedName) (found []*discoveryv1.EndpointSlice, known bool) {
	if !e.Synced() {
		return nil, false
	}
	found = e.under(indexService, service)
	slices.SortFunc(found, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return found, true
}

// WithPod are the Services of which an EndpointSlice names a Pod of its own namespace as a target, each once, in the order of their
// names. While not all are read, some may be missing.
func (e *Endpoints) WithPod(pod types.NamespacedName) []types.NamespacedName {
	if e == nil {
		return nil
	}
	var found []types.NamespacedName
	for _, slice := range e.under(indexPod, pod) {
		if service, belongs := serviceOf(slice); belongs {
			found = append(found, service)
		}
	}
	// All of them are in the namespace of the Pod.
	slices.SortFunc(found, func(a, b types.NamespacedName) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(found)
}

// under are the EndpointSlices that an index has under a name.
func (e *Endpoints) under(index string, key types.NamespacedName) []*discoveryv1.EndpointSlice {
	objs, err := e.informer.GetIndexer().ByIndex(index, key.String())
	if err != nil {
		return nil // there is no such index
	}
	found := make([]*discoveryv1.EndpointSlice, 0, len(objs))
	for _, obj := range objs {
		found = append(found, obj.(*discoveryv1.EndpointSlice))
	}
	return found
}

// updated tells what an update is about, and nothing of one that changes nothing but the version.
func (e *Endpoints) updated(before, after any) {
	was, wasSlice := before.(*discoveryv1.EndpointSlice)
	is, isSlice := after.(*discoveryv1.EndpointSlice)
	if !wasSlice || !isSlice || sameEndpoints(was, is) {
		return
	}
	e.changed(is)
	if was.Labels[discoveryv1.LabelServiceName] != is.Labels[discoveryv1.LabelServiceName] {
		e.changed(was)
	}
}

// sameEndpoints says whether two versions of an EndpointSlice say the same.
func sameEndpoints(a, b *discoveryv1.EndpointSlice) bool {
	return a.AddressType == b.AddressType &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Ports, b.Ports) &&
		equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints)
}

// changed tells whose EndpointSlice has changed, if it is anybody's.
func (e *Endpoints) changed(obj any) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	if service, belongs := serviceOf(slice); belongs {
		e.tell(service)
	}
}

func (e *Endpoints) tell(service types.NamespacedName) {
	for _, changed := range e.watchers {
		changed(service)
	}
}

// serviceOf is the Service that an EndpointSlice belongs to by its label, if it has one.
func serviceOf(slice *discoveryv1.EndpointSlice) (service types.NamespacedName, belongs bool) {
	name := slice.Labels[discoveryv1.LabelServiceName]
	return types.NamespacedName{Namespace: slice.Namespace, Name: name}, name != ""
}

// serviceKeys is the Service of an EndpointSlice for indexService.
func serviceKeys(obj any) ([]string, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, nil
	}
	service, belongs := serviceOf(slice)
	if !belongs {
		return nil, nil
	}
	return []string{service.String()}, nil
}

// podKeys are the Pods of an EndpointSlice for indexPod: those that stream.Mirror takes them for. Whoever writes one may name Pods of
// other namespaces, which are none of theirs; one that is named without a namespace is of the same.
func podKeys(obj any) ([]string, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, nil
	}
	if _, belongs := serviceOf(slice); !belongs {
		return nil, nil
	}
	var keys []string
	for i := range slice.Endpoints {
		ref := slice.Endpoints[i].TargetRef
		if ref != nil && ref.Kind == "Pod" && (ref.Namespace == "" || ref.Namespace == slice.Namespace) {
			keys = append(keys, types.NamespacedName{Namespace: slice.Namespace, Name: ref.Name}.String())
		}
	}
	return keys, nil
}

// slimWholeSlice leaves of an EndpointSlice what a mirror of it is made from: whose it is, and all that it says of endpoints but for
// names that only DNS has a use for.
func slimWholeSlice(obj any) (any, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return obj, nil
	}
	service := slice.Labels[discoveryv1.LabelServiceName]
	slimMeta(&slice.ObjectMeta)
	slice.Annotations, slice.OwnerReferences = nil, nil
	if service != "" {
		intern(&service)
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	}
	internMeta(&slice.TypeMeta, &slice.ObjectMeta)
	intern(&slice.AddressType)
	if service == "" { // nobody's
		slice.Endpoints, slice.Ports = nil, nil
		return slice, nil
	}
	// Decoding leaves room for more of each.
	slice.Endpoints, slice.Ports = slices.Clone(slice.Endpoints), slices.Clone(slice.Ports)
	for i := range slice.Endpoints {
		slimEndpoint(&slice.Endpoints[i])
	}
	for i := range slice.Ports {
		p := &slice.Ports[i]
		internTo(p.Name, p.AppProtocol)
		if p.Protocol != nil {
			intern(p.Protocol)
		}
	}
	return slice, nil
}

// slimEndpoint leaves of an endpoint what a mirror has of it. What it says of its target is not checked by the API server, and may be
// of any length.
func slimEndpoint(e *discoveryv1.Endpoint) {
	e.Hostname, e.DeprecatedTopology = nil, nil
	if len(e.Addresses) > 1 { // the API gives the others no meaning
		e.Addresses = slices.Clone(e.Addresses[:1])
	}
	if e.Zone != nil && len(*e.Zone) > validation.LabelValueMaxLength { // no zone of a node
		e.Zone = nil
	}
	internTo(e.NodeName, e.Zone)
	for _, condition := range []**bool{&e.Conditions.Ready, &e.Conditions.Serving, &e.Conditions.Terminating} {
		if *condition != nil {
			*condition = sharedBool[**condition]
		}
	}
	if ref := e.TargetRef; ref != nil {
		e.TargetRef = &corev1.ObjectReference{
			Kind: cut(ref.Kind, maxName), Namespace: cut(ref.Namespace, maxName),
			Name: cut(ref.Name, maxName), UID: cut(ref.UID, maxName),
		}
		intern(&e.TargetRef.Kind)
		intern(&e.TargetRef.Namespace)
	}
	if e.Hints == nil {
		return
	}
	tooLong := func(z discoveryv1.ForZone) bool { return len(z.Name) > validation.LabelValueMaxLength }
	e.Hints.ForZones = slices.DeleteFunc(e.Hints.ForZones, tooLong)
	for i := range e.Hints.ForZones {
		intern(&e.Hints.ForZones[i].Name)
	}
	for i := range e.Hints.ForNodes {
		intern(&e.Hints.ForNodes[i].Name)
	}
}

// sharedBool are what all conditions of endpoints point to: one of its own for each takes more than it says.
var sharedBool = map[bool]*bool{false: new(false), true: new(true)}

// internTo interns what pointers that are not nil point to.
func internTo(all ...*string) {
	for _, s := range all {
		if s != nil {
			intern(s)
		}
	}
}
