package streams

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/internal/kube"
	"jeffthecoder.xyz/portcullis/internal/refusal"
	"jeffthecoder.xyz/portcullis/internal/stream"
	"jeffthecoder.xyz/portcullis/reconcilers/watch"
)

// classReconciler tells the proxy of each class which streams it serves. The unit of work is the class: its ConfigMaps
// are computed whole from what exists now. Its Service is left to serviceReconciler.
type classReconciler struct {
	base
	pacer    *pacer
	services *serviceReconciler
	reports  *classReports
	refused  *refusedDoors
	// holders locks each holder of addresses: what a class has claimed is not released before its status says so.
	holders *kube.KeyMutex[types.NamespacedName]
}

func setupClass(mgr manager.Manager, b base, refused *refusedDoors, holders *kube.KeyMutex[types.NamespacedName]) error {
	reports := newClassReports()
	r := &classReconciler{
		base: b, pacer: newPacer(clock.RealClock{}), services: newServiceReconciler(b, reports), reports: reports, refused: refused,
		holders: holders,
	}
	if err := r.services.setup(mgr); err != nil {
		return err
	}
	return b.onUpstreams(mgr, builder.ControllerManagedBy(mgr).Named("streamingressclass"), r.classesServing, r.everyClass).
		For(&v1beta1.StreamIngressClass{}, builder.WithPredicates(watch.SpecOrMetadataChanged())).
		// A class that goes may leave room for another.
		Watches(&v1beta1.StreamIngressClass{}, handler.EnqueueRequestsFromMapFunc(r.allClasses),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		// Classes whose Gateways have an address in common share their ports.
		Watches(&v1beta1.StreamIngressClass{}, handler.EnqueueRequestsFromMapFunc(r.classesOfGateways),
			builder.WithPredicates(addressesChanged())).
		// With the first pool of the nodes' addresses, what proxies have there is somebody's.
		WatchesRawSource(watch.OnPools(b.View, r.everyClass)).
		Watches(&v1beta1.StreamIngress{}, handler.EnqueueRequestsFromMapFunc(r.asked(r.classOfStream)),
			builder.WithPredicates(watch.StreamChanged())).
		Watches(&v1beta1.EdgeClaim{}, r.onClaim()).
		WatchesRawSource(watch.OnTarget[*corev1.ConfigMap](b.View, handler.EnqueueRequestsFromMapFunc(r.classesOfTarget))).
		WatchesRawSource(watch.OnTarget[*corev1.Service](b.View, handler.EnqueueRequestsFromMapFunc(r.classesOfTarget), frontChanged())).
		WatchesRawSource(r.onGateways(mgr, &gatewayv1.Gateway{}, handler.EnqueueRequestsFromMapFunc(r.classesOfGateway))).
		WatchesRawSource(r.onGateways(mgr, &gatewayv1.GatewayClass{}, handler.EnqueueRequestsFromMapFunc(r.classesOfGateways))).
		WatchesRawSource(r.onGateways(mgr, &gatewayv1.ListenerSet{}, onListeners(r.classesOfSet))).
		WatchesRawSource(r.onGateways(mgr, &gatewayv1.TCPRoute{}, onEnd(r.classOfRoute))).
		WatchesRawSource(r.onGateways(mgr, &gatewayv1.UDPRoute{}, onEnd(r.classOfRoute))).
		Watches(kube.NamespaceObject(), handler.EnqueueRequestsFromMapFunc(r.classesSelecting),
			builder.OnlyMetadata, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Channel(refused.changed, handler.EnqueueRequestsFromMapFunc(itself))).
		WithOptions(watch.Orderly[reconcile.Request](1)).
		Complete(watch.Guarded(b.View, b.Kinds, r))
}

// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=streamingressclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=nginx-stream.jeffthecoder.xyz,resources=streamingressclasses/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=referencegrants,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile tells the proxy of one class which streams it serves.
func (r *classReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if wait := r.pacer.wait(req.Name); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	class, err := r.View.Class(ctx, req.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if class == nil {
		return r.close(ctx, req.Name)
	}
	if class.Spec.AddressPool != nil {
		return r.allocate(ctx, class)
	}
	taken, err := r.targetConflict(ctx, class)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(taken) > 0 {
		r.services.entered.drop(class.Name)
		r.reports.forget(class.Name)
		return watch.Later(r.reportConflict(ctx, class, taken))
	}
	if class.Spec.Gateway != nil {
		return r.serveGateway(ctx, class)
	}
	began := time.Now()
	report, entered, err := r.program(ctx, class)
	r.pacer.done(class.Name, report.wrote, time.Since(began))
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: paceFirst}, nil // somebody else has written, the cache will show it
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if report.wrote {
		r.services.pacer.follow(class.Name)
	}
	r.services.entered.set(class, entered)
	if whole, complete := r.reports.ofConfigMaps(class, report); complete {
		if err := r.reportClass(ctx, class, whole); err != nil {
			return watch.Later(err)
		}
	}
	return reconcile.Result{RequeueAfter: report.again()}, nil
}

// close gives back what the streams of a class that is deleted had taken over.
func (r *classReconciler) close(ctx context.Context, name string) (reconcile.Result, error) {
	r.pacer.forget(name)
	r.reports.forget(name)
	r.services.entered.drop(name)
	r.refused.forget(name)
	forgetClassMetrics(name)
	claims, err := r.View.Claims.OfClass(ctx, name)
	if err != nil {
		return reconcile.Result{}, err
	}
	var report classReport
	if err := r.giveBack(ctx, nil, claims, nil, &report); err != nil {
		return watch.Later(err)
	}
	for _, refused := range report.refused { // there is no status that says so
		log.FromContext(ctx).Info("the API server refuses to give an entry back", "protocol", refused.Protocol, "port", refused.Port,
			"error", refused.Message)
	}
	return reconcile.Result{RequeueAfter: report.again()}, nil
}

// program enters what is foreign into the ledger, and writes the entries that the streams of the class need. It returns the
// ports whose entries the ConfigMaps have then.
func (r *classReconciler) program(
	ctx context.Context, class *v1beta1.StreamIngressClass,
) (report classReport, entered map[stream.PortKey]bool, err error) {
	s, err := r.gather(ctx, class)
	if err != nil {
		return report, nil, err
	}
	granted, asked, err := r.grantedStreams(ctx, s)
	if err != nil {
		return report, nil, err
	}
	if err := r.noteBehind(ctx, s, asked, &report); err != nil {
		return report, nil, err
	}
	if err := r.giveBack(ctx, class, s.claims, asked, &report); err != nil {
		return report, nil, err
	}
	if err := r.enterForeign(ctx, s); err != nil {
		return report, nil, err
	}
	entered = map[stream.PortKey]bool{}
	for _, cm := range s.configMaps {
		wanted, err := r.wantedEntries(ctx, cm, granted)
		if err != nil {
			return report, nil, err
		}
		if err := r.claimNodes(ctx, s, cm, wanted, &report); err != nil {
			return report, nil, err
		}
		if err := r.noteAdopted(ctx, s, cm, wanted, &report); err != nil {
			return report, nil, err
		}
		if err := r.retain(ctx, s, cm, wanted, &report); err != nil {
			return report, nil, err
		}
		written, err := r.programConfigMap(ctx, class, cm, wanted, &report)
		if err != nil {
			return report, nil, err
		}
		for _, port := range written {
			entered[stream.PortKey{Protocol: cm.protocol, Port: port}] = true
		}
	}
	return report, entered, nil
}

// enterForeign makes sure that everything on the proxy that Portcullis has not made has a claim, so that one rule
// covers every conflict. A point that a stream holds stays with it.
func (r *classReconciler) enterForeign(ctx context.Context, s *proxyState) error {
	enter := func(port stream.PortKey, holder claim.Holder, uid types.UID) error {
		return r.enter(ctx, claim.Stream(s.class.Name, port.Protocol, port.Port), s.claims, claim.Claimant{Holder: holder, UID: uid})
	}
	for _, cm := range s.configMaps {
		holder := claim.ConfigMapHolder(cm.ref.Namespace, cm.ref.Name)
		for port := range cm.current.Foreign {
			if err := enter(stream.PortKey{Protocol: cm.protocol, Port: port}, holder, cm.object.UID); err != nil {
				return fmt.Errorf("entering the foreign keys of ConfigMap %s/%s: %w", cm.ref.Namespace, cm.ref.Name, err)
			}
		}
	}
	for port := range s.front.Foreign {
		if err := enter(port, claim.ServiceHolder(s.service.Namespace, s.service.Name), s.service.UID); err != nil {
			return fmt.Errorf("entering the foreign ports of Service %s/%s: %w", s.service.Namespace, s.service.Name, err)
		}
	}
	return nil
}

// enter makes sure that a point that is foreign has a claim, among those of the class, unless a stream holds it.
func (r *classReconciler) enter(
	ctx context.Context, at claim.Coordinate, claims map[claim.Coordinate]*v1beta1.EdgeClaim, by claim.Claimant,
) error {
	if at.IsZero() {
		return nil
	}
	if c := claims[at]; c != nil {
		if claim.HolderOf(c) == by.Holder && c.Spec.Holder.UID != by.UID { // it was made anew, and has the port again
			return client.IgnoreNotFound(r.Ledger.Identify(ctx, c, by.UID))
		}
		return nil
	}
	c, err := r.Ledger.Claim(ctx, by, nil, at)
	if claim.IsHeld(err) {
		return nil // a stream was faster; the ledger decides
	}
	if err == nil {
		claims[at] = c
	}
	return err
}

// targetConflict finds what another class writes to already. Admission lets no second class in; of two that got past
// it, the one that was created first writes.
func (r *classReconciler) targetConflict(ctx context.Context, class *v1beta1.StreamIngressClass) (refusal.Problems, error) {
	yields := func(other *v1beta1.StreamIngressClass) bool {
		if !other.CreationTimestamp.Equal(&class.CreationTimestamp) {
			return other.CreationTimestamp.Before(&class.CreationTimestamp)
		}
		return other.Name < class.Name
	}
	return kube.Decide(ctx, r.View, func(f *kube.Facts) refusal.Problems { return stream.ClassTargets(f, class, yields) })
}

// asked tells the pacers of the classes that something is asked of.
func (r *classReconciler) asked(find handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		requests := find(ctx, obj)
		for _, req := range requests {
			r.pacer.ask(req.Name)
			r.services.pacer.ask(req.Name)
		}
		return requests
	}
}

// classOfStream finds the class whose proxy a stream concerns; all of them while that is not settled, or the stream moves.
func (r *classReconciler) classOfStream(ctx context.Context, obj client.Object) []reconcile.Request {
	si := obj.(*v1beta1.StreamIngress)
	isOfOne := si.Status.ClassName == "" || si.Status.ClassName == si.Spec.ClassName && si.Status.Previous == nil
	if si.Spec.ClassName != "" && isOfOne {
		return []reconcile.Request{watch.ForName(si.Spec.ClassName)}
	}
	return r.allClasses(ctx, obj)
}

// onClaim looks at the class of a port when a claim on it comes, changes or goes. When one on a port of the nodes goes, or becomes
// another's, it looks at the classes whose proxies have that port there: as long as one of them claimed it, the others did not.
func (r *classReconciler) onClaim() handler.EventHandler {
	changed := handler.EnqueueRequestsFromMapFunc(r.asked(classOfClaim))
	lost := handler.EnqueueRequestsFromMapFunc(r.asked(r.classesOnPort))
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q watch.Queue) {
			if !r.isEarly(ctx, e.Object.(*v1beta1.EdgeClaim)) {
				changed.Create(ctx, e, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q watch.Queue) {
			changed.Update(ctx, e, q)
			if claim.HolderOf(e.ObjectOld.(*v1beta1.EdgeClaim)) != claim.HolderOf(e.ObjectNew.(*v1beta1.EdgeClaim)) {
				lost.Update(ctx, e, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q watch.Queue) {
			changed.Delete(ctx, e, q)
			lost.Delete(ctx, e, q)
		},
	}
}

// classesOnPort finds the classes whose proxies are on the nodes, and of which somebody has the port of a claim there.
func (r *classReconciler) classesOnPort(ctx context.Context, obj client.Object) []reconcile.Request {
	at, err := claim.Parse(obj.GetName())
	if err != nil || !at.IsNode() {
		return nil
	}
	classes, err := r.View.ClassesOnNodes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "could not list the classes whose proxies are on the nodes")
	}
	var requests []reconcile.Request
	for i := range classes {
		port := claim.Stream(classes[i].Name, at.Protocol(), at.Port())
		if c, err := r.View.Claim(ctx, port.Name()); err != nil || c != nil {
			requests = append(requests, watch.ForName(classes[i].Name))
		}
	}
	return requests
}

// classOfClaim finds the class of a port, or the one that has an address.
func classOfClaim(_ context.Context, obj client.Object) []reconcile.Request {
	at, err := claim.Parse(obj.GetName())
	if holder := claim.HolderOf(obj.(*v1beta1.EdgeClaim)); err == nil && at.IsAddress() && at.Port() == 0 && holder.IsClass() {
		return []reconcile.Request{watch.ForName(holder.Name)}
	}
	if err != nil || !at.IsStream() {
		return nil
	}
	return []reconcile.Request{watch.ForName(at.Class())}
}

// classesOfTarget finds the classes that name an object.
func (r *classReconciler) classesOfTarget(ctx context.Context, obj client.Object) []reconcile.Request {
	return requestsFor(r.naming(ctx, obj))
}

func (r *classReconciler) allClasses(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.everyClass(ctx)
}

func (r *classReconciler) everyClass(ctx context.Context) []reconcile.Request {
	return requestsFor(r.classes(ctx))
}
