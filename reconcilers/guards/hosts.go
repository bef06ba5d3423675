package guards

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/guard"
	"jeffthecoder.xyz/portcullis/internal/hostname"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// setupHosts adds the reconciler of host names. It is for ingress/http in any case, and for all that is guarded.
func setupHosts(mgr manager.Manager, a access.Access, lost *losses) error {
	kinds := append(a.View.Hosts.Guarded.Among(guard.Hosts()...), hostname.Exposed)
	r := &hostReconciler{Access: a, losers: lost.of(kinds...)}
	b := builder.ControllerManagedBy(mgr).Named("guard-hosts").
		Watches(&corev1.Service{}, onChange(r.ofUser, r.differs)).
		Watches(&networkingv1.Ingress{}, onChange(r.ofUser, r.differs)).
		Watches(&v1beta1.EdgeClaim{}, onClaimGone(r.ofClaim)).
		WatchesRawSource(watch.OnHostPolicies(a.View, r.everyHost)).
		WatchesRawSource(watch.OnHeirsKnown(a.View, r.everyHost)).
		Watches(kube.NamespaceObject(), handler.EnqueueRequestsFromMapFunc(r.hostsIn),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{}))
	if len(a.View.Hosts.GuardedRoutes()) > 0 {
		b = b.WatchesRawSource(watch.OnGateways(mgr, a.View, &gatewayv1.Gateway{}, onChange(r.ofParent, hasNewGeneration), r.everyHost)).
			WatchesRawSource(watch.OnGateways(mgr, a.View, &gatewayv1.ListenerSet{}, onChange(r.ofParent, hasNewGeneration), r.everyHost))
	}
	for _, kind := range a.View.Hosts.GuardedRoutes() {
		b = b.WatchesRawSource(watch.OnGateways(mgr, a.View, kind, onChange(r.ofUser, r.differs), r.everyHost))
	}
	return b.WithOptions(watch.Orderly[reconcile.Request](workers)).
		Complete(watch.Guarded(a.View, a.Kinds, r))
}

// hostReconciler looks at all objects that use a host name.
type hostReconciler struct {
	access.Access
	losers *losers
}

// Reconcile enters into the ledger whose a host name is, where a policy gives names to namespaces, and whose its paths on Gateways are
// where none does, and tells those who use one that is another's.
func (r *hostReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	settled, err := r.settle(ctx, req.Name)
	again := false
	if err == nil && settled.Enter != nil {
		again, err = r.enter(ctx, settled.Enter)
	}
	switch {
	case err != nil:
		return unread(err)
	case again != settled.Handed: // what was settled is no longer so
		return reconcile.Result{RequeueAfter: gather}, nil
	}
	lost, next, err := r.reconcilePaths(ctx, req.Name)
	if err != nil {
		return unread(err)
	}
	if next == gather { // until it is known who has what, nobody is told that it is not theirs
		return reconcile.Result{RequeueAfter: gather}, nil
	}
	r.tell(req.NamespacedName, settled.Lost, lost)
	if settled.Waits || again { // and is not handed over yet, after all: see enterAll
		next = confirmEvery
	}
	return reconcile.Result{RequeueAfter: next}, nil
}

// unread has a look come again a moment later if a kind is yet to be read.
func unread(err error) (reconcile.Result, error) {
	if kube.IsUnread(err) {
		return reconcile.Result{RequeueAfter: gather}, nil
	}
	return reconcile.Result{}, err
}

// settle has the rules look at who uses a host name.
func (r *hostReconciler) settle(ctx context.Context, host string) (hostname.Settled, error) {
	return kube.Decide(ctx, r.View, func(f *kube.Facts) hostname.Settled { return hostname.Settle(f, host) })
}

// enter claims a host name for a namespace. again says that somebody else was faster. Where a policy gives a namespace no more than so
// many, it claims the name if it still is that one's when no other is entered for it; again says, too, that it is not.
func (r *hostReconciler) enter(ctx context.Context, e *claim.Entry) (again bool, err error) {
	if !r.View.Hosts.Policies().Limits(e.At.Host()) {
		return enter([]claim.Entry{*e}, claiming(ctx, r.Ledger))
	}
	unlock, err := r.View.Hosts.Entering.Lock(ctx, e.By.Name)
	if err != nil {
		return false, err
	}
	defer unlock()
	now, err := r.settle(ctx, e.At.Host())
	if err != nil || now.Enter == nil || now.Enter.By.Holder != e.By.Holder {
		return err == nil, err
	}
	again, err = enter([]claim.Entry{*now.Enter}, func(e claim.Entry) error { return r.claimWithin(ctx, e) })
	if errors.Is(err, errTooMany) {
		return true, nil
	}
	return again, err
}

// errTooMany says that a namespace has as many names as it may have.
var errTooMany = errors.New("the namespace has as many names as it may have")

// claimWithin claims a name for a namespace, and gives it back if that has more names then than it may have: an admission may have found
// room for another one at the same time. By then the cache shows what was claimed before.
func (r *hostReconciler) claimWithin(ctx context.Context, e claim.Entry) error {
	return r.Ledger.ClaimUnless(ctx, e.By, e.At, func(ctx context.Context) (*v1beta1.EdgeClaim, error) {
		problems, err := kube.Decide(ctx, r.View, func(f *kube.Facts) refusal.Problems {
			return hostname.Limit(f, &hostname.Request{User: hostname.User{Holder: e.By.For}}, []claim.Coordinate{e.At})
		})
		if err == nil && len(problems) > 0 {
			err = errTooMany
		}
		return nil, err
	})
}

// ofUser asks for a look at the host names that an object uses. A route that says none has those of what it attaches to.
func (r *hostReconciler) ofUser(ctx context.Context, obj client.Object) (requests []reconcile.Request) {
	if !r.View.Hosts.Policies().Owns() && !r.View.Hosts.HasPaths(obj) {
		return nil
	}
	user, err := r.View.Hosts.Names(ctx, obj, r.View.Gateways.Parent)
	if err != nil {
		log.FromContext(ctx).V(1).Info("could not read the host names of a route", "error", err.Error())
	}
	for _, n := range user.Names {
		requests = append(requests, watch.ForName(n.Host))
	}
	return requests
}

// differs says whether two versions of an object use other host names, or serve other paths.
func (r *hostReconciler) differs(before, now client.Object) bool {
	was, _ := hostname.Of(before, r.View.Ingresses.Defaults)
	is, _ := hostname.Of(now, r.View.Ingresses.Defaults)
	return was.UID != is.UID || !was.Same(is) || is.IsRoute() && !kube.IsSameRoute(before, now)
}

// ofParent asks for a look at the host names of the listeners of a Gateway or a ListenerSet: routes may take them over from there. So it
// does at those of the routes themselves, whose paths may be served there from now on.
func (r *hostReconciler) ofParent(ctx context.Context, obj client.Object) []reconcile.Request {
	if !r.View.Hosts.Policies().Owns() && !r.View.Hosts.GuardsPaths() {
		return nil
	}
	return forHosts(append(r.View.Hosts.Beneath(ctx, obj), r.View.Hosts.OnParent(ctx, obj)...))
}

func hasNewGeneration(before, now client.Object) bool {
	return before.GetGeneration() != now.GetGeneration()
}

// ofClaim asks for a look at a host name of which the claim, or one on a path, is gone. Of a name it does so at those that somebody uses in
// vain, too, which may have overlapped with it, and at those of the namespace that had it, which may have one more now.
func (r *hostReconciler) ofClaim(ctx context.Context, was *v1beta1.EdgeClaim, at claim.Coordinate) []reconcile.Request {
	if !at.IsHostname() && !at.IsRoutePath() {
		return nil
	}
	requests := forHosts([]string{at.Host()})
	if at.IsRoutePath() {
		return requests
	}
	if r.View.Hosts.Policies().Limits(at.Host()) {
		requests = append(requests, r.judgedIn(ctx, claim.HolderOf(was).Name)...)
	}
	return append(requests, r.losers.requests()...)
}

// everyHost asks for a look at all host names that are judged.
func (r *hostReconciler) everyHost(ctx context.Context) []reconcile.Request {
	return r.judgedIn(ctx, "")
}

// hostsIn asks for a look at the host names of a namespace: policies select it by its labels, and so do listeners and Gateways.
func (r *hostReconciler) hostsIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	requests := r.judgedIn(ctx, namespace.GetName())
	attached := append(r.View.Hosts.OfSetsIn(ctx, namespace.GetName()), r.View.Hosts.OnSetsIn(ctx, namespace.GetName())...)
	requests = append(requests, forHosts(attached)...)
	return append(requests, r.losers.requests()...) // which it may have lost by being selected
}

func (r *hostReconciler) judgedIn(ctx context.Context, namespace string) []reconcile.Request {
	judged := r.View.Hosts.Judged
	if !r.View.Hosts.Policies().Owns() && !r.losers.any() {
		judged = r.View.Hosts.WithPaths
	}
	hosts, err := judged(ctx, namespace)
	if err != nil {
		log.FromContext(ctx).V(1).Info("could not list all host names", "error", err.Error()) // those yet to be read are looked at then
	}
	return forHosts(hosts)
}

func forHosts(hosts []string) []reconcile.Request {
	requests := make([]reconcile.Request, 0, len(hosts))
	for _, host := range hosts {
		requests = append(requests, watch.ForName(host))
	}
	return requests
}
