package ingresses

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
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// requestChanged leaves out Services that request nothing, and changes of those that do which concern no Ingress.
func requestChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return requestsIngress(e.Object.(*corev1.Service)) },
		DeleteFunc: func(e event.DeleteEvent) bool { return requestsIngress(e.Object.(*corev1.Service)) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Service), e.ObjectNew.(*corev1.Service)
			return requestsIngress(before) != requestsIngress(after) || requestsIngress(after) && concernsIngress(before, after)
		},
	}
}

func concernsIngress(before, after *corev1.Service) bool {
	was, _ := exposure.Annotation(before)
	value, _ := exposure.Annotation(after)
	return value != was || handsOverTo(before) != handsOverTo(after) ||
		before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!equality.Semantic.DeepEqual(before.Spec.Ports, after.Spec.Ports)
}

func handsOverTo(obj client.Object) string { return obj.GetAnnotations()[v1beta1.AnnotationHandOverTo] }

// heirChanged leaves only Services with an Ingress that come to hand over what they hold, or come to do so to another.
func heirChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // by then nobody has asked in vain
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return requestsIngress(e.ObjectNew.(*corev1.Service)) && handsOverTo(e.ObjectOld) != handsOverTo(e.ObjectNew)
		},
	}
}

// heirOf finds the Service to which another one hands over what it holds: it may have asked for that in vain. Anybody can name any Service,
// and a look at one that asks for nothing takes away what it has: only one that asks is looked at, which one that comes is by itself.
func (r *ingressReconciler) heirOf(ctx context.Context, obj client.Object) []reconcile.Request {
	heir, named := claim.NamedHeir(obj)
	if !named {
		return nil
	}
	svc, err := r.View.Service(ctx, heir)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not look for the Service to which another one hands over", "heir", heir)
	}
	if svc == nil || !requestsIngress(svc) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: heir}}
}

// serviceOfName finds the Service of the name of an Ingress or Certificate: it may own it, or want its name.
func (r *ingressReconciler) serviceOfName(ctx context.Context, obj client.Object) []reconcile.Request {
	key := client.ObjectKeyFromObject(obj)
	if exposure.MadeFor(obj) == "" {
		if svc, err := r.View.Service(ctx, key); err == nil && (svc == nil || !requestsIngress(svc)) {
			return nil
		}
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// onHTTPClaim looks at the Services that ask for a path, or for a host name, of which a claim goes, or becomes somebody else's.
func (r *ingressReconciler) onHTTPClaim() handler.EventHandler {
	look := func(ctx context.Context, q watch.Queue, obj client.Object) {
		at, err := claim.Of(obj.(*v1beta1.EdgeClaim))
		if err == nil && at.IsHostname() { // which is under that name among what they ask for
			at = claim.Host(at.Host())
		}
		if err != nil || !at.IsHTTP() {
			return
		}
		services, err := r.View.Ingresses.AskingFor(ctx, at)
		if err != nil {
			log.FromContext(ctx).Error(err, "could not list the Services that ask for a path", "point", at.Point())
		}
		for i := range services {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&services[i])})
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			if claim.HolderOf(e.ObjectOld.(*v1beta1.EdgeClaim)) != claim.HolderOf(e.ObjectNew.(*v1beta1.EdgeClaim)) {
				look(ctx, q, e.ObjectNew)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) { look(ctx, q, e.Object) },
	}
}

// certManagerCame finds every Service that asks for an Ingress: any of them may have waited for cert-manager.
func (r *ingressReconciler) certManagerCame(ctx context.Context) []reconcile.Request {
	r.View.Ingresses.CertManagerCame()
	return r.allExposed(ctx)
}

// allExposed finds every Service that asks for an Ingress.
func (r *ingressReconciler) allExposed(ctx context.Context) []reconcile.Request {
	return r.exposedIn(ctx, "")
}

// selected finds the Services of a namespace that ask for an Ingress: HostPolicies select it by its labels.
func (r *ingressReconciler) selected(ctx context.Context, namespace client.Object) []reconcile.Request {
	if r.View.Hosts.Policies().IsEmpty() {
		return nil
	}
	return r.exposedIn(ctx, namespace.GetName())
}

func (r *ingressReconciler) exposedIn(ctx context.Context, namespace string) []reconcile.Request {
	services, err := r.View.Ingresses.Exposed(ctx, namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the Services that ask for an Ingress")
	}
	requests := make([]reconcile.Request, 0, len(services))
	for i := range services {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&services[i])})
	}
	return requests
}
