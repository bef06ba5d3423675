// Package guards enters into the ledger what others listen on at Gateways, which addresses their Services name, and whose host names are,
// and tells those who stand where somebody else has the point. It writes to none of them.
package guards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// Setup adds the reconcilers of what is guarded to the manager.
func Setup(mgr manager.Manager, a access.Access) error {
	lost := &losses{}
	defer registerMetrics(lost)
	return errors.Join(setupListeners(mgr, a, lost), setupRoutes(mgr, a, lost), setupExternalIPs(mgr, a, lost),
		setupHosts(mgr, a, lost), setupPaths(mgr, a, lost), setupHostPolicy(mgr, a))
}

// setupListeners adds the reconciler of Gateways, if listeners are guarded.
func setupListeners(mgr manager.Manager, a access.Access, lost *losses) error {
	if !a.View.Gateways.Guarded.Guards(guard.Listeners()...) {
		return nil
	}
	r := &gatewayReconciler{Access: a, losers: lost.of(guard.Listeners()...)}
	return builder.ControllerManagedBy(mgr).Named("guard").
		WatchesRawSource(watch.OnGateways(mgr, a.View, &gatewayv1.Gateway{}, r.onGateway(), watch.Nobody)).
		WatchesRawSource(watch.OnGateways(mgr, a.View, &gatewayv1.ListenerSet{}, r.onListenerSet(), r.everyGateway)).
		Watches(&v1beta1.EdgeClaim{}, onClaimGone(r.ofClaim)).
		Watches(&v1beta1.StreamIngressClass{}, handler.EnqueueRequestsFromMapFunc(r.gatewaysOfClass),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(kube.NamespaceObject(), handler.EnqueueRequestsFromMapFunc(r.gatewaysThatSelect),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(watch.Fairly(workers, func(req reconcile.Request) string { return req.Namespace })).
		Complete(watch.Guarded(a.View, a.Kinds, r))
}

const (
	workers = 4 // the least that take turns
	// confirmEvery is how often claims that can't be beside each other are looked at, while there are any.
	confirmEvery = 10 * time.Second
)

// gatewayReconciler looks at all who listen on a Gateway.
type gatewayReconciler struct {
	access.Access
	losers *losers
}

// Reconcile enters what stands on a Gateway without a claim, and tells who lost.
func (r *gatewayReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	gateway, err := r.View.Gateways.Gateway(ctx, req.NamespacedName)
	if kube.IsUnread(err) {
		return reconcile.Result{RequeueAfter: gather}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if gateway == nil {
		r.losers.are(req.NamespacedName, nil)
		return reconcile.Result{}, nil
	}
	openers, err := r.View.Gateways.Openers(ctx, gateway)
	if err != nil {
		return reconcile.Result{}, err
	}
	_, classes, err := r.View.Gateways.Reach(ctx, gateway)
	if err != nil {
		return reconcile.Result{}, err
	}
	enter, lost, err := r.settle(ctx, gateway, openers...)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.tell(req.NamespacedName, lost)
	again := len(enter) > entriesAtOnce
	if again {
		enter = enter[:entriesAtOnce]
	}
	held, err := r.enter(ctx, enter, classes)
	if err == nil {
		err = r.confirm(ctx, lost)
	}
	if again || held { // what was found to be held is somebody's loss by the next look
		return reconcile.Result{RequeueAfter: gather}, err
	}
	if slices.ContainsFunc(lost, func(l guard.Loss) bool { return l.Claimed }) {
		return reconcile.Result{RequeueAfter: confirmEvery}, err
	}
	return reconcile.Result{}, err
}

// confirm has those who have claims beside each other give the younger one back, once no admission can count on it.
func (r *gatewayReconciler) confirm(ctx context.Context, lost []guard.Loss) error {
	for _, loss := range lost {
		if !loss.Claimed {
			continue
		}
		if _, err := r.Ledger.Confirm(ctx, loss.Opener.Claimant, loss.At); err != nil {
			return fmt.Errorf("confirming %s for %s: %w", loss.At, loss.Opener.Holder, err)
		}
	}
	return nil
}

// settle has the rules look at those who listen on a Gateway.
func (r *gatewayReconciler) settle(
	ctx context.Context, gateway *gatewayv1.Gateway, openers ...guard.Opener,
) (enter []claim.Entry, lost []guard.Loss, err error) {
	scopes, classes, err := r.View.Gateways.Reach(ctx, gateway)
	if err != nil {
		return nil, nil, err
	}
	_, err = kube.Decide(ctx, r.View, func(f *kube.Facts) struct{} {
		enter, lost = guard.Settle(f, openers, scopes, classes)
		return struct{}{}
	})
	return enter, lost, err
}

// enter claims points for those who have them. held says that somebody else was faster.
func (r *gatewayReconciler) enter(
	ctx context.Context, entries []claim.Entry, classes []*v1beta1.StreamIngressClass,
) (held bool, err error) {
	return enter(entries, func(e claim.Entry) error { return r.claim(ctx, e, classes) })
}

// claim claims a point at which no stream has the port.
func (r *gatewayReconciler) claim(ctx context.Context, e claim.Entry, classes []*v1beta1.StreamIngressClass) error {
	return r.Ledger.ClaimUnless(ctx, e.By, e.At, func(ctx context.Context) (*v1beta1.EdgeClaim, error) {
		for _, port := range guard.Streams(classes, e.At) {
			found, err := r.Ledger.HeldAt(ctx, port, e.By.Holder, "")
			if err != nil || found != nil && claim.HolderOf(found).IsStream() {
				return found, err
			}
		}
		return nil, nil
	})
}
