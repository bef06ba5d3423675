package streams

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// frontChanged leaves out changes of the Service in front of a proxy that leave alone what is opened on it, by whom, and the
// label of its class.
func frontChanged() predicate.Predicate {
	return predicate.Or(portsChanged(), predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Service), e.ObjectNew.(*corev1.Service)
		return before.Labels[v1beta1.LabelClass] != after.Labels[v1beta1.LabelClass] ||
			!equality.Semantic.DeepEqual(before.ManagedFields, after.ManagedFields)
	}})
}

// naming lists the classes that name an object.
func (b base) naming(ctx context.Context, obj client.Object) []v1beta1.StreamIngressClass {
	return slices.DeleteFunc(b.classes(ctx), func(class v1beta1.StreamIngressClass) bool { return !kube.Names(&class, obj) })
}

// onConfigMap looks at the streams whose entries changed.
func (r *streamReconciler) onConfigMap() handler.EventHandler {
	return watch.OnChanges(func(ctx context.Context, q watch.Queue, before, after *corev1.ConfigMap) {
		none, cm := corev1.ConfigMap{}, cmp.Or(after, before)
		ports := stream.ChangedPorts(ptr.Deref(before, none).Data, ptr.Deref(after, none).Data)
		for _, class := range r.naming(ctx, cm) {
			for _, protocol := range []v1beta1.Protocol{v1beta1.TCP, v1beta1.UDP} {
				ref := class.ConfigMap(protocol)
				if ref == nil || ref.Namespace != cm.Namespace || ref.Name != cm.Name {
					continue
				}
				for _, port := range ports {
					r.addPort(ctx, q, class.Name, stream.PortKey{Protocol: protocol, Port: port})
				}
			}
		}
	})
}

// addPort looks at the streams that ask for a port, and at the one that holds it. The latter may be a stream to which
// the port was given a moment ago, so that it is not yet found by its port.
func (r *streamReconciler) addPort(ctx context.Context, q watch.Queue, class string, port stream.PortKey) {
	watch.Add(q, requestsFor(r.streamsAt(ctx, port.Protocol, port.Port)))
	watch.Add(q, r.streamAt(ctx, claim.Stream(class, port.Protocol, port.Port)))
}

// onFront looks at the streams whose ports on the Service of their class changed, and at all of the class when its addresses
// did, or when the Service came or went.
func (r *streamReconciler) onFront() handler.EventHandler {
	return watch.OnChanges(func(ctx context.Context, q watch.Queue, before, after *corev1.Service) {
		if before == nil || after == nil || !equality.Semantic.DeepEqual(before.Status.LoadBalancer, after.Status.LoadBalancer) {
			for _, class := range r.naming(ctx, cmp.Or(after, before)) {
				watch.Add(q, requestsFor(r.streams(ctx, ofClass(class.Name))))
			}
			return
		}
		ports := differing(before, after)
		if len(ports) == 0 {
			return
		}
		for _, class := range r.naming(ctx, after) {
			for port := range ports {
				r.addPort(ctx, q, class.Name, port)
			}
		}
	})
}

// differing are the ports that only one of two versions of a Service has.
func differing(before, after *corev1.Service) map[stream.PortKey]bool {
	ports := map[stream.PortKey]bool{}
	for _, p := range before.Spec.Ports {
		ports[stream.PortKey{Protocol: v1beta1.Protocol(p.Protocol), Port: p.Port}] = true
	}
	for _, p := range after.Spec.Ports {
		key := stream.PortKey{Protocol: v1beta1.Protocol(p.Protocol), Port: p.Port}
		if ports[key] {
			delete(ports, key)
		} else {
			ports[key] = true
		}
	}
	return ports
}
