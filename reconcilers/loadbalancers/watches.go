package loadbalancers

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// settle is how long changes of nodes and of the ledger are gathered before the Services that they concern are looked at.
const settle = 100 * time.Millisecond

// loadBalancerChanged leaves out Services that are no load balancers, and changes of those that are which concern no
// address. All that are there at the start are looked at: another may have served them, or not be ours any longer.
func (r *loadBalancerReconciler) loadBalancerChanged() predicate.Predicate {
	isLoadBalancer := func(o client.Object) bool { return o.(*corev1.Service).Spec.Type == corev1.ServiceTypeLoadBalancer }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return isLoadBalancer(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return isLoadBalancer(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Service), e.ObjectNew.(*corev1.Service)
			return (isLoadBalancer(before) || isLoadBalancer(after)) && concernsAddresses(before, after)
		},
	}
}

func concernsAddresses(before, after *corev1.Service) bool {
	return before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		!equality.Semantic.DeepEqual(before.Status.LoadBalancer, after.Status.LoadBalancer) ||
		!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(before.Labels, after.Labels)
}

// allLoadBalancers finds every Service that is ours to serve. Those that wait have waited for this.
func (r *loadBalancerReconciler) allLoadBalancers(ctx context.Context) []reconcile.Request {
	r.waiting.wakeAll()
	return r.requestsIn(ctx, "")
}

// waitingForClass finds the Services that wait, when a class changes whose proxy is on the nodes, or no longer is: what it reserves
// there may be theirs now.
func (r *loadBalancerReconciler) waitingForClass(_ context.Context, class client.Object) []reconcile.Request {
	if !class.(*v1beta1.StreamIngressClass).OnNodes() {
		return nil
	}
	keys := r.waiting.wake()
	requests := make([]reconcile.Request, 0, len(keys))
	for _, key := range keys {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// loadBalancersIn finds the Services of a namespace that are ours to serve.
func (r *loadBalancerReconciler) loadBalancersIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.requestsIn(ctx, namespace.GetName())
}

func (r *loadBalancerReconciler) requestsIn(ctx context.Context, namespace string) []reconcile.Request {
	services, err := r.View.LoadBalancers.ListOurs(ctx, namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the Services of type LoadBalancer")
	}
	requests := make([]reconcile.Request, 0, len(services))
	for i := range services {
		requests = append(requests, watch.ForObject(&services[i]))
	}
	return requests
}

// onClaim looks at the Service that loses a claim, at the one that it is handed over to, and, when a claim goes, at those that wait.
func (r *loadBalancerReconciler) onClaim() handler.EventHandler {
	isOurs := func(obj client.Object) (claim.Holder, bool) {
		c := obj.(*v1beta1.EdgeClaim)
		at, err := claim.Of(c)
		return claim.HolderOf(c), err == nil && (at.IsAddress() || at.IsNode())
	}
	lost := func(q watch.Queue, obj client.Object) {
		holder, ours := isOurs(obj)
		if !ours {
			return
		}
		q.Add(reconcile.Request{NamespacedName: holder.Key()})
		for _, key := range r.waiting.wake() {
			q.AddAfter(reconcile.Request{NamespacedName: key}, settle)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q watch.Queue) {
			if claim.HolderOf(e.ObjectOld.(*v1beta1.EdgeClaim)) != claim.HolderOf(e.ObjectNew.(*v1beta1.EdgeClaim)) {
				lost(q, e.ObjectOld)
				if heir := claim.HolderOf(e.ObjectNew.(*v1beta1.EdgeClaim)); heir.IsService() {
					q.Add(reconcile.Request{NamespacedName: heir.Key()})
				}
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q watch.Queue) { lost(q, e.Object) },
	}
}

// onListing looks at the Services that wait, when an address is free by no claim that goes: it was a Service's by its status alone. When
// one comes to be listed, it looks at who has handed the address over to it, and when one comes to hand over what it has, at its heir.
func (r *loadBalancerReconciler) onListing() handler.EventHandler {
	look := func(ctx context.Context, before, now client.Object, q watch.Queue) {
		if !r.listingEnds(ctx, before, now) {
			return
		}
		for _, key := range r.waiting.wake() {
			q.AddAfter(reconcile.Request{NamespacedName: key}, settle)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			look(ctx, e.ObjectOld, e.ObjectNew, q)
			before, now := e.ObjectOld.(*corev1.Service), e.ObjectNew.(*corev1.Service)
			r.newlyListed(before, now, q)
			if heir, changed := heirChanged(before, now); changed {
				q.Add(reconcile.Request{NamespacedName: heir})
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) { look(ctx, e.Object, nil, q) },
	}
}

// listingEnds says whether a Service, which is gone if now is nil, is no longer served at an address of which it holds nothing.
func (r *loadBalancerReconciler) listingEnds(ctx context.Context, before, now client.Object) bool {
	was := before.(*corev1.Service)
	if !r.View.LoadBalancers.IsOurs(was) {
		return false
	}
	var next []corev1.LoadBalancerIngress
	if is, there := now.(*corev1.Service); there && r.View.LoadBalancers.IsOurs(is) {
		next = is.Status.LoadBalancer.Ingress
	}
	gone := goneFrom(was.Status.LoadBalancer.Ingress, next)
	if len(gone) == 0 {
		return false
	}
	held, err := r.View.Claims.Held(ctx, claim.ServiceHolder(was.Namespace, was.Name))
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list what a Service holds")
	}
	return !loadbalancer.Backs(held, gone)
}

// onNode looks at the Services that are served by nodes, when a node comes, goes, or takes traffic or no longer does.
func (r *loadBalancerReconciler) onNode() handler.EventHandler {
	look := func(ctx context.Context, q watch.Queue) {
		claims, err := r.View.Claims.OnNodePorts(ctx)
		if err != nil {
			log.FromContext(ctx).Error(err, "could not list the Services that have ports of the nodes")
		}
		keys := sets.New(r.waiting.wakeAll()...)
		for _, c := range claims {
			keys.Insert(claim.HolderOf(c).Key())
		}
		for key := range keys {
			q.AddAfter(reconcile.Request{NamespacedName: key}, settle)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q watch.Queue) {
			if !e.IsInInitialList {
				look(ctx, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if kube.TakesTraffic(before) != kube.TakesTraffic(after) ||
				!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
				!equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses) {
				look(ctx, q)
			}
		},
		DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, q watch.Queue) { look(ctx, q) },
	}
}

// serviceOfSlice finds the Service of an EndpointSlice, if it is one whose traffic stays on the node that it reaches.
func (r *loadBalancerReconciler) serviceOfSlice(ctx context.Context, slice client.Object) []reconcile.Request {
	key := types.NamespacedName{Namespace: slice.GetNamespace(), Name: slice.GetLabels()[discoveryv1.LabelServiceName]}
	svc, err := r.View.Service(ctx, key)
	if err != nil || svc == nil || !r.View.LoadBalancers.IsOurs(svc) ||
		svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}
