package loadbalancers

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/allocator"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/loadbalancer"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/reconcilers/access"
	"jeffthecoder.xyz/portcullis/reconcilers/report"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
	"jeffthecoder.xyz/portcullis/reconcilers/write"
)

// loadBalancerReconciler keeps status.loadBalancer of each Service of type LoadBalancer that is Portcullis' to serve.
//
// What a Service has is what it holds in the ledger, not what its status says. kube-proxy takes the status for the truth,
// so an address is claimed before it is listed, and listed no longer before its claim is released. Here and where claims
// on addresses are released, a Service is looked at by one worker at a time.
type loadBalancerReconciler struct {
	access.Access
	// reported is what was last reported about the Services of type LoadBalancer.
	reported *report.ReportedState
	// services locks each of them.
	services *kube.KeyMutex[types.NamespacedName]
	// waiting are the Services that have not all they ask for.
	waiting *waiting
	// looked are the looks past the cache that need not be taken again.
	looked *looked
	// bridges are the Services that stay listed where their heirs are about to be.
	bridges *bridges
	// choosing: of addresses that any will do, one is chosen at a time.
	choosing sync.Mutex
}

func setupLoadBalancer(
	mgr manager.Manager, b access.Access, services *kube.KeyMutex[types.NamespacedName], handOverWait time.Duration,
) error {
	r := &loadBalancerReconciler{
		Access: b, reported: report.NewReportedState(), services: services, waiting: newWaiting(), looked: newLooked(),
		bridges: newBridges(handOverWait),
	}
	registerMetrics(r)
	return builder.ControllerManagedBy(mgr).Named("loadbalancer").
		For(&corev1.Service{}, builder.WithPredicates(r.loadBalancerChanged())).
		WatchesRawSource(watch.OnPools(b.View, r.allLoadBalancers)).
		Watches(&v1beta1.StreamIngressClass{}, handler.EnqueueRequestsFromMapFunc(r.waitingForClass),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.EdgeClaim{}, r.onClaim()).
		Watches(&corev1.Service{}, r.onListing()).
		Watches(&corev1.Node{}, r.onNode()).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(r.serviceOfSlice)).
		Watches(kube.NamespaceObject(), handler.EnqueueRequestsFromMapFunc(r.loadBalancersIn),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WithOptions(watch.Orderly[reconcile.Request](16)).
		Complete(watch.Guarded(b.View, b.Kinds, r))
}

// +kubebuilder:rbac:groups="",resources=services/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch
// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=addresspools,verbs=get;list;watch

// Reconcile gives one Service its addresses, and says so in its status.
func (r *loadBalancerReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	unlock, err := r.services.Lock(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	defer unlock()
	svc, err := r.View.Service(ctx, req.NamespacedName)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case svc == nil:
		r.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	case !r.View.LoadBalancers.IsOurs(svc):
		r.forgetNews(req.NamespacedName)
		err := r.withdrawStatus(ctx, svc)
		if err == nil {
			r.bridges.keep(req.NamespacedName, nil)
		}
		return watch.Later(err)
	}
	again, err := r.serve(ctx, svc)
	switch {
	case errors.Is(err, write.ErrStale):
		return reconcile.Result{RequeueAfter: watch.CacheLag}, nil
	case err != nil:
		return watch.Later(err)
	}
	return reconcile.Result{RequeueAfter: watch.Soonest(again, r.waiting.pause(req.NamespacedName))}, nil
}

// serve gives a Service its addresses. It returns when to look again at one that waits for its heir, 0 for one that does not.
func (r *loadBalancerReconciler) serve(ctx context.Context, svc *corev1.Service) (again time.Duration, err error) {
	o, err := r.decide(ctx, svc)
	if err != nil {
		return 0, err
	}
	if err := r.confirm(ctx, svc, o); err != nil { // before what is bridged, which is none of what it has
		return 0, err
	}
	if again, err = r.bridge(ctx, svc, o); err != nil {
		return 0, err
	}
	return again, r.publish(ctx, svc, o)
}

// outcome is what was decided for a Service.
type outcome struct {
	subject *allocator.Subject
	// allocations are what the Service has, all of it claimed.
	allocations []allocator.Allocation
	// made are those of the claims on that which were made just now.
	made []claim.Taken
	// ingress is what its status is to say.
	ingress []corev1.LoadBalancerIngress
	// problems keep it from having what it asks for.
	problems refusal.Problems
	// awaitsFamily: it is to have an address of another of its families, too, when one is free.
	awaitsFamily bool
	// foreign: another controller serves it, and its status is left alone.
	foreign bool
	// entering is what it has by its status alone.
	entering allocator.Entering
	// denied is a point that it holds, and can't be listed with, as somebody else has a claim beside it; zero for none.
	denied claim.Coordinate
	// handed are the addresses that its status lists, and the heir that it names has.
	handed []netip.Addr
}

// decide finds out what a Service is to have, and claims it.
func (r *loadBalancerReconciler) decide(ctx context.Context, svc *corev1.Service) (*outcome, error) {
	s, problems, err := r.subjectOf(ctx, svc)
	if err != nil {
		return nil, err
	}
	o := &outcome{subject: s, problems: problems}
	if err := r.enter(ctx, o); err != nil || o.entering.All() {
		return o, err
	}
	if o.handed, err = r.handedOver(ctx, svc, o.entering.Lost); err != nil {
		return nil, err
	}
	o.entering.Leave(s)
	if o.foreign, err = r.isForeign(ctx, svc, o); err != nil {
		return nil, err
	}
	if o.foreign && len(problems) == 0 {
		problems = adopt(s)
		o.problems = problems
	}
	if len(problems) == 0 {
		d, made, err := r.allocate(ctx, s)
		if err != nil {
			return nil, err
		}
		o.allocations, o.made, o.problems = d.Allocations, append(o.made, made...), d.Problems
	}
	if len(o.problems) == 0 {
		o.foreign = false
		if o.ingress, o.problems, err = r.ingressOf(ctx, svc, s, o.allocations); err != nil {
			return nil, err
		}
	}
	if len(o.problems) == 0 {
		o.awaitsFamily, err = kube.Decide(ctx, r.View, func(f *kube.Facts) bool { return allocator.AwaitsFamily(f, s, o.allocations) })
		if len(o.entering.Stays) > 0 {
			o.ingress, o.problems = append(o.ingress, o.besideIngress()...), ungiven(o.entering)
		}
		return o, err
	}
	if o.foreign {
		return o, nil
	}
	return o, r.retain(ctx, svc, o)
}

// retain decides what stays of a Service that can't have what it asks for: what it has, if that is still given to it
// with all its ports, and what its status lists that no pool gives it, which is entered when one does.
func (r *loadBalancerReconciler) retain(ctx context.Context, svc *corev1.Service, o *outcome) error {
	if len(o.entering.Stays)+len(o.entering.Leaves) > 0 {
		return r.stayIn(ctx, o)
	}
	retained, err := r.retained(ctx, svc, o)
	if err != nil {
		return err
	}
	if len(retained) > 0 {
		ingress, problems, err := r.ingressOf(ctx, svc, o.subject, retained)
		if err != nil {
			return err
		}
		if len(problems) == 0 {
			o.allocations, o.ingress = retained, ingress
			return nil
		}
	}
	if refused := loadbalancer.RefusedPorts(o.problems, o.subject.Ports); len(refused) > 0 {
		o.ingress = loadbalancer.Refused(o.subject.Ports, refused)
	}
	return nil
}

// retained are the allocations that a Service keeps while it waits. What it would lose is looked for past the cache: that may not show
// yet what was claimed as the Service was changed, and what is taken away now would not come back, as the Service asks for something else.
func (r *loadBalancerReconciler) retained(ctx context.Context, svc *corev1.Service, o *outcome) ([]allocator.Allocation, error) {
	s := o.subject
	decide := func() ([]allocator.Allocation, error) {
		return kube.Decide(ctx, r.View, func(f *kube.Facts) []allocator.Allocation { return allocator.Retained(f, s) })
	}
	retained, err := decide()
	onNodes := func(allocation allocator.Allocation) bool { return !allocation.Address.IsValid() }
	isAll := len(retained) >= len(loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)) || slices.ContainsFunc(retained, onNodes)
	if err != nil || isAll {
		return retained, err
	}
	held, err := r.View.Claims.HeldLive(ctx, claim.ServiceHolder(svc.Namespace, svc.Name))
	if err != nil {
		return nil, err
	}
	if held = o.withoutDenied(loadbalancer.Own(held)); slices.Equal(held, s.Held) {
		return retained, nil
	}
	s.Held = held
	return decide()
}

// subjectOf reads what a Service requests, and what it holds.
func (r *loadBalancerReconciler) subjectOf(ctx context.Context, svc *corev1.Service) (*allocator.Subject, refusal.Problems, error) {
	request, problems := loadbalancer.RequestOf(svc)
	holder := claim.ServiceHolder(svc.Namespace, svc.Name)
	held, err := r.View.Claims.Held(ctx, holder)
	if err != nil {
		return nil, nil, err
	}
	held = loadbalancer.Own(held)
	// The cache of claims may lag behind that of Services: nothing may move for that.
	if !loadbalancer.Backs(held, loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)) && !r.looked.agreed(svc, held) {
		live, err := r.View.Claims.HeldLive(ctx, holder)
		if err != nil {
			return nil, nil, err
		}
		live = loadbalancer.Own(live)
		r.looked.set(svc, held, live)
		held = live
	}
	return &allocator.Subject{Service: svc, Request: request, Held: held}, problems, nil
}

// isForeign says whether another controller has given a Service its addresses: one that no class assigns to either, and
// that holds nothing. What the managed fields say of who wrote them is the tenant's to write.
func (r *loadBalancerReconciler) isForeign(ctx context.Context, svc *corev1.Service, o *outcome) (bool, error) {
	if len(o.subject.Held) > 0 || !loadbalancer.IsAddressed(svc.Status.LoadBalancer.Ingress) {
		return false, nil
	}
	served, err := kube.Decide(ctx, r.View, func(f *kube.Facts) bool { return allocator.IsServed(f, svc) })
	return !served, err
}

// withdrawStatus clears the status of a Service that Portcullis does not serve, if it lists what the Service holds, or where it was to stay
// listed until its heir is. The claims follow when the cache shows it.
func (r *loadBalancerReconciler) withdrawStatus(ctx context.Context, svc *corev1.Service) error {
	listed := loadbalancer.Listed(svc.Status.LoadBalancer.Ingress)
	if len(listed) == 0 {
		return nil
	}
	held, err := r.View.Claims.Held(ctx, claim.ServiceHolder(svc.Namespace, svc.Name))
	if err != nil {
		return err
	}
	for _, ip := range listed {
		ours := loadbalancer.HoldsOf(held, ip) || slices.Contains(r.bridges.at(ip), client.ObjectKeyFromObject(svc))
		if !ours && slices.ContainsFunc(held, claim.Coordinate.IsNode) {
			if ours, err = r.View.LoadBalancers.IsNodeAddress(ctx, ip); err != nil {
				return err
			}
		}
		if ours {
			return r.writeIngress(ctx, svc, nil)
		}
	}
	return nil
}

func (r *loadBalancerReconciler) forget(key types.NamespacedName) {
	r.forgetNews(key)
	r.bridges.keep(key, nil)
}

func (r *loadBalancerReconciler) forgetNews(key types.NamespacedName) {
	r.reported.Forget(key)
	r.waiting.remove(key)
	r.looked.forget(key)
}
