package streams

import (
	"context"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

func setupForward(mgr manager.Manager, b base, refused *refusedDoors, ports *kube.KeyMutex[claim.Coordinate]) error {
	r := &forwardReconciler{base: b, refused: refused, clusterIPs: newClusterIPs(clock.RealClock{}), ports: ports}
	return b.onUpstreams(mgr, builder.ControllerManagedBy(mgr).Named("streamingressclass-forward"), r.portsOf, r.everyPort).
		Watches(&v1beta1.EdgeClaim{}, handler.EnqueueRequestsFromMapFunc(r.portOfClaim)).
		Watches(&v1beta1.StreamIngressClass{}, handler.EnqueueRequestsFromMapFunc(r.portsOfClass), builder.WithPredicates(doorsChanged())).
		Watches(&v1beta1.StreamIngress{}, handler.EnqueueRequestsFromMapFunc(r.portsOfStream), builder.WithPredicates(watch.StreamChanged())).
		Watches(&corev1.Service{}, r.onService(), builder.WithPredicates(only(isForwarded))).
		Watches(&discoveryv1.EndpointSlice{}, afterLag(r.portOfMirror), builder.WithPredicates(only(kube.IsMirror))).
		Watches(&corev1.Service{}, r.onRoom()).
		Watches(kube.NamespaceObject(), r.onNamespace(), builder.OnlyMetadata).
		Watches(&discoveryv1.EndpointSlice{}, r.onFreeName()).
		WatchesRawSource(b.onEndpoints(r.portsOf)).
		WatchesRawSource(b.onPods(mgr, r.portsOf)).
		WithOptions(watch.Fairly(forwarders, r.turnOfPort)).
		Complete(watch.Guarded(b.View, b.Kinds, r))
}

// turnOfPort is the namespace whose turn a request for a port waits for: that of the stream that has the port, or the one that the request
// names, of a route, or of a Service that is no port's: tenants can make those by the thousand, and the ports that nobody holds anymore
// would close behind them.
func (b base) turnOfPort(req reconcile.Request) string {
	if req.Namespace != "" {
		return req.Namespace
	}
	c, err := b.View.Claim(context.Background(), req.Name)
	if err != nil || c == nil {
		return ""
	}
	return claim.HolderOf(c).Namespace
}

// only lets through what an object that is something, or was, concerns.
func only(is func(client.Object) bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return is(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return is(e.ObjectOld) || is(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return is(e.Object) },
	}
}

func isForwarded(obj client.Object) bool { return kube.IsForwarded(obj.(*corev1.Service)) }

// doorsChanged leaves out changes of a class that concern no port of it.
func doorsChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1beta1.StreamIngressClass), e.ObjectNew.(*v1beta1.StreamIngressClass)
		return before.Generation != after.Generation || before.UID != after.UID ||
			!slices.Equal(before.Status.Addresses, after.Status.Addresses)
	}}
}

// endpointChanged leaves out changes of a Pod after which the same addresses are its own.
func endpointChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := kube.PodOf(e.ObjectOld), kube.PodOf(e.ObjectNew)
		return before.UID != after.UID || before.Status.Phase != after.Status.Phase ||
			!equality.Semantic.DeepEqual(before.Status.PodIPs, after.Status.PodIPs)
	}}
}

// onEndpoints is the source of who looks after the streams to a Service whose EndpointSlices have changed.
func (b base) onEndpoints(concerned concerned) source.Source {
	var add atomic.Pointer[func(types.NamespacedName)] // nil until the queue is there: all is looked at then anyway
	b.View.Endpoints.OnChange(func(service types.NamespacedName) {
		if add := add.Load(); add != nil && service.Name != "" {
			(*add)(service)
		}
	})
	return source.Func(func(ctx context.Context, q watch.Queue) error {
		add.Store(new(func(service types.NamespacedName) { watch.Add(q, concerned(ctx, b.streamsTo(ctx, service))) }))
		return nil
	})
}

// onPods is the source of who looks after the streams to a Pod whose addresses have changed. Pods are not watched for that before a class
// has the kernel forward its ports: nothing else may need them, and there are many.
func (b base) onPods(mgr manager.Manager, concerned concerned) source.Source {
	find := func(ctx context.Context, pod client.Object) []reconcile.Request {
		var streams []v1beta1.StreamIngress
		for _, service := range b.View.Endpoints.WithPod(client.ObjectKeyFromObject(pod)) {
			streams = append(streams, b.streamsTo(ctx, service)...)
		}
		return concerned(ctx, streams)
	}
	pods := source.Kind(mgr.GetCache(), client.Object(&corev1.Pod{}), handler.EnqueueRequestsFromMapFunc(find), endpointChanged())
	return source.Func(func(ctx context.Context, q watch.Queue) error {
		go func() {
			select {
			case <-ctx.Done():
				return
			case <-b.View.Endpoints.Asked():
			}
			if err := pods.Start(ctx, q); err != nil {
				log.FromContext(ctx).Error(err, "could not watch Pods")
			}
		}()
		return nil
	})
}

// portOfClaim finds the port that a claim is on, or, of one on a port of an address, those that need it.
func (r *forwardReconciler) portOfClaim(ctx context.Context, c client.Object) []reconcile.Request {
	at, err := claim.Parse(c.GetName())
	switch {
	case err != nil:
		return nil
	case at.IsAddress():
		return r.portsAt(ctx, at, claim.HolderOf(c.(*v1beta1.EdgeClaim)))
	case !at.IsStream() || !r.isForwarding(ctx, at.Class()):
		return nil
	}
	return []reconcile.Request{watch.ForName(at.Name())}
}

// portsAt finds the ports of classes that need a port of an address: it may be theirs to have now, or somebody has taken it from them;
// and the Services that are open at what is not their class's.
func (r *forwardReconciler) portsAt(ctx context.Context, at claim.Coordinate, holder claim.Holder) []reconcile.Request {
	var requests []reconcile.Request
	if at.Port() != 0 {
		for _, class := range r.classes(ctx) {
			if class.Spec.AddressPool != nil && slices.Contains(stream.ClassAddresses(&class), at.Address()) {
				requests = append(requests, watch.ForName(claim.Stream(class.Name, at.Protocol(), at.Port()).Name()))
			}
		}
	}
	open, err := r.View.Streams.OpenAt(ctx, at)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the Services of streams", "at", at)
	}
	for i := range open {
		if class, _, _ := kube.ForwardedPort(&open[i]); claim.ClassHolder(class) == holder {
			continue
		}
		requests = append(requests, r.portAt(ctx, client.ObjectKeyFromObject(&open[i])))
	}
	return requests
}

// isForwarding says whether a class has the kernel forward its ports.
func (r *forwardReconciler) isForwarding(ctx context.Context, class string) bool {
	found, err := r.View.Class(ctx, class)
	return err == nil && found != nil && found.Spec.AddressPool != nil
}

// portsOfClass finds the ports of a class, and the Services that it has, or had.
func (r *forwardReconciler) portsOfClass(ctx context.Context, class client.Object) []reconcile.Request {
	services, err := r.View.Streams.Forwarded(ctx, class.GetName())
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the Services of a class", "class", class.GetName())
	}
	requests := forEach(ctx, services, r.itsPort)
	if class.(*v1beta1.StreamIngressClass).Spec.AddressPool == nil {
		return requests
	}
	claims, err := r.View.Claims.OfClass(ctx, class.GetName())
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the claims of a class", "class", class.GetName())
	}
	for at := range claims {
		requests = append(requests, watch.ForName(at.Name()))
	}
	for _, refused := range class.(*v1beta1.StreamIngressClass).Status.Refused {
		requests = append(requests, watch.ForName(claim.Stream(class.GetName(), refused.Protocol, refused.Port).Name()))
	}
	return requests
}

// portsOf finds the ports that streams hold.
func (r *forwardReconciler) portsOf(ctx context.Context, streams []v1beta1.StreamIngress) []reconcile.Request {
	return forEach(ctx, streams, r.portsOfStream)
}

func (r *forwardReconciler) portsOfStream(ctx context.Context, si client.Object) []reconcile.Request {
	return r.portsHeldBy(ctx, si, func(at claim.Coordinate) bool { return r.isForwarding(ctx, at.Class()) })
}

// everyPort finds the ports of all classes.
func (r *forwardReconciler) everyPort(ctx context.Context) []reconcile.Request {
	return forEach(ctx, r.classes(ctx), r.portsOfClass)
}

// itself asks for a look at an object.
func itself(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{watch.ForObject(obj)}
}

// itsPort finds the port that a Service forwards.
func (r *forwardReconciler) itsPort(ctx context.Context, svc client.Object) []reconcile.Request {
	return []reconcile.Request{r.portAt(ctx, client.ObjectKeyFromObject(svc))}
}

// portAt asks for a look at the port whose Service has a name; where that is none's, for one at the Service. It is never both: two looks
// at one port at once would write the same twice.
func (r *forwardReconciler) portAt(ctx context.Context, service types.NamespacedName) reconcile.Request {
	class, port, err := r.View.PortAt(ctx, service)
	if err != nil || class == nil {
		return reconcile.Request{NamespacedName: service} // an error is met again by that look
	}
	return watch.ForName(claim.Stream(class.Name, port.Protocol, port.Port).Name())
}

// onService looks at the port of a Service that has changed, or is gone, at once, and at that of a new one as afterLag does.
func (r *forwardReconciler) onService() handler.EventHandler {
	changed, lagging := handler.EnqueueRequestsFromMapFunc(r.itsPort), afterLag(r.itsPort)
	return handler.Funcs{CreateFunc: lagging.Create, UpdateFunc: changed.Update, DeleteFunc: changed.Delete}
}

// afterLag asks for a look a moment after an event. Most that happens to EndpointSlices of ours is written in one look with their
// Service: one more look before the cache shows both would write it again, and meet a conflict.
func afterLag(find handler.MapFunc) handler.EventHandler {
	return watch.OnChanges(func(ctx context.Context, q watch.Queue, before, after client.Object) {
		for _, obj := range []client.Object{before, after} {
			if obj == nil {
				continue
			}
			for _, request := range find(ctx, obj) {
				q.AddAfter(request, watch.CacheLag)
			}
		}
	})
}

// portOfMirror finds the port of the Service of an EndpointSlice.
func (r *forwardReconciler) portOfMirror(ctx context.Context, slice client.Object) []reconcile.Request {
	return []reconcile.Request{
		r.portAt(ctx, types.NamespacedName{Namespace: slice.GetNamespace(), Name: slice.GetLabels()[discoveryv1.LabelServiceName]}),
	}
}

// streamOfMirror finds the stream whose port an EndpointSlice is for.
func (r *streamReconciler) streamOfMirror(ctx context.Context, slice client.Object) []reconcile.Request {
	svc, err := r.View.Service(ctx, types.NamespacedName{
		Namespace: slice.GetNamespace(), Name: slice.GetLabels()[discoveryv1.LabelServiceName],
	})
	if err != nil || svc == nil {
		return nil
	}
	return r.streamOfService(ctx, svc)
}

// streamOfService finds the stream whose port a Service forwards.
func (r *streamReconciler) streamOfService(ctx context.Context, svc client.Object) []reconcile.Request {
	class, port, err := r.View.PortAt(ctx, client.ObjectKeyFromObject(svc)) // whatever it says of itself: anybody could wake any stream
	if err != nil || class == nil {
		return nil
	}
	return r.streamAt(ctx, claim.Stream(class.Name, port.Protocol, port.Port))
}
