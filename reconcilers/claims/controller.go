package claims

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// claimReconciler releases claims whose holder is gone or wants another point.
type claimReconciler struct {
	access.Access
	// services locks each Service of type LoadBalancer, and ports each port of a class without a proxy.
	services *kube.KeyMutex[types.NamespacedName]
	ports    *kube.KeyMutex[claim.Coordinate]
	// writes are those of claims that are in flight.
	writes *semaphore.Weighted
}

// Options are what the reconcilers of claims work with besides their access.
type Options struct {
	// Services locks each Service of type LoadBalancer: what one holds is not released while it is looked at.
	Services *kube.KeyMutex[types.NamespacedName]
	// Ports locks each port of a class without a proxy: no claim on one that is being opened is released.
	Ports *kube.KeyMutex[claim.Coordinate]
	// AuditInterval is the least time between two comparisons of the ledger with the cluster, 0 for none at all.
	AuditInterval time.Duration
}

func newClaimReconciler(b access.Access, o Options) *claimReconciler {
	return &claimReconciler{b, o.Services, o.Ports, semaphore.NewWeighted(releaseWrites)}
}

func setupClaim(mgr manager.Manager, b access.Access, o Options) error {
	r := newClaimReconciler(b, o)
	const name = "edgeclaim"
	controller := builder.TypedControllerManagedBy[claimRequest](mgr).Named(name)
	for _, kind := range b.View.Gateways.GuardedRoutes() {
		controller = controller.WatchesRawSource(onGateways(mgr, b, kind, onHolder(ofRoute(kind), predicate.Funcs{})))
	}
	if len(b.View.Gateways.GuardedRoutes()) > 0 {
		controller = controller.WatchesRawSource(onGateways(mgr, b, &gatewayv1.Gateway{}, r.onRouteParent())).
			WatchesRawSource(onGateways(mgr, b, &gatewayv1.ListenerSet{}, r.onRouteParent()))
	}
	if len(b.View.Hosts.GuardedRoutes()) > 0 {
		controller = controller.WatchesRawSource(onGateways(mgr, b, &gatewayv1.Gateway{}, r.onHostParent())).
			WatchesRawSource(onGateways(mgr, b, &gatewayv1.ListenerSet{}, r.onHostParent()))
	}
	for _, kind := range b.View.Hosts.GuardedRoutes() {
		controller = controller.WatchesRawSource(onGateways(mgr, b, kind, r.onHostUser()))
	}
	return controller.
		Watches(&corev1.Service{}, r.onHostUser()).
		Watches(&networkingv1.Ingress{}, r.onHostUser()).
		WatchesRawSource(watch.OnHostPolicies(b.View, r.onHostPolicies)).
		Watches(&v1beta1.EdgeClaim{}, r.onClaim()).
		Watches(&v1beta1.StreamIngress{}, r.onStream()).
		Watches(&v1beta1.StreamIngressClass{}, r.onClass()).
		WatchesRawSource(watch.OnTarget[*corev1.ConfigMap](b.View, r.onConfigMap())).
		Watches(&corev1.Service{}, onHolder(claim.ServiceHolder, predicate.Funcs{})).
		Watches(&corev1.Service{}, r.onForwarded()).
		// Of what classes name, a look shows what these watches have shown, not what that of all Services has.
		WatchesRawSource(watch.OnTarget[*corev1.Service](b.View, onHolder(claim.ServiceHolder, predicate.Funcs{}))).
		Watches(&networkingv1.Ingress{}, r.onIngress()).
		WatchesRawSource(onGateways(mgr, b, &gatewayv1.Gateway{}, r.onGateway())).
		WatchesRawSource(onGateways(mgr, b, &gatewayv1.ListenerSet{}, onHolder(claim.ListenerSetHolder, predicate.Funcs{}))).
		WatchesRawSource(onGateways(mgr, b, &gatewayv1.ListenerSet{}, r.onListenerSet())).
		WatchesRawSource(onGateways(mgr, b, &gatewayv1.TCPRoute{}, r.onRoute())).
		WatchesRawSource(onGateways(mgr, b, &gatewayv1.UDPRoute{}, r.onRoute())).
		Watches(kube.NamespaceObject(), handler.TypedEnqueueRequestsFromMapFunc(r.attachedIn),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(watch.Fairly(releasers, turnOf)).
		WithLogConstructor(logOfHolder(mgr, name)).
		Complete(watch.Guarded(b.View, b.Kinds, r))
}

// settling is how long a new claim is left alone: its holder is about to be stored, and then nothing has to be done.
const settling = 5 * time.Second

const (
	// releasers is how many workers there are.
	releasers = 16
	// releasesAtOnce is how many claims of one holder are released at a time.
	releasesAtOnce = 8
	// releaseWrites is how many claims are released at a time, of all holders. To the priority and fairness of the API server, all
	// that Portcullis asks for is one flow: what it programs meanwhile waits behind no more than these.
	releaseWrites = 16
)

// Reconcile releases those claims of a holder that are to be released. Addresses are given and taken away by one worker at a
// time, and only claims on them wait for that lock.
func (r *claimReconciler) Reconcile(ctx context.Context, req claimRequest) (reconcile.Result, error) {
	if !req.At.IsZero() {
		return r.reconcilePoint(ctx, req)
	}
	addresses, others, err := r.claimsOf(ctx, req.Holder)
	if err != nil {
		return reconcile.Result{}, err
	}
	inherits, err := r.inherit(ctx, req)
	if err != nil {
		return reconcile.Result{}, err
	}
	again, err := r.release(ctx, req, others)
	again = watch.Soonest(again, inherits)
	if len(addresses) > 0 {
		next, errAddresses := r.releaseAddresses(ctx, req)
		again, err = watch.Soonest(again, next), errors.Join(err, errAddresses)
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// reconcilePoint releases the claim of a class on a port of an address or of the nodes, if it is to be released. Such claims come and go
// with those on the ports of the class, and no lock keeps them from that.
func (r *claimReconciler) reconcilePoint(ctx context.Context, req claimRequest) (reconcile.Result, error) {
	c, err := r.View.Claim(ctx, req.At.Name())
	if err != nil || c == nil || claim.HolderOf(c) != req.Holder {
		return reconcile.Result{}, err
	}
	again, err := r.release(ctx, req, []*v1beta1.EdgeClaim{c})
	return reconcile.Result{RequeueAfter: again}, err
}

// claimsOf lists the claims of a holder, those on addresses and on ports of nodes apart from the others.
func (r *claimReconciler) claimsOf(ctx context.Context, holder claim.Holder) (addresses, others []*v1beta1.EdgeClaim, err error) {
	claims, err := r.View.Claims.Of(ctx, holder)
	for _, c := range claims {
		if at := coordinateOf(c); at.IsAddress() || at.IsNode() {
			addresses = append(addresses, c)
		} else {
			others = append(others, c)
		}
	}
	return addresses, others, err
}

// releaseAddresses releases claims on addresses, as release does, while their Service is locked. They are read under the lock, too.
func (r *claimReconciler) releaseAddresses(ctx context.Context, req claimRequest) (again time.Duration, err error) {
	unlock, err := r.services.Lock(ctx, req.Holder.Key())
	if err != nil {
		return 0, err
	}
	defer unlock()
	addresses, _, err := r.claimsOf(ctx, req.Holder)
	if err != nil {
		return 0, err
	}
	return r.release(ctx, req, addresses)
}

// release releases those of a holder's claims that are to be released, side by side. It returns when to look at them again, 0
// for never.
func (r *claimReconciler) release(ctx context.Context, req claimRequest, claims []*v1beta1.EdgeClaim) (again time.Duration, err error) {
	if len(claims) == 0 {
		return 0, nil
	}
	known, err := r.readHolder(ctx, r.View.Reader, req.Holder, claims)
	if err != nil {
		return 0, err
	}
	live := sync.OnceValues(func() (*holderReading, error) {
		return r.readHolder(ctx, kube.SlimReader{Reader: r.Live}, req.Holder, claims)
	})
	waits, errs := make([]time.Duration, len(claims)), make([]error, len(claims))
	group := errgroup.Group{}
	group.SetLimit(releasesAtOnce)
	for i, c := range claims {
		group.Go(func() error {
			waits[i], errs[i] = r.reconcileClaim(ctx, c, req.Gone, known, live)
			return errs[i]
		})
	}
	if group.Wait() != nil {
		return 0, errors.Join(errs...)
	}
	return watch.Soonest(waits...), nil
}

// reconcileClaim releases a claim, if it is to be released, and returns when to look at it again, 0 for never. Its holder is
// as the cache knows it, and is looked at live before anything is released.
func (r *claimReconciler) reconcileClaim(
	ctx context.Context, c *v1beta1.EdgeClaim, gone types.UID, known *holderReading, live func() (*holderReading, error),
) (again time.Duration, err error) {
	if c.Spec.Heir != nil {
		return 0, nil // what becomes of it is found out by a look at the heir
	}
	if keep := r.Ledger.GraceLeft(c); keep > 0 && coordinateOf(c).IsHosts() {
		return keep, nil // before its names are looked for: see shares in internal/claim/listener.go
	}
	wanted, err := known.wants(ctx, c)
	if err != nil || wanted.Wants {
		return known.lookAgain(), err
	}
	if listed, err := r.isListedByAnother(ctx, c); err != nil || listed {
		return bridgePoll, err
	}
	if gone == "" && r.View.Claims.Departed(c.Spec.Holder.UID) {
		gone = c.Spec.Holder.UID
	}
	settle := min(settling, r.Ledger.Grace)
	if gone == "" && !wanted.Exists && r.Ledger.GraceLeft(c) > r.Ledger.Grace-settle {
		return settle, nil
	}
	return r.releaseClaim(ctx, c, gone, live)
}

// releaseClaim releases a claim if its holder, looked at live, does not want it, and returns when to look at it again, 0 for never.
func (r *claimReconciler) releaseClaim(
	ctx context.Context, c *v1beta1.EdgeClaim, gone types.UID, live func() (*holderReading, error),
) (again time.Duration, err error) {
	now, err := live()
	if err != nil {
		return 0, err
	}
	if port := forwardedBy(c); !port.IsZero() {
		unlock, err := r.ports.Lock(ctx, port)
		if err != nil {
			return 0, err
		}
		defer unlock()
	}
	if err := r.writes.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer r.writes.Release(1)
	keep, released, err := r.Ledger.Release(ctx, c, now.wants, gone)
	if apierrors.IsConflict(err) {
		return settling, nil // it was renewed meanwhile
	}
	switch {
	case released:
		log.FromContext(ctx).V(1).Info("released", "claim", c.Name)
	case err == nil && keep == 0: // the cache lags behind, and may never show what was seen now
		return settling, nil
	}
	return keep, err
}

// onClaim looks at the claims of a holder when one of them is new or has changed: it may be one too many. Of one on a port
// that is gone it looks at what the port took of the Service in front of the proxy.
func (r *claimReconciler) onClaim() handler.TypedEventHandler[client.Object, claimRequest] {
	return handler.TypedFuncs[client.Object, claimRequest]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q claimQueue) {
			c := e.Object.(*v1beta1.EdgeClaim)
			enqueueHeir(q, c)
			if at := coordinateOf(c); at.IsHTTP() {
				r.enqueueReplaced(ctx, q, at)
			}
			if e.IsInInitialList { // one look at all of them is less than one at each
				q.Add(claimRequest{Holder: claim.HolderOf(c)})
				return
			}
			enqueueClaim(q, c)
			if at := coordinateOf(c); at.IngressClass() != "" { // which takes the place of one that a namesake may have
				for _, holder := range []func(string, string) claim.Holder{claim.ServiceHolder, claim.IngressHolder} {
					q.Add(claimRequest{Holder: holder(c.Spec.Holder.Namespace, c.Spec.Holder.Name)})
				}
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q claimQueue) {
			enqueueClaim(q, e.ObjectNew.(*v1beta1.EdgeClaim))
			enqueueHeir(q, e.ObjectNew.(*v1beta1.EdgeClaim))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q claimQueue) {
			at := coordinateOf(e.Object.(*v1beta1.EdgeClaim))
			enqueueHosts(q, at)
			if at.IsStream() {
				r.enqueueFront(ctx, q, at)
			}
		},
	}
}

func (r *claimReconciler) onStream() handler.TypedEventHandler[client.Object, claimRequest] {
	return onHolder(claim.StreamHolder, watch.StreamChanged())
}

// holderOf is an object of one kind as holder.
type holderOf func(namespace, name string) claim.Holder

// onHolder looks at the claims of an object that has changed.
func onHolder(holder holderOf, changed predicate.Predicate) handler.TypedEventHandler[client.Object, claimRequest] {
	look := func(q claimQueue, obj client.Object, gone types.UID) {
		q.Add(claimRequest{Holder: holder(obj.GetNamespace(), obj.GetName()), Gone: gone})
	}
	return handler.TypedFuncs[client.Object, claimRequest]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q claimQueue) { look(q, e.Object, "") },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q claimQueue) {
			if changed.Update(e) {
				look(q, e.ObjectNew, goneBy(e))
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q claimQueue) { look(q, e.Object, e.Object.GetUID()) },
	}
}

// goneBy is the UID of an object that was deleted and re-created between two looks of the cache.
func goneBy(e event.UpdateEvent) types.UID {
	if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
		return e.ObjectOld.GetUID()
	}
	return ""
}

// onClass looks at what was foreign on the proxy of a class that changed, and at what is held for it of addresses and nodes.
func (r *claimReconciler) onClass() handler.TypedEventHandler[client.Object, claimRequest] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []claimRequest {
		concerned := sets.New(claimRequest{Holder: claim.ClassHolder(obj.GetName())})
		if ref := obj.(*v1beta1.StreamIngressClass).Spec.Service; ref != nil {
			concerned.Insert(claimRequest{Holder: claim.ServiceHolder(ref.Namespace, ref.Name)})
		}
		claims, errOn := r.View.Claims.OfClass(ctx, obj.GetName())
		serving, errFor := r.View.Claims.Serving(ctx, claim.StreamScope(obj.GetName()))
		nodePorts, errNodes := r.View.Claims.OnNodePorts(ctx)
		if err := errors.Join(errOn, errFor, errNodes); err != nil {
			log.FromContext(ctx).Error(err, "could not list the claims of a class")
		}
		for _, c := range slices.Concat(slices.Collect(maps.Values(claims)), serving, nodePorts) {
			at, holder := coordinateOf(c), claim.HolderOf(c)
			foreign, onNodes := at.IsStream() && !holder.IsStream(), at.IsNode() && holder.IsClass()
			if foreign || onNodes || len(c.Spec.RouteNamespaces) > 0 || c.Spec.ClassName == obj.GetName() {
				concerned.Insert(claimRequest{Holder: holder})
			}
		}
		return concerned.UnsortedList()
	})
}
