package guards

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// setupExternalIPs adds the reconciler of addresses that Services name, if they are guarded.
func setupExternalIPs(mgr manager.Manager, a access.Access, lost *losses) error {
	if !a.View.ExternalIPs.Guarded {
		return nil
	}
	r := &externalIPReconciler{Access: a, losers: lost.of(guard.ExternalIPs)}
	return builder.ControllerManagedBy(mgr).Named("guard-external-ips").
		Watches(&corev1.Service{}, r.onService()).
		Watches(&v1beta1.EdgeClaim{}, onClaimGone(r.ofClaim)).
		WatchesRawSource(watch.OnPools(a.View, r.everyAddress)).
		Watches(kube.NamespaceObject(), handler.EnqueueRequestsFromMapFunc(r.addressesIn),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(watch.Orderly[reconcile.Request](workers)).
		Complete(watch.Guarded(a.View, a.Kinds, r))
}

// externalIPReconciler looks at all Services that name an address in spec.externalIPs.
type externalIPReconciler struct {
	access.Access
	losers *losers
}

// Reconcile enters into the ledger what Services have at an address by naming it, and tells those who name one that is not theirs.
func (r *externalIPReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ip, err := netip.ParseAddr(req.Name)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	var lost []allocator.ExternalLoss
	entries, err := kube.Decide(ctx, r.View, func(f *kube.Facts) (entries []claim.Entry) {
		entries, lost = allocator.SettleExternal(f, ip, r.Ledger.GraceLeft)
		return entries
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	r.tell(req.NamespacedName, lost)
	again := len(entries) > entriesAtOnce
	entries = entries[:min(len(entries), entriesAtOnce)]
	held, err := enter(entries, claiming(ctx, r.Ledger))
	confirms := false
	for _, loss := range lost {
		if loss.Claimed && err == nil {
			confirms = true
			_, err = r.Ledger.Confirm(ctx, allocator.ExternalClaimant(loss.Service), loss.At)
		}
	}
	switch {
	case again || held: // what was found to be held is somebody's loss by the next look
		return reconcile.Result{RequeueAfter: gather}, err
	case confirms:
		return reconcile.Result{RequeueAfter: confirmEvery}, err
	case slices.ContainsFunc(lost, func(l allocator.ExternalLoss) bool { return l.Listed }): // no claim that goes tells when it may have that
		return reconcile.Result{RequeueAfter: watch.RefusedRetry}, err
	}
	return reconcile.Result{}, err
}

// tell tells those who name an address that is not theirs.
func (r *externalIPReconciler) tell(address types.NamespacedName, lost []allocator.ExternalLoss) {
	losses := make([]loss, 0, len(lost))
	for _, l := range lost {
		of := allocator.ExternalClaimant(l.Service)
		losses = append(losses, loss{of: of, kind: guard.ExternalIPs, reason: l.Reason, text: l.Text, key: l.Key})
	}
	r.losers.tell(r.Events, address, losses, allTold,
		"the nodes forward it all the same, to this Service or to the other: take the address out of spec.externalIPs", "")
}

// onService looks at the addresses that a Service names, or has named, and, where anybody names them, at those where it was served.
func (r *externalIPReconciler) onService() handler.EventHandler {
	look := func(q watch.Queue, services ...client.Object) {
		for _, svc := range services {
			for _, ip := range loadbalancer.ExternalIPs(svc.(*corev1.Service)) {
				if ip.IsValid() {
					q.AddAfter(watch.ForName(ip.String()), gather)
				}
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q watch.Queue) { look(q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			before, after := e.ObjectOld.(*corev1.Service), e.ObjectNew.(*corev1.Service)
			if !sameExternalIPs(before, after) {
				look(q, before, after)
			}
			if !kube.ServesAlike(before, after) {
				r.lookWhereServed(ctx, q, before)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) {
			look(q, e.Object)
			r.lookWhereServed(ctx, q, e.Object.(*corev1.Service))
		},
	}
}

// lookWhereServed looks at the addresses where a Service was served by its status, which may have been without a claim that goes.
func (r *externalIPReconciler) lookWhereServed(ctx context.Context, q watch.Queue, was *corev1.Service) {
	if !r.View.LoadBalancers.IsOurs(was) {
		return
	}
	for _, ip := range loadbalancer.Listed(was.Status.LoadBalancer.Ingress) {
		for _, req := range r.ifNamed(ctx, ip) {
			q.AddAfter(req, gather)
		}
	}
}

// ifNamed asks for a look at an address if anybody names it.
func (r *externalIPReconciler) ifNamed(ctx context.Context, ip netip.Addr) []reconcile.Request {
	if naming, err := r.View.ExternalIPs.Naming(ctx, ip); err == nil && len(naming) == 0 {
		return nil
	}
	return []reconcile.Request{watch.ForName(ip.String())}
}

func sameExternalIPs(a, b *corev1.Service) bool {
	isPort := func(x, y corev1.ServicePort) bool { return x.Protocol == y.Protocol && x.Port == y.Port }
	return a.UID == b.UID && slices.Equal(a.Spec.ExternalIPs, b.Spec.ExternalIPs) && slices.EqualFunc(a.Spec.Ports, b.Spec.Ports, isPort) &&
		(len(a.Spec.ExternalIPs) == 0 || maps.Equal(a.Labels, b.Labels))
}

// ofClaim asks for a look at the address of a claim that is gone, where anybody names it.
func (r *externalIPReconciler) ofClaim(ctx context.Context, _ *v1beta1.EdgeClaim, at claim.Coordinate) []reconcile.Request {
	if !at.IsAddress() {
		return nil
	}
	return r.ifNamed(ctx, at.Address())
}

// everyAddress asks for a look at all addresses that Services name.
func (r *externalIPReconciler) everyAddress(ctx context.Context) (requests []reconcile.Request) {
	named, err := r.View.ExternalIPs.Named(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the Services that name addresses")
	}
	for ip := range named {
		requests = append(requests, watch.ForName(ip.String()))
	}
	return requests
}

// addressesIn asks for a look at all addresses, as pools may give others to a namespace whose labels have changed.
func (r *externalIPReconciler) addressesIn(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.everyAddress(ctx)
}
