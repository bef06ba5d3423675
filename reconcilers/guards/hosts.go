package guards

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
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
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// setupHosts adds the reconciler of host names. It is for ingress/http in any case, and for all that is guarded.
func setupHosts(mgr manager.Manager, a access.Access, lost *losses) error {
	kinds := append(a.View.Hosts.Guarded.Among(guard.Hosts()...), hostname.Exposed)
	r := &hostReconciler{Access: a, losers: lost.of(kinds...)}
	b := builder.ControllerManagedBy(mgr).Named("guard-hosts").
		Watches(&corev1.Service{}, r.onUser()).
		Watches(&networkingv1.Ingress{}, r.onUser()).
		Watches(&v1beta1.EdgeClaim{}, r.onClaim()).
		WatchesRawSource(watch.OnHostPolicies(a.View, r.everyHost)).
		Watches(kube.NamespaceObject(), handler.EnqueueRequestsFromMapFunc(r.hostsIn),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{}))
	if len(a.View.Hosts.GuardedRoutes()) > 0 {
		b = b.WatchesRawSource(watch.OnGateways(mgr, a.View, &gatewayv1.Gateway{}, r.onParent(), watch.Nobody)).
			WatchesRawSource(watch.OnGateways(mgr, a.View, &gatewayv1.ListenerSet{}, r.onParent(), watch.Nobody))
	}
	for _, kind := range a.View.Hosts.GuardedRoutes() {
		b = b.WatchesRawSource(watch.OnGateways(mgr, a.View, kind, r.onUser(), r.everyHost))
	}
	return b.WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: watch.BackOff[reconcile.Request]()}).
		Complete(watch.Guarded(a.View, a.Kinds, r))
}

// hostReconciler looks at all objects that use a host name.
type hostReconciler struct {
	access.Access
	losers *losers
}

// Reconcile enters into the ledger whose a host name is, where a policy gives names to namespaces, and tells those who use one that is
// another's.
func (r *hostReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var lost []hostname.Loss
	entry, err := kube.Decide(ctx, r.View, func(f *kube.Facts) (enter *claim.Entry) {
		enter, lost = hostname.Settle(f, req.Name)
		return enter
	})
	switch {
	case kube.IsUnread(err):
		return reconcile.Result{RequeueAfter: gather}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	r.tell(req.NamespacedName, lost)
	if entry == nil {
		return reconcile.Result{}, nil
	}
	held, err := enter([]claim.Entry{*entry}, func(e claim.Entry) error {
		_, err := r.Ledger.Claim(ctx, e.By, nil, e.At)
		return err
	})
	if held { // what was found to be held is somebody's loss by the next look
		return reconcile.Result{RequeueAfter: gather}, err
	}
	return reconcile.Result{}, err
}

// tell tells those who use a host name that is another's, by an event about their object.
func (r *hostReconciler) tell(host types.NamespacedName, lost []hostname.Loss) {
	now, who := map[types.UID]told{}, map[types.UID]hostname.User{}
	for _, loss := range lost {
		now[loss.User.UID], who[loss.User.UID] = told{text: loss.String(), key: loss.Key(), points: 1, kind: loss.Name.Kind}, loss.User
	}
	for _, uid := range r.losers.are(host, now) {
		user := who[uid]
		about := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: user.Namespace, Name: user.Name, UID: uid}}
		about.SetGroupVersionKind(schema.GroupVersionKind{Group: user.Group, Version: "v1", Kind: user.Kind})
		text := now[uid].text + "; what serves the name serves both, or one of the two: use a name that nobody has"
		report.Emit(r.Events, about, nil, corev1.EventTypeWarning, v1beta1.ReasonHostConflict, "Guard", text)
	}
}

// onUser looks at the host names that an object uses, or has used. A route that says none has those of what it attaches to.
func (r *hostReconciler) onUser() handler.EventHandler {
	look := func(ctx context.Context, q watch.Queue, objs ...client.Object) {
		if !r.View.Hosts.Policies().Owns() {
			return
		}
		for _, obj := range objs {
			user, err := r.View.Hosts.Names(ctx, obj, r.View.Gateways.Parent)
			if err != nil {
				log.FromContext(ctx).V(1).Info("could not read the host names of a route", "error", err.Error())
			}
			for _, n := range user.Names {
				q.AddAfter(watch.ForName(n.Host), gather)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q watch.Queue) { look(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			if before, now := e.ObjectOld, e.ObjectNew; before.GetUID() != now.GetUID() || !r.isSame(before, now) {
				look(ctx, q, before, now)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) { look(ctx, q, e.Object) },
	}
}

// isSame says whether two versions of an object use the same host names.
func (r *hostReconciler) isSame(before, now client.Object) bool {
	was, _ := hostname.Of(before, r.View.Ingresses.Defaults)
	is, _ := hostname.Of(now, r.View.Ingresses.Defaults)
	return slices.EqualFunc(was.Names, is.Names, func(a, b hostname.Name) bool { return a.Host == b.Host && a.Kind == b.Kind }) &&
		(!is.IsRoute() || before.GetGeneration() == now.GetGeneration())
}

// onParent looks at the host names of the listeners of a Gateway or a ListenerSet that has changed: routes may take them over from there.
func (r *hostReconciler) onParent() handler.EventHandler {
	look := func(q watch.Queue, objs ...client.Object) {
		if !r.View.Hosts.Policies().Owns() {
			return
		}
		for _, obj := range objs {
			for _, host := range guard.HostsOf(obj) {
				q.AddAfter(watch.ForName(host), gather)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q watch.Queue) { look(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q watch.Queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
				look(q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q watch.Queue) { look(q, e.Object) },
	}
}

// onClaim looks at a host name of which the claim is gone, or somebody else's, and at those that somebody uses in vain, which may have
// overlapped with it.
func (r *hostReconciler) onClaim() handler.EventHandler {
	look := func(obj client.Object, q watch.Queue) {
		at, err := claim.Of(obj.(*v1beta1.EdgeClaim))
		if err != nil || !at.IsHostname() {
			return
		}
		q.AddAfter(watch.ForName(at.Host()), gather)
		for _, host := range r.losers.places() {
			q.AddAfter(reconcile.Request{NamespacedName: host}, gather)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q watch.Queue) {
			if claim.HolderOf(e.ObjectOld.(*v1beta1.EdgeClaim)) != claim.HolderOf(e.ObjectNew.(*v1beta1.EdgeClaim)) {
				look(e.ObjectNew, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q watch.Queue) { look(e.Object, q) },
	}
}

// everyHost asks for a look at all host names that are judged.
func (r *hostReconciler) everyHost(ctx context.Context) []reconcile.Request {
	return r.judgedIn(ctx, "")
}

// hostsIn asks for a look at the host names that are judged in a namespace: policies select it by its labels.
func (r *hostReconciler) hostsIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	return r.judgedIn(ctx, namespace.GetName())
}

func (r *hostReconciler) judgedIn(ctx context.Context, namespace string) (requests []reconcile.Request) {
	if !r.View.Hosts.Policies().Owns() && !r.losers.any() {
		return nil
	}
	hosts, err := r.View.Hosts.Judged(ctx, namespace)
	if err != nil {
		log.FromContext(ctx).V(1).Info("could not list all host names", "error", err.Error()) // those yet to be read are looked at then
	}
	for _, host := range hosts {
		requests = append(requests, watch.ForName(host))
	}
	return requests
}
