package streams

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// concerned finds who looks after streams.
type concerned func(context.Context, []v1beta1.StreamIngress) []reconcile.Request

// onUpstreams has a controller told of the Services that streams lead to: of what becomes of them, of whether they lead outside, and of
// the consents by ReferenceGrants. That kind may not be installed yet: when it is watched, all that abroad finds is looked at once.
func (b base) onUpstreams(
	mgr manager.Manager, controller *builder.Builder, concerned concerned, abroad func(context.Context) []reconcile.Request,
) *builder.Builder {
	of := func(service func(client.Object) client.ObjectKey) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
			return concerned(ctx, b.streamsTo(ctx, service(obj)))
		})
	}
	return controller.
		Watches(&corev1.Service{}, of(client.ObjectKeyFromObject), builder.WithPredicates(upstreamChanged())).
		Watches(&v1beta1.StreamIngress{}, of(outsideServiceOf), builder.WithPredicates(watch.Becomes(isOutside))).
		// An EndpointSlice of ours has the name of its Service.
		Watches(&discoveryv1.EndpointSlice{}, of(client.ObjectKeyFromObject), builder.WithPredicates(watch.Becomes(kube.IsOwnSlice))).
		WatchesRawSource(watch.WhenKnown(mgr, &gatewayv1beta1.ReferenceGrant{}, &consents{b, concerned}, abroad))
}

// upstreamChanged leaves out changes of a Service that concern no stream to it.
func upstreamChanged() predicate.Predicate {
	return predicate.Or(portsChanged(), watch.Becomes(func(obj client.Object) bool {
		return obj.(*corev1.Service).Spec.Type == corev1.ServiceTypeExternalName
	}))
}

// isOutside says whether a stream leads out of the cluster. Whoever leads to the Service that it has for that does as well.
func isOutside(obj client.Object) bool { return obj.(*v1beta1.StreamIngress).Outside() }

// outsideServiceOf is the Service that a stream has for an outside upstream.
func outsideServiceOf(si client.Object) client.ObjectKey {
	return client.ObjectKey{Namespace: si.GetNamespace(), Name: v1beta1.OutsideServiceName(si.GetName())}
}

// classesServing finds the classes that serve streams; all of them while that is not settled.
func (r *classReconciler) classesServing(ctx context.Context, streams []v1beta1.StreamIngress) []reconcile.Request {
	found := map[string]bool{}
	for i := range streams {
		found[kube.ClassName(&streams[i])] = true
		if p := streams[i].Status.Previous; p != nil {
			found[p.ClassName] = true
		}
	}
	if found[""] {
		return r.everyClass(ctx)
	}
	requests := make([]reconcile.Request, 0, len(found))
	for name := range found {
		requests = append(requests, watch.ForName(name))
	}
	return requests
}
