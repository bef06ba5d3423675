package reconcilers

import (
	"context"
	"errors"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/rules"
)

// foreignIngressReconciler enters into the ledger what Ingresses serve, but for those that serve just what the annotation of
// the Service of their name asks for: that is the Service's to claim. So one rule covers every conflict. What is marked on
// an Ingress does not matter, nor whether it is being deleted: the proxy serves it. Of one with very many paths it enters
// the hosts. It never writes to them.
type foreignIngressReconciler struct {
	base
}

func setupForeignIngress(mgr manager.Manager, b base) error {
	r := &foreignIngressReconciler{base: b}
	return builder.ControllerManagedBy(mgr).Named("foreigningress").
		For(&networkingv1.Ingress{}, builder.WithPredicates(servingChanged())).
		Watches(&v1beta1.EdgeClaim{}, r.onClaimGone()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: backOff[reconcile.Request]()}).
		Complete(guarded(b, r))
}

// Reconcile claims what one Ingress serves and nobody holds. Several may serve one point: the first holds it, and the
// next one does when the first is gone.
func (r *foreignIngressReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ing, err := r.view.Ingress(ctx, req.NamespacedName)
	if err != nil || ing == nil {
		return reconcile.Result{}, err
	}
	svc, err := r.view.Service(ctx, req.NamespacedName)
	if err != nil || rules.IsAsked(r.view, svc, ing) {
		return reconcile.Result{}, err
	}
	by := claim.Claimant{Holder: claim.IngressHolder(ing.Namespace, ing.Name), UID: ing.UID, Generation: ing.Generation}
	for _, at := range exposure.EntriesOf(ing, r.view.MaxHTTPPoints()) {
		if c, err := r.view.Claim(ctx, at.Name()); err != nil || c != nil {
			if err != nil {
				return reconcile.Result{}, err
			}
			continue
		}
		_, err := r.ledger.Claim(ctx, at, by, nil)
		var held *claim.HeldError
		if err != nil && !errors.As(err, &held) {
			return reconcile.Result{}, fmt.Errorf("entering %s of Ingress %s: %w", at.Point(), req.NamespacedName, err)
		}
	}
	return reconcile.Result{}, nil
}

// onClaimGone looks at the Ingresses that serve a point whose claim is gone.
func (r *foreignIngressReconciler) onClaimGone() handler.EventHandler {
	return handler.Funcs{DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
		at, err := claim.Of(e.Object.(*v1beta1.EdgeClaim))
		if err != nil || !at.IsHTTP() {
			return
		}
		serving, err := r.view.IngressesAt(ctx, at)
		if err != nil {
			log.FromContext(ctx).Error(err, "could not list the Ingresses that serve a path", "point", at.Point())
		}
		for i := range serving {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&serving[i])})
		}
	}}
}
