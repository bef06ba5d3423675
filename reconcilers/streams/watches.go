package streams

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// verdictChanged leaves out changes of a stream's metadata, but for whom it hands its port over to. Changes of its status count: whatever
// somebody else writes there is set right.
func verdictChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1beta1.StreamIngress), e.ObjectNew.(*v1beta1.StreamIngress)
		return before.Generation != after.Generation || before.UID != after.UID ||
			before.Annotations[v1beta1.AnnotationHandOverTo] != after.Annotations[v1beta1.AnnotationHandOverTo] ||
			!equality.Semantic.DeepEqual(before.Status, after.Status)
	}}
}

// heirChanged leaves out all changes of a stream but those by which it hands its port over to somebody.
func heirChanged() predicate.Predicate {
	heirOf := func(obj client.Object) string { return obj.GetAnnotations()[v1beta1.AnnotationHandOverTo] }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return heirOf(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return heirOf(e.ObjectOld) != heirOf(e.ObjectNew) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// namedHeir finds the stream to which another one hands its port over.
func namedHeir(_ context.Context, giver client.Object) []reconcile.Request {
	heir, named := claim.NamedHeir(giver)
	if !named {
		return nil
	}
	return []reconcile.Request{{NamespacedName: heir}}
}

// portsChanged leaves out changes of a Service that leave its ports alone.
func portsChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Service), e.ObjectNew.(*corev1.Service)
		return !equality.Semantic.DeepEqual(before.Spec.Ports, after.Spec.Ports) || before.UID != after.UID
	}}
}

// streams lists some streams; an error is logged, as the next event brings the chance again.
func (b base) streams(ctx context.Context, which ...client.ListOption) []v1beta1.StreamIngress {
	var list v1beta1.StreamIngressList
	if err := b.View.Reader.List(ctx, &list, which...); err != nil {
		log.FromContext(ctx).Error(err, "could not list StreamIngresses", "which", which)
	}
	return list.Items
}

// ofClass are the streams that name a class, or none for "".
func ofClass(class string) client.ListOption { return client.MatchingFields{kube.IndexClass: class} }

// streamsAt lists the streams that ask for a port or have it, port 0 for those that wait to be given one; an error is
// logged, as the next event brings the chance again.
func (b base) streamsAt(ctx context.Context, protocol v1beta1.Protocol, port int32) []v1beta1.StreamIngress {
	streams, err := b.View.Streams.At(ctx, protocol, port)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list StreamIngresses", "protocol", protocol, "port", port)
	}
	return streams
}

// streamsTo lists the streams whose upstream is a Service.
func (b base) streamsTo(ctx context.Context, service client.ObjectKey, and ...client.ListOption) []v1beta1.StreamIngress {
	return b.streams(ctx, append(and, client.MatchingFields{kube.IndexUpstream: service.String()})...)
}

// classes lists all classes; an error is logged, as the next event brings the chance again.
func (b base) classes(ctx context.Context) []v1beta1.StreamIngressClass {
	classes, err := b.View.Classes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list StreamIngressClasses")
	}
	return classes
}

// objectOf is what points to an object of a kind, as it is in a list.
type objectOf[kind any] interface {
	*kind
	client.Object
}

// forEach asks for what a function finds for each of some objects.
func forEach[kind any, object objectOf[kind]](ctx context.Context, objects []kind, find handler.MapFunc) []reconcile.Request {
	requests := make([]reconcile.Request, 0, len(objects))
	for i := range objects {
		requests = append(requests, find(ctx, object(&objects[i]))...)
	}
	return requests
}

// requestsFor asks for a look at each of some objects.
func requestsFor[kind any, object objectOf[kind]](objects []kind) []reconcile.Request {
	return forEach[kind, object](context.Background(), objects, itself)
}

// streamsOfClass finds the streams that a class serves, and those that name none.
func (r *streamReconciler) streamsOfClass(ctx context.Context, obj client.Object) []reconcile.Request {
	return requestsFor(append(r.streams(ctx, ofClass(obj.GetName())), r.streams(ctx, ofClass(""))...))
}

// streamsIn finds the streams of a namespace.
func (r *streamReconciler) streamsIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	return requestsFor(r.streams(ctx, client.InNamespace(namespace.GetName())))
}

// onClaim looks at the stream that holds a claim, and, when a claim goes, at those that wait for its port: on the proxy, or on the
// addresses or the nodes that the proxy shares.
func (r *streamReconciler) onClaim() handler.EventHandler {
	return watch.OnChanges(func(ctx context.Context, q watch.Queue, before, after *v1beta1.EdgeClaim) {
		watch.Add(q, streamHolding(before))
		watch.Add(q, streamHolding(after))
		if after != nil {
			return
		}
		if at, err := claim.Parse(before.Name); err == nil && at.Port() != 0 {
			watch.Add(q, requestsFor(r.streamsAt(ctx, at.Protocol(), at.Port())))
			watch.Add(q, requestsFor(r.streamsAt(ctx, at.Protocol(), 0)))
		}
	})
}

// portsHeldBy finds those of the ports that a stream holds that are meant.
func (b base) portsHeldBy(ctx context.Context, si client.Object, isMeant func(claim.Coordinate) bool) []reconcile.Request {
	held, err := b.View.Claims.Held(ctx, claim.StreamHolder(si.GetNamespace(), si.GetName()))
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the claims of a StreamIngress", "streamIngress", client.ObjectKeyFromObject(si))
	}
	var requests []reconcile.Request
	for _, at := range held {
		if isMeant(at) {
			requests = append(requests, watch.ForName(at.Name()))
		}
	}
	return requests
}
