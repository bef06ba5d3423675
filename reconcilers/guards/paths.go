package guards

import (
	"context"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// setupPaths adds the reconciler of the hosts and paths of Ingresses, if these are guarded.
func setupPaths(mgr manager.Manager, a access.Access, lost *losses) error {
	if !a.View.Hosts.Guarded.Guards(guard.Ingress) {
		return nil
	}
	r := &pathReconciler{Access: a, losers: lost.of(guard.Ingress)}
	return builder.ControllerManagedBy(mgr).Named("guard-paths").
		For(&networkingv1.Ingress{}).
		Watches(&v1beta1.EdgeClaim{}, handler.EnqueueRequestsFromMapFunc(r.serving)).
		Watches(&networkingv1.Ingress{}, handler.EnqueueRequestsFromMapFunc(heirOf), builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WatchesRawSource(watch.OnHostPolicies(a.View, r.all)).
		WatchesRawSource(watch.OnHeirsKnown(a.View, r.heirs)).
		WithOptions(watch.Fairly(workers, func(req reconcile.Request) string { return req.Namespace })).
		Complete(watch.Guarded(a.View, a.Kinds, r))
}

// pathReconciler looks at what an Ingress serves though another namespace has it, and takes over what others hand over to it. What nobody
// has is entered by the reconcilers of claims.
type pathReconciler struct {
	access.Access
	losers *losers
}

// Reconcile takes over what an Ingress serves and others hand over to it, and tells it which of its paths are another namespace's.
func (r *pathReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ing, err := r.View.Ingresses.Get(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if ing == nil {
		r.losers.are(req.NamespacedName, nil)
		return reconcile.Result{}, nil
	}
	again, err := r.takeOver(ctx, ing)
	if err != nil {
		return reconcile.Result{}, err
	}
	lost, err := kube.Decide(ctx, r.View, func(f *kube.Facts) []exposure.PathLoss {
		return exposure.PathsLost(f, ing, r.isOwned)
	})
	if err == nil {
		r.tell(ing, lost)
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// isOwned says whether a host is one namespace's with all its paths.
func (r *pathReconciler) isOwned(host string) bool { return r.View.Hosts.Policies().Owner(host) != nil }

// takenAtOnce is how many paths an Ingress takes over before it is another one's turn.
const takenAtOnce = 64

// takeOver claims what others hand over to an Ingress, as it is stored now. It returns when to look again, 0 for never.
func (r *pathReconciler) takeOver(ctx context.Context, ing *networkingv1.Ingress) (again time.Duration, err error) {
	request := exposure.PathRequest{Ingress: ing, IsOwned: r.isOwned}
	handed, err := kube.Decide(ctx, r.View, func(f *kube.Facts) []claim.Coordinate {
		return exposure.HandedTo(f, request, r.Ledger.GraceLeft)
	})
	if err != nil || len(handed) == 0 {
		return 0, err
	}
	stored := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "Ingress"}}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(ing), stored); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if stored.UID != ing.UID || stored.Generation != ing.Generation || stored.DeletionTimestamp != nil {
		return watch.CacheLag, nil
	}
	ledger := r.Ledger.AskingOnce() // mostly one holder has all of them
	for i, at := range handed {
		if i == takenAtOnce {
			return watch.CacheLag, nil
		}
		if _, err := ledger.Claim(ctx, ingressClaimant(ing), nil, at); claim.IgnoreHeld(err) != nil {
			return 0, fmt.Errorf("taking over %s: %w", at.Point(), err)
		}
	}
	return 0, nil
}

// heirOf finds the Ingress to which another one hands over what it holds: it may have asked for that in vain.
func heirOf(_ context.Context, obj client.Object) []reconcile.Request {
	heir, named := claim.NamedHeir(obj)
	if !named {
		return nil
	}
	return []reconcile.Request{{NamespacedName: heir}}
}

// heirs are the Ingresses that others name: they may have asked in vain, while there were replicas that know of no heirs.
func (r *pathReconciler) heirs(ctx context.Context) (requests []reconcile.Request) {
	var list networkingv1.IngressList
	if err := r.View.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "could not list the Ingresses that hand over what they hold")
	}
	for i := range list.Items {
		requests = append(requests, heirOf(ctx, &list.Items[i])...)
	}
	return requests
}

// tell tells it what it has handed over, and what others have besides.
func (r *pathReconciler) tell(ing *networkingv1.Ingress, lost []exposure.PathLoss) {
	losses := make([]loss, 0, len(lost))
	for _, l := range lost {
		losses = append(losses, loss{
			of: ingressClaimant(ing), kind: guard.Ingress, reason: v1beta1.ReasonHostConflict, text: l.String(), key: l.Key(), given: l.Given,
		})
	}
	r.losers.tell(r.Events, client.ObjectKeyFromObject(ing), losses, allTold,
		"the proxy serves one of the two there: choose another host or path",
		"it was handed over, and the proxy serves the older of the two there: delete this Ingress, or take the path out of it")
}

// ingressClaimant is an Ingress that claims what it serves.
func ingressClaimant(ing *networkingv1.Ingress) claim.Claimant {
	return claim.Claimant{Holder: claim.IngressHolder(ing.Namespace, ing.Name), UID: ing.UID, Generation: ing.Generation}
}

// serving are the Ingresses that serve the path of a claim.
func (r *pathReconciler) serving(ctx context.Context, obj client.Object) (requests []reconcile.Request) {
	at, err := claim.Of(obj.(*v1beta1.EdgeClaim))
	if err != nil || !at.IsHTTP() {
		return nil
	}
	serving, err := r.View.Ingresses.At(ctx, at)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the Ingresses that serve a path", "point", at.Point())
	}
	for i := range serving {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&serving[i])})
	}
	return requests
}

// all are those that have lost: policies may give the names of their hosts to one namespace by now.
func (r *pathReconciler) all(context.Context) []reconcile.Request { return r.losers.requests() }
