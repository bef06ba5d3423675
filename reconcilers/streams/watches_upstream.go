package streams

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

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

// streamsOfUpstream finds the streams to a Service.
func (r *streamReconciler) streamsOfUpstream(ctx context.Context, svc client.Object) []reconcile.Request {
	return requestsFor(r.streamsTo(ctx, client.ObjectKeyFromObject(svc)))
}

// streamsThrough finds the streams to the Service that a stream has for an outside upstream.
func (r *streamReconciler) streamsThrough(ctx context.Context, si client.Object) []reconcile.Request {
	return requestsFor(r.streamsTo(ctx, outsideServiceOf(si)))
}

// classesOfUpstream finds the classes of the streams to a Service.
func (r *classReconciler) classesOfUpstream(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.classesServing(ctx, r.streamsTo(ctx, client.ObjectKeyFromObject(obj)))
}

// classesThrough finds the classes of the streams to the Service that a stream has for an outside upstream.
func (r *classReconciler) classesThrough(ctx context.Context, si client.Object) []reconcile.Request {
	return r.classesServing(ctx, r.streamsTo(ctx, outsideServiceOf(si)))
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
