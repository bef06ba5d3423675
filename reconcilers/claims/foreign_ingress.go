package claims

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/exposure"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// foreignIngressReconciler enters into the ledger what Ingresses serve, but for those that serve just what the annotation of
// the Service of their name asks for: that is the Service's to claim. So one rule covers every conflict. What is marked on
// an Ingress does not matter, nor whether it is being deleted: the proxy serves it. Of one with very many paths it enters
// the hosts, those paths that others list, too, and those on hosts that others have. It never writes to them.
type foreignIngressReconciler struct {
	access.Access
}

func setupForeignIngress(mgr manager.Manager, b access.Access) error {
	r := &foreignIngressReconciler{Access: b}
	const name, workers = "foreigningress", 4
	return builder.TypedControllerManagedBy[claimRequest](mgr).Named(name).
		Watches(&networkingv1.Ingress{}, onHolder(claim.IngressHolder, servingChanged())).
		Watches(&v1beta1.EdgeClaim{}, r.onClaimGone()).
		WithOptions(watch.Fairly(workers, turnOf)).
		WithLogConstructor(logOfHolder(mgr, name)).
		Complete(watch.Guarded(b.View, b.Kinds, r))
}

// entriesAtOnce is how many points of an Ingress are entered before it is another one's turn: as many as one has by default that
// does not have many paths.
const entriesAtOnce = 64

// entriesShown is how long the cache may take to show what was entered. What it does not show is entered again, for nothing.
const entriesShown = 100 * time.Millisecond

// Reconcile claims what one Ingress serves and nobody holds, for the first of those that serve it: the next one holds it
// when the first is gone.
func (r *foreignIngressReconciler) Reconcile(ctx context.Context, req claimRequest) (reconcile.Result, error) {
	ing, err := r.View.Ingresses.Get(ctx, req.Holder.Key())
	if err != nil || ing == nil {
		return reconcile.Result{}, err
	}
	svc, err := r.View.Service(ctx, req.Holder.Key())
	if err != nil {
		return reconcile.Result{}, err
	}
	defaults, err := r.View.Ingresses.DefaultsBeside(ctx, ing)
	if err != nil || exposure.IsRequested(ing, svc, defaults) {
		return reconcile.Result{}, err
	}
	entries := exposure.EntriesOf(ing, r.View.Ingresses.MaxHTTPPoints)
	beside, err := r.besideOthers(ctx, ing, entries)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.enter(ctx, ing, entries, beside)
}

// enter claims what an Ingress serves and nobody holds: points at which it may find that another was first, and those of which it has
// claims only if it was itself.
func (r *foreignIngressReconciler) enter(
	ctx context.Context, ing *networkingv1.Ingress, points, own []claim.Coordinate,
) (result reconcile.Result, err error) {
	entered := 0
	for i, at := range slices.Concat(points, own) {
		c, err := r.View.Claim(ctx, at.Name())
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case c != nil:
			continue
		case entered == entriesAtOnce:
			return reconcile.Result{RequeueAfter: entriesShown}, nil
		}
		first, err := r.first(ctx, ing, at)
		if err != nil {
			return reconcile.Result{}, err
		}
		kept, err := r.View.Ingresses.KeepsFrom(ctx, at, client.ObjectKeyFromObject(first))
		if err != nil {
			return reconcile.Result{}, err
		}
		if kept { // by a claim of an earlier version: to try it would be for nothing
			result.RequeueAfter = cmp.Or(result.RequeueAfter, olderReplicasStay)
			continue
		}
		holder := holderOfIngress(first)
		if i >= len(points) && holder != holderOfIngress(ing) { // which has it by its host
			continue
		}
		entered++
		_, err = r.Ledger.Claim(ctx, claim.Claimant{Holder: holder, UID: first.UID, Generation: first.Generation}, nil, at)
		switch {
		case claim.IsHeld(err) && at.IsHost():
			result.RequeueAfter = entriesShown // to enter what it serves there
		case err != nil && !claim.IsHeld(err):
			return reconcile.Result{}, fmt.Errorf("entering %s of Ingress %s/%s: %w", at.Point(), ing.Namespace, ing.Name, err)
		}
	}
	return result, nil
}

// besideOthers are the paths that an Ingress of which the ledger has the hosts lists on those that another one has. Without claims
// on them, whoever has the host would seem to have been the first there with whatever it lists later.
func (r *foreignIngressReconciler) besideOthers(
	ctx context.Context, ing *networkingv1.Ingress, entries []claim.Coordinate,
) ([]claim.Coordinate, error) {
	others := map[string]bool{}
	for _, at := range entries {
		if !at.IsHost() {
			return nil, nil
		}
		c, err := r.View.Claim(ctx, at.Name())
		if err != nil {
			return nil, err
		}
		others[at.Host()] = c != nil && claim.HolderOf(c) != holderOfIngress(ing)
	}
	return slices.DeleteFunc(exposure.PointsOf(ing), func(at claim.Coordinate) bool { return !others[at.Host()] }), nil
}

// first finds who of those that serve a point, which nobody holds, was there before the others. Of an Ingress with many paths
// the ledger has had the host since before ing came, which lists one of them. When an Ingress was created does not count, as
// nobody knows when it began to serve the path; only of several large ones that the ledger does not know it takes the oldest.
func (r *foreignIngressReconciler) first(
	ctx context.Context, ing *networkingv1.Ingress, at claim.Coordinate,
) (*networkingv1.Ingress, error) {
	if at.IsHost() {
		return ing, nil
	}
	host := claim.HostOf(at)
	large, err := r.View.Ingresses.EnteredAt(ctx, host)
	if err != nil {
		return nil, err
	}
	large = slices.DeleteFunc(large, func(l networkingv1.Ingress) bool { return !exposure.Serves(&l, at) })
	if len(large) == 0 {
		return ing, nil
	}
	if had, err := r.hadBefore(ctx, at, append([]networkingv1.Ingress{*ing}, large...)); err != nil || had != nil {
		return had, err
	}
	onHost, err := r.View.Claim(ctx, host.Name())
	if err == nil && onHost == nil { // by which an earlier version has entered it
		onHost, err = r.View.Claim(ctx, host.ServedBy("").Name())
	}
	if err != nil {
		return nil, err
	}
	hasHost := func(i networkingv1.Ingress) bool {
		return onHost != nil && claim.HolderOf(onHost) == holderOfIngress(&i)
	}
	if hasHost(*ing) { // it had many paths itself
		return ing, nil
	}
	if i := slices.IndexFunc(large, hasHost); i >= 0 {
		return &large[i], nil
	}
	oldest := slices.MinFunc(large, func(a, b networkingv1.Ingress) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return &oldest, nil
}

// hadBefore is which of some Ingresses has a path of a class by a claim of an earlier version, which is of no class; nil for none.
func (r *foreignIngressReconciler) hadBefore(
	ctx context.Context, at claim.Coordinate, some []networkingv1.Ingress,
) (*networkingv1.Ingress, error) {
	held, err := r.View.Claim(ctx, at.ServedBy("").Name())
	if err != nil || held == nil || at.IngressClass() == "" {
		return nil, err
	}
	if i := slices.IndexFunc(some, func(ing networkingv1.Ingress) bool { return claim.HolderOf(held) == holderOfIngress(&ing) }); i >= 0 {
		return &some[i], nil
	}
	return nil, nil
}

func holderOfIngress(ing *networkingv1.Ingress) claim.Holder {
	return claim.IngressHolder(ing.Namespace, ing.Name)
}

// onClaimGone looks at the Ingresses that serve a point whose claim is gone.
func (r *foreignIngressReconciler) onClaimGone() handler.TypedEventHandler[client.Object, claimRequest] {
	return handler.TypedFuncs[client.Object, claimRequest]{DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) {
		at, err := claim.Of(e.Object.(*v1beta1.EdgeClaim))
		if err != nil || !at.IsHTTP() {
			return
		}
		serving, err := r.View.Ingresses.At(ctx, at)
		if err == nil && at.IngressClass() == "" { // which kept those of any class from it
			serving, err = r.View.Ingresses.Around(ctx, at)
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "could not list the Ingresses that serve a path", "point", at.Point())
		}
		for i := range serving {
			q.Add(claimRequest{Holder: holderOfIngress(&serving[i])})
		}
	}}
}

// servingChanged leaves out changes of an Ingress that are not of its spec, or of its class. The rules are not compared: to find that
// thousands of paths are the same takes longer than to look at the Ingress once more.
func servingChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*networkingv1.Ingress), e.ObjectNew.(*networkingv1.Ingress)
		return before.Generation != after.Generation || before.UID != after.UID ||
			exposure.MadeFor(before) != exposure.MadeFor(after) || exposure.ClassOf(before) != exposure.ClassOf(after)
	}}
}
